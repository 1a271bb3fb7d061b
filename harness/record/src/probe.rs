//! Probes: checks of tenants that do not produce a throughput. [`step`] has the steps that a tenant
//! does, [`finding`] what a whole probe found, [`figure`] the figures made from findings.

mod compute;
mod escape;
mod figure;
mod finding;
mod memory;
mod out_of_memory;
pub mod step;

pub use compute::{
    CallTimes, CallTrials, CompletedRequests, LaunchStamp, LaunchTrials, SmPlacementPair,
    TracePair, WorkSeries,
};
pub use escape::{BypassRun, EscapeOutcome, EscapeRoute, SubmitRoute};
pub use figure::ProbeFigure;
pub use finding::{ProbeFound, ProbeResult};
pub use memory::CapCall;
pub use out_of_memory::{ExhaustTrial, Exhausted};
pub use step::{ProbeReply, ProbeStep};
