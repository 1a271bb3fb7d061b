//! Probes: checks of tenants that do not produce a throughput. The steps that a tenant is asked
//! for, its answers, and what a whole probe found.

mod compute;
mod escape;
mod exhaust;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::matrix::Estimate;
use crate::workload::WorkloadSpec;
pub use compute::{
    CallTimes, CallTrials, LaunchStamp, LaunchTrials, SmPlacementPair, WorkSeries, Worked,
};
pub use escape::{BypassRun, BypassWay, EscapeGot, EscapeWay};
pub use exhaust::{ExhaustTrial, Exhausted};

/// One step of a probe, from the coordinator to a tenant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "step")]
pub enum ProbeAsk {
    /// Take pages, write a mark into each, count them, and keep them.
    Mark {
        /// How many pages.
        pages: u64,
        /// Bytes of a page.
        page_bytes: u32,
        /// Which mark.
        seed: u32,
    },
    /// Take pages, without writing to them, count those that carry a mark, and give them back.
    Scan {
        /// At most how many; fewer if the driver refuses.
        pages: u64,
        /// Bytes of a page.
        page_bytes: u32,
        /// Which mark.
        seed: u32,
    },
    /// Take memory by one call until the driver refuses, and give it back.
    Grab {
        /// The call, as cuda.h names it.
        call: String,
        /// Where to stop if nobody refuses.
        most_bytes: u64,
    },
    /// Take memory by `cuMemAlloc` in pieces until the driver refuses, and keep it.
    Hold {
        /// Where to stop if nobody refuses.
        most_bytes: u64,
        /// Pieces in which it is taken; what remains is taken in one smaller piece.
        pieces: u32,
    },
    /// Take memory until the driver refuses, see whether the context is still of use, and give it
    /// back.
    Exhaust {
        /// Where to stop if nobody refuses.
        most_bytes: u64,
    },
    /// Give everything back that earlier steps kept.
    Release,
    /// Report how much memory `cuMemGetInfo` shows.
    Look,
    /// Copy words from addresses that are another tenant's.
    Read {
        /// The addresses.
        addresses: Vec<u64>,
        /// The mark of the tenant to which the addresses belong.
        seed: u32,
    },
    /// Watch the device's clock from one block.
    Trace {
        /// For how long.
        watch_ns: u64,
        /// Looks further apart than this are a gap.
        threshold_ns: u64,
    },
    /// Complete requests of a workload without a pause, and stamp the end of each on the device.
    Work {
        /// The workload.
        spec: WorkloadSpec,
        /// For how long, by the host's clock.
        watch_ns: u64,
        /// Where to stop if they are shorter than expected.
        requests_max: u32,
    },
    /// Launch the smallest kernel that leaves a stamp, at Poisson instants.
    Launches {
        /// Launches a second.
        rate_per_s: f64,
        /// For how long.
        watch_ns: u64,
        /// Seed of the instants.
        seed: u64,
    },
    /// Submit arithmetic in one way without a pause.
    LimitBypass {
        /// The way.
        way: BypassWay,
        /// The request that it is made from.
        spec: WorkloadSpec,
        /// For how long, by the host's clock.
        watch_ns: u64,
    },
    /// Take memory, keep it, and give a handle of it away.
    Export {
        /// How much.
        bytes: u64,
    },
    /// Map memory of another tenant, and let go of it.
    Import {
        /// Its handle, in hexadecimal.
        handle: String,
    },
    /// Time the creation of contexts and the loading of modules.
    Calls {
        /// How many contexts.
        contexts: u32,
        /// How many modules.
        modules: u32,
    },
}

/// What a tenant found in one step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "step")]
pub enum ProbeTold {
    /// Pages were marked.
    Marked {
        /// How many.
        pages: u64,
        /// Of these, how many the scan of the same tenant found again.
        found: u64,
        /// Where they begin, piece by piece.
        addresses: Vec<u64>,
    },
    /// Pages were scanned.
    Scanned {
        /// How many.
        pages: u64,
        /// How many carried the mark.
        stale: u64,
    },
    /// Memory was taken.
    Took {
        /// How much.
        bytes: u64,
        /// `CUresult` of the refusal that ended it; absent if nobody refused.
        refused_with: Option<i32>,
    },
    /// Memory ran out.
    Exhausted(Exhausted),
    /// Everything was given back.
    Released,
    /// What `cuMemGetInfo` shows.
    Shown {
        /// All memory.
        total_bytes: u64,
        /// Free memory.
        free_bytes: u64,
    },
    /// What came of each copy.
    Read {
        /// Copies that were refused.
        refused: u32,
        /// Copies that brought the other tenant's mark.
        canary: u32,
        /// Copies that brought something else: the address is one of its own as well.
        other: u32,
        /// `CUresult` of the first refusal.
        refused_with: Option<i32>,
    },
    /// The clock was watched.
    Traced {
        /// First and last look of each span without a gap, by the device's clock.
        spans_ns: Vec<(u64, u64)>,
        /// Gaps that were seen, told or not.
        gaps_seen: u64,
    },
    /// Requests were completed.
    Worked(Worked),
    /// Kernels were launched.
    Launched {
        /// Each launch.
        stamps: Vec<LaunchStamp>,
    },
    /// Work was submitted.
    Bypassed(BypassRun),
    /// Memory was taken, and can be mapped by this handle, in hexadecimal.
    Exported {
        /// The handle.
        handle: String,
    },
    /// Memory was mapped, or not.
    Imported {
        /// `CUresult` of the refusal; absent if it was mapped.
        refused_with: Option<i32>,
    },
    /// Calls were timed.
    Called(CallTimes),
}

/// What one probe found under one variant of a mechanism.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeResult {
    /// Canonical variant.
    pub variant: String,
    /// What was found.
    #[serde(flatten)]
    pub found: ProbeFound,
}

/// The findings of a probe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "probe")]
pub enum ProbeFound {
    /// One tenant marked pages and gave them up, another looked for them.
    Residue {
        /// How they were given up: `freed` one by one, or with the `context`.
        given_up: String,
        /// Bytes of a page.
        page_bytes: u32,
        /// Pages that were marked.
        marked: u64,
        /// Of these, how many the marking tenant found again itself: the check of the scan.
        found_by_owner: u64,
        /// Pages that the other tenant looked at.
        scanned: u64,
        /// Of these, how many carried the mark.
        stale: u64,
    },
    /// One tenant took all that it could get by each call.
    Cap {
        /// The limit that is set; absent if there is none.
        limit_bytes: Option<u64>,
        /// Memory of the whole device.
        device_bytes: u64,
        /// What the tenant had already, as its own view of a limited device tells.
        in_use_bytes: u64,
        /// Each call.
        calls: Vec<CapCall>,
    },
    /// Neighbours took all that they could get, then the victim its reservation, again and again.
    Capacity {
        /// What the victim is entitled to.
        reserved_bytes: u64,
        /// Times that it was tried.
        trials: u32,
        /// Times that the victim got all of it.
        honoured: u32,
        /// Least that the neighbours held in a trial.
        hogged_bytes: u64,
        /// Least that the victim got in a trial.
        granted_bytes: u64,
    },
    /// One tenant looked for another's memory, which carried a mark.
    Visibility {
        /// Reads of the other's addresses, by copy.
        reads: u32,
        /// Of these, how many were refused, or met memory of the reader's own.
        kept_out: u32,
        /// Times that the other took memory and gave it back.
        looks: u32,
        /// Of these, how often free memory as `cuMemGetInfo` shows it followed.
        seen_in_free: u32,
        /// Whether NVML lists the other's process and memory to whoever asks; absent if not asked.
        seen_in_nvml: Option<bool>,
    },
    /// A tenant ran out of memory beside a neighbour at work.
    Exhaust {
        /// Each time.
        trials: Vec<ExhaustTrial>,
    },
    /// Kernels of two tenants watched the device's clock at the same time.
    #[serde(alias = "turns")]
    TimeSliceTrace {
        /// Looks further apart than this were a gap.
        threshold_ns: u64,
        /// Gaps that there was no room for.
        gaps_lost: u64,
        /// Each time.
        traces: Vec<TracePair>,
    },
    /// Blocks of two tenants were launched at the same time, and told on which SMs they ran.
    #[serde(alias = "census")]
    SmPlacement {
        /// SMs of the whole device.
        device_sms: u32,
        /// Each time.
        rounds: Vec<SmPlacementPair>,
    },
    /// A tenant kept arithmetic that fills every SM going, alone and beside a neighbour that did
    /// the same.
    Share {
        /// The share of the device's arithmetic that is configured for a tenant, in millionths;
        /// absent if none is.
        configured_ppm: Option<u32>,
        /// The lengths of windows over which shares are told.
        windows_ns: Vec<u64>,
        /// The victim alone.
        alone: WorkSeries,
        /// The victim beside its neighbour.
        beside: WorkSeries,
    },
    /// A tenant that had just been started kept arithmetic going, again and again.
    Enforce {
        /// The share of the device's arithmetic that is configured for it, in millionths; absent
        /// if none is, and then nothing was tried.
        limit_ppm: Option<u32>,
        /// Over this length a share is held against the cap.
        window_ns: u64,
        /// Each time, from the first launch on.
        trials: Vec<WorkSeries>,
    },
    /// A tenant launched the smallest kernel, alone and beside a neighbour at work.
    Launch(LaunchTrials),
    /// A tenant created contexts and loaded modules, alone and beside a busy neighbour.
    Calls(CallTrials),
    /// A tenant tried ways past its limits.
    Escape {
        /// The memory that it may have; absent if there is no limit.
        limit_bytes: Option<u64>,
        /// What it had already, as its own view of a limited device tells.
        in_use_bytes: u64,
        /// The share of the device that it may have, in millionths; absent if there is no limit.
        limit_ppm: Option<u32>,
        /// Each way.
        ways: Vec<EscapeWay>,
    },
    /// It could not be done.
    Broken {
        /// Name of the sub-axis, or of the probe where it answers none.
        sub_axis: String,
        /// Why.
        reason: String,
    },
}

/// When one block of each tenant ran, by the device's clock: first and last look of each span.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TracePair {
    /// The victim's.
    pub victim_ns: Vec<(u64, u64)>,
    /// Its neighbour's.
    pub neighbour_ns: Vec<(u64, u64)>,
}

/// A figure that a probe gives, which is no score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeFigure {
    /// Canonical variant.
    pub variant: String,
    /// Its name: `time slice`, `switch gap`, `overlap`...
    pub figure: String,
    /// The sub-axis whose rows it explains, as `axis/sub-axis`; it moves no level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explains: Option<String>,
    /// For a way past a limit: `escaped` or `contained`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// The figure.
    #[serde(flatten)]
    pub estimate: Estimate,
}

impl ProbeFigure {
    /// Its name, with the verdict where it has one.
    #[must_use]
    pub fn told(&self) -> String {
        match &self.verdict {
            Some(verdict) => format!("{}: {verdict}", self.figure),
            None => self.figure.clone(),
        }
    }
}

/// How far one call gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CapCall {
    /// The call.
    pub call: String,
    /// Least and most that it gave in any round.
    pub bytes: (u64, u64),
    /// How many rounds.
    pub rounds: u32,
    /// `CUresult` of the refusal; absent if it gave the whole device without refusing.
    pub refused_with: Option<i32>,
}

impl ProbeFound {
    /// Name of the sub-axis of memory that it speaks for; the probe's own where it speaks for none.
    #[must_use]
    pub fn sub_axis(&self) -> &str {
        match self {
            Self::Residue { .. } => "residue",
            Self::Cap { .. } => "cap",
            Self::Capacity { .. } => "capacity",
            Self::Visibility { .. } => "visibility",
            Self::TimeSliceTrace { .. } => "time-slice-trace",
            Self::Exhaust { .. } => "out-of-memory",
            Self::SmPlacement { .. } => "sm-placement",
            Self::Share { .. } => "share",
            Self::Enforce { .. } => "enforcement",
            Self::Launch(_) => "launch-latency",
            Self::Calls(_) => "driver-calls",
            Self::Escape { .. } => "escape",
            Self::Broken { sub_axis, .. } => sub_axis,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ProbeFound, ProbeResult};

    #[test]
    fn probes_of_format_1_0_are_read_under_their_names() -> Result<(), serde_json::Error> {
        for (of_1_0, now) in [
            (
                r#"{"variant":"mps","probe":"census","device_sms":8,"rounds":[]}"#,
                "sm-placement",
            ),
            (
                r#"{"variant":"mps","probe":"turns","threshold_ns":1,"gaps_lost":0,"traces":[]}"#,
                "time-slice-trace",
            ),
        ] {
            let read: ProbeResult = serde_json::from_str(of_1_0)?;
            assert_eq!(read.found.sub_axis(), now);
            assert!(serde_json::to_string(&read)?.contains(now));
            assert!(!matches!(read.found, ProbeFound::Broken { .. }));
        }
        Ok(())
    }
}
