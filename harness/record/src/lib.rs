//! The public contract of gpubench: the record, the messages between coordinator and tenant, and
//! exit codes.
//!
//! Types and their text forms only. No I/O, no clock, no device: a reader of records needs this
//! crate and nothing else.
#![warn(missing_docs)]

pub mod calibration;
pub mod cell;
pub mod claim;
pub mod condition;
pub mod cpu_gaps;
pub mod dose;
pub mod ecc;
pub mod estimate;
pub mod event;
pub mod excerpt;
pub mod exit_code;
pub mod fault;
pub mod figures;
pub mod gate;
pub mod interruption;
pub mod json;
pub mod margins;
pub mod matrix;
pub mod mechanism;
pub mod operator;
pub mod outcome;
pub mod plan;
mod planned;
pub mod probe;
pub mod proof;
pub mod provenance;
pub mod refusal;
pub mod rotation;
pub mod run;
pub mod sample;
pub mod service;
pub mod speed;
pub mod spread;
pub mod surroundings;
pub mod tally;
pub mod telemetry;
pub mod top_up;
pub mod user_victim;
pub mod version;
pub mod wire;
pub mod workload;
pub mod xid;

pub use calibration::{
    Calibration, CalibrationBasis, CalibrationBinding, CalibrationEntry, CeilingKind, PeakEntry,
};
pub use cell::{
    CellResult, GateKind, GateResult, GateScope, GateState, TenantIdentity, TenantResult,
};
pub use claim::{Claim, ClaimFigure, ClaimRow, ClaimedWord, Comparison, Quantity, Verdict};
pub use condition::{Axis, Condition, Role, SubAxis};
pub use cpu_gaps::{CpuGaps, Gaps, LONG_GAP_NS, LongGaps, PhaseGaps};
pub use dose::{Dose, DoseCurve, DosePoint, DoseRise};
pub use ecc::EccCounts;
pub use estimate::{Ends, Estimate, Parts};
pub use event::RunEvent;
pub use excerpt::{
    EXCERPT_BYTES_MAX, counted, excerpt, on_one_line, parser_error, parser_message,
    with_short_words,
};
pub use exit_code::ExitCode;
pub use fault::{
    Control, ExpectedAnswer, FaultFacts, FaultObservation, FaultResult, FaultTrial, Harm,
    InjectorResult, NewClient, VictimOutcome,
};
pub use figures::{CellFigures, TenantFigures};
pub use gate::Gate;
pub use interruption::{Interruption, Left, RunSettings};
pub use json::Json;
pub use margins::Margins;
pub use matrix::{BLOCKS_MIN, BlocksLost, LostBlock, LostKind, MatrixRow, OverallRow};
pub use mechanism::{MechanismProperties, MechanismRow, Sharing, SmNumbers, TenantForm};
pub use operator::{OperatorRow, TenantTime};
pub use outcome::{Outcome, OutcomeKind};
pub use plan::{Cell, CellTenant, Durations, Plan, PlannedPair, Skip, Thresholds, WorkloadFacts};
pub use probe::{
    BypassRun, CallTimes, CallTrials, CapCall, CompletedRequests, EscapeOutcome, EscapeRoute,
    ExhaustTrial, Exhausted, LaunchStamp, LaunchTrials, ProbeFigure, ProbeFound, ProbeReply,
    ProbeResult, ProbeStep, SmPlacementPair, SubmitRoute, TracePair, WorkSeries,
};
pub use proof::{Proof, ProofTime, RequiredProof};
pub use provenance::{DeviceIdentity, DeviceKind, Provenance};
pub use refusal::{RefusalKind, Verification};
pub use rotation::{NotPlanned, Rotation};
pub use run::{RecordLeftOut, RunRecord};
pub use sample::{Phase, SampleRow, SampleStatus};
pub use service::{ServiceRow, TenantLimit};
pub use speed::{DeviceSpeed, Heating, SoakPlan, SpeedCheck};
pub use spread::{Spread, VictimSpread};
pub use surroundings::{CellSpan, EccSpan, Surroundings, Unobserved};
pub use tally::FaultTally;
pub use telemetry::TelemetryRow;
pub use top_up::{TopUp, TopUpDecision, TopUpReason, TopUpRow};
pub use version::{FIRST_VERSION, FORMAT_VERSION, FormatVersion};
pub use wire::{FromTenant, ToTenant};
pub use workload::{Bursts, LoadSpec, WorkloadSpec};
pub use xid::XidLine;
