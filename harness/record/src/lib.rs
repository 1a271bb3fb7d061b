//! The public contract of gpubench: the record, the messages between coordinator and tenant, and
//! exit codes.
//!
//! Types and their text forms only. No I/O, no clock, no device: a reader of records needs this
//! crate and nothing else.
#![warn(missing_docs)]

/// Declares an enum with one name for each variant, which records and texts have.
macro_rules! named {
    ($(#[$meta:meta])* pub enum $name:ident {
        $($(#[$of_variant:meta])* $variant:ident = $text:literal,)*
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        pub enum $name {
            $($(#[$of_variant])* #[serde(rename = $text)] $variant,)*
        }

        impl $name {
            /// The name in records, in tables and on the command line.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}

pub mod calibration;
pub mod cell;
pub mod claim;
pub mod condition;
pub mod event;
pub mod excerpt;
pub mod exit_code;
pub mod fault;
pub mod figures;
pub mod gate;
pub mod interruption;
pub mod json;
pub mod matrix;
pub mod mechanism;
pub mod meter;
pub mod output;
pub mod plan;
pub mod probe;
pub mod provenance;
pub mod regular_file;
pub mod run;
pub mod sample;
pub mod telemetry;
pub mod thresholds;
pub mod time_use;
pub mod user_victim;
pub mod version;
pub mod wire;

pub use calibration::{
    Calibration, CalibrationBasis, CalibrationBinding, CalibrationEntry, CeilingKind, PeakEntry,
};
pub use calibration::{DeviceSpeed, Heating, SoakPlan, SpeedCheck};
pub use calibration::{SessionLatencies, Spread, VictimSpread};
pub use cell::{
    CellResult, GateKind, GateResult, GateScope, GateState, TenantIdentity, TenantResult,
};
pub use cell::{CellSpan, EccSpan, EventObserved, Surroundings, Unobserved};
pub use cell::{CpuGaps, Gaps, LONG_GAP_NS, LongGaps, PhaseGaps};
pub use claim::{Claim, ClaimFigure, ClaimRow, ClaimedWord, Comparison, Quantity, Verdict};
pub use condition::{AGGRESSOR_DEPTH, VICTIM_DEPTH};
pub use condition::{Axis, Condition, Event, Role, Shape, Sparse, SubAxis};
pub use condition::{Bursts, LoadSpec, WorkloadSpec};
pub use event::RunEvent;
pub use excerpt::{
    EXCERPT_BYTES_MAX, acts, counted, excerpt, on_one_line, parser_error, parser_message,
    with_short_words,
};
pub use exit_code::ExitCode;
pub use exit_code::{Outcome, OutcomeKind};
pub use fault::FaultTally;
pub use fault::{
    Control, ExpectedAnswer, FaultFacts, FaultObservation, FaultResult, FaultTrial, Harm,
    InjectorResult, NewClient, VictimOutcome,
};
pub use figures::{CellFigures, TenantFigures};
pub use figures::{Dose, DoseCurve, DosePoint, DoseRise};
pub use figures::{Ends, Estimate, Parts};
pub use gate::Gate;
pub use interruption::{INTERRUPTED, Interruption, Left, RunSettings};
pub use json::Json;
pub use matrix::Margins;
pub use matrix::{AtLoad, ServiceRow, TenantLimit, TransientRow};
pub use matrix::{BLOCKS_MIN, BlocksLost, LostBlock, LostKind, MatrixRow, OverallRow};
pub use matrix::{OperatorRow, TenantProgress, TenantTime};
pub use mechanism::{MechanismProperties, MechanismRow, Sharing, SmNumbers, TenantForm};
pub use mechanism::{Proof, ProofTime, RequiredProof};
pub use meter::{AttributionRow, Counter, EnergyRow, Meter, MeterReading, TenantShare};
pub use output::OutputCheck;
pub use plan::WorkloadFacts;
pub use plan::{Cell, CellTenant, Durations, Plan, PlannedPair, Skip};
pub use plan::{FrozenPlan, NotPlanned, Rotation};

pub use probe::{
    BypassRun, CallTimes, CallTrials, CapCall, CompletedRequests, EscapeOutcome, EscapeRoute,
    ExhaustTrial, Exhausted, LaunchStamp, LaunchTrials, ProbeFigure, ProbeFound, ProbeReply,
    ProbeResult, ProbeStep, SmPlacementPair, SubmitRoute, TracePair, WorkSeries,
};
pub use provenance::{DeviceIdentity, DeviceKind, MACHINE_GUESSES, Provenance};
pub use run::{RecordLeftOut, RunRecord};
pub use sample::{Phase, SampleRow, SampleStatus};
pub use telemetry::EccCounts;
pub use telemetry::TelemetryRow;
pub use telemetry::XidLine;
pub use thresholds::Thresholds;
pub use time_use::{PlannedTime, SpentTime, TimePart};
pub use time_use::{TopUp, TopUpDecision, TopUpReason, TopUpRow};
pub use version::{FIRST_VERSION, FORMAT_VERSION, FormatVersion};
pub use wire::{FromTenant, ToTenant};
pub use wire::{RefusalKind, Verification};
