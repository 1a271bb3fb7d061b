//! The steps of probes: what the coordinator sends to a tenant, and what the tenant replies.
//!
//! To add a step, write its struct here and add its line to `steps!`; its implementation is a file
//! in `workloads/src/probe/`. Both ends are the same binary, so names here can change freely.

use serde::{Deserialize, Serialize};

use super::finding::Exhausted;
use super::{BypassRun, SubmitRoute};
use super::{CallTimes, CompletedRequests, LaunchStamp};
use crate::condition::WorkloadSpec;

/// A step with the type of its reply.
pub trait Step: Sized {
    /// The reply of a tenant that did the step.
    type Reply;

    /// The step as it is sent.
    fn into_step(self) -> ProbeStep;

    /// The reply of this step.
    /// Fails with the reply, when it is that of another step.
    fn reply(reply: ProbeReply) -> Result<Self::Reply, Box<ProbeReply>>;
}

/// Declares the two messages, with a variant for each step.
macro_rules! steps {
    ($( $step:ident => $reply:ty, )*) => {
        /// One step of a probe, from the coordinator to a tenant.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum ProbeStep {
            $( #[doc = concat!("See [`", stringify!($step), "`].")] $step($step), )*
        }

        /// What a tenant replies to one step.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum ProbeReply {
            $( #[doc = concat!("To [`", stringify!($step), "`].")] $step($reply), )*
        }

        $( impl Step for $step {
            type Reply = $reply;

            fn into_step(self) -> ProbeStep {
                ProbeStep::$step(self)
            }

            fn reply(reply: ProbeReply) -> Result<$reply, Box<ProbeReply>> {
                match reply {
                    ProbeReply::$step(reply) => Ok(reply),
                    other => Err(Box::new(other)),
                }
            }
        } )*
    };
}

steps! {
    MarkPages => MarkedPages,
    ScanPages => ScannedPages,
    AllocateByCall => Allocated,
    AllocateAndKeep => Allocated,
    ExhaustMemory => Exhausted,
    ReleaseMemory => (),
    ReadMemoryInfo => MemoryInfo,
    ReadAddresses => AddressReads,
    TraceTimeSlices => TimeSliceSpans,
    RunRequests => CompletedRequests,
    TimeLaunches => Vec<LaunchStamp>,
    LimitBypass => BypassRun,
    ExportMemory => ExportedMemory,
    ImportMemory => ImportedMemory,
    TimeDriverCalls => CallTimes,
    RunCanary => Vec<Vec<CanaryRequest>>,
}

/// Allocates pages, writes a mark into each, counts them, and keeps them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarkPages {
    /// How many pages.
    pub pages: u64,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Seed of the mark.
    pub seed: u32,
}

/// Marked pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarkedPages {
    /// How many were marked.
    pub pages: u64,
    /// Of these, how many a scan by the same tenant found again.
    pub found: u64,
    /// Addresses of the first pages.
    pub addresses: Vec<u64>,
}

/// Allocates pages without writing to them, counts those that carry a mark, and frees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanPages {
    /// How many pages; fewer are scanned if the driver refuses.
    pub pages: u64,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Seed of the mark.
    pub seed: u32,
}

/// Scanned pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScannedPages {
    /// How many were scanned.
    pub pages: u64,
    /// Of these, how many carried the mark.
    pub stale: u64,
}

/// Allocates memory by one call until the driver refuses, and frees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocateByCall {
    /// The call, as cuda.h names it.
    pub call: String,
    /// Where to stop if the driver never refuses.
    pub max_bytes: u64,
}

/// Allocates memory by `cuMemAlloc` in pieces until the driver refuses, and keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocateAndKeep {
    /// Where to stop if the driver never refuses.
    pub max_bytes: u64,
    /// Number of pieces; a last, smaller piece holds the remainder.
    pub pieces: u32,
}

/// Allocated memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocated {
    /// How much.
    pub bytes: u64,
    /// `CUresult` of the refusal that ended it; absent without a refusal.
    pub refused_with: Option<i32>,
}

/// Allocates memory until the driver refuses, checks that the context still works, and frees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExhaustMemory {
    /// Where to stop if the driver never refuses.
    pub max_bytes: u64,
}

/// Frees all memory that earlier steps kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseMemory {}

/// Reads `cuMemGetInfo`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadMemoryInfo {}

/// What `cuMemGetInfo` returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryInfo {
    /// All memory.
    pub total_bytes: u64,
    /// Free memory.
    pub free_bytes: u64,
}

/// Copies words from addresses of another tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadAddresses {
    /// The addresses.
    pub addresses: Vec<u64>,
    /// Seed of the mark that the other tenant wrote there.
    pub seed: u32,
}

/// Results of the copies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressReads {
    /// Copies that the driver refused.
    pub refused: u32,
    /// Copies that returned the other tenant's mark.
    pub marked: u32,
    /// Copies that returned anything else: the address is valid in the reader as well.
    pub other: u32,
    /// `CUresult` of the first refusal.
    pub refused_with: Option<i32>,
}

/// Reads the device's clock from one block without a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceTimeSlices {
    /// For how long.
    pub watch_ns: u64,
    /// Reads further apart than this are a gap.
    pub threshold_ns: u64,
}

/// When the block ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeSliceSpans {
    /// First and last read of each span without a gap, by the device's clock.
    pub spans_ns: Vec<(u64, u64)>,
    /// All gaps, including those for which the trace had no room.
    pub gaps: u64,
}

/// Completes requests of a workload without a pause, and stamps the end of each on the device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRequests {
    /// The workload.
    pub spec: WorkloadSpec,
    /// For how long, by the host's clock.
    pub watch_ns: u64,
    /// Where to stop if requests are shorter than expected.
    pub requests_max: u32,
}

/// Launches the smallest kernel that writes a stamp, at Poisson instants.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TimeLaunches {
    /// Launches a second.
    pub rate_per_s: f64,
    /// For how long.
    pub watch_ns: u64,
    /// Seed of the instants.
    pub seed: u64,
}

/// Submits arithmetic by one route without a pause.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LimitBypass {
    /// The route.
    pub route: SubmitRoute,
    /// The request from which the submitted work is made.
    pub spec: WorkloadSpec,
    /// For how long, by the host's clock.
    pub watch_ns: u64,
}

/// Allocates memory, keeps it, and exports an IPC handle to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportMemory {
    /// How much.
    pub bytes: u64,
}

/// Exported memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportedMemory {
    /// The handle, in hexadecimal.
    pub handle: String,
}

/// Maps memory of another tenant and unmaps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportMemory {
    /// Its handle, in hexadecimal.
    pub handle: String,
}

/// Result of the mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedMemory {
    /// `CUresult` of the refusal; absent if the memory was mapped.
    pub refused_with: Option<i32>,
}

/// Times the creation of contexts and the loading of modules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeDriverCalls {
    /// How many contexts.
    pub contexts: u32,
    /// How many modules.
    pub modules: u32,
}

/// Issues one small request of each workload in turn, at random instants, and keeps the workloads.
/// The reply has the requests of each workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunCanary {
    /// The workloads.
    pub specs: Vec<WorkloadSpec>,
    /// When to begin.
    pub start_ns: u64,
    /// Requests of each workload; none to prepare them.
    pub rounds: u32,
    /// The time of each request, in which it starts at a random instant. One that cannot start in
    /// it is left out.
    pub period_ns: u64,
    /// Seed of the instants.
    pub seed: u64,
}

/// One request of a canary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CanaryRequest {
    /// From the first call to the end of the wait, by the host's clock.
    pub host_ns: u64,
    /// Between its two events on the device.
    pub gpu_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::{ProbeReply, ReleaseMemory, Step, TimeDriverCalls};

    #[test]
    fn a_step_takes_its_own_reply_only() -> Result<(), serde_json::Error> {
        let sent = serde_json::to_string(&ProbeReply::ReleaseMemory(()))?;
        let reply: ProbeReply = serde_json::from_str(&sent)?;
        assert_eq!(ReleaseMemory::reply(reply.clone()), Ok(()));
        assert!(TimeDriverCalls::reply(reply).is_err());
        Ok(())
    }
}
