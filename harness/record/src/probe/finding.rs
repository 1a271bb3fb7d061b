//! What a probe found under one variant of a mechanism, unjudged.
//!
//! A finding has the name of its probe. Aliases are the names of older formats.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CallTrials, EscapeRoute, LaunchTrials, SmPlacementPair, TracePair, WorkSeries};
use crate::figures::Estimate;

/// What one probe found under one variant of a mechanism.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeResult {
    /// Canonical variant.
    pub variant: String,
    /// Device time that it took, opening and closing contexts included. Absent in format 1.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ns: Option<u64>,
    /// What was found.
    #[serde(flatten)]
    pub found: ProbeFound,
}

/// The finding of a probe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "probe")]
pub enum ProbeFound {
    /// One tenant marked pages and released them; another scanned memory for the marks. Counts are
    /// sums over all releases.
    Residue {
        /// How often pages were released. Each release is one independent event.
        #[serde(default = "one")]
        releases: u32,
        /// Releases after which no mark was found; absent in older records, which have one release.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        clean: Option<u32>,
        /// How the pages were released: `freed` one by one, or with the `context`.
        #[serde(alias = "given_up")]
        released_by: String,
        /// Bytes of a page.
        page_bytes: u32,
        /// Pages that were marked.
        marked: u64,
        /// Of these, how many the marking tenant found again itself: the check of the scan.
        found_by_owner: u64,
        /// Pages that the other tenant scanned.
        scanned: u64,
        /// Of these, how many carried the mark.
        stale: u64,
    },
    /// One tenant allocated all that it could by each call.
    Cap {
        /// The limit that is set; absent without one.
        limit_bytes: Option<u64>,
        /// Memory of the whole device.
        device_bytes: u64,
        /// What the tenant had in use before, by its own view of a limited device.
        in_use_bytes: u64,
        /// Each call.
        calls: Vec<CapCall>,
    },
    /// In each trial neighbours allocated all that they could, then the victim its reservation.
    Capacity {
        /// What the victim is entitled to.
        reserved_bytes: u64,
        /// Number of trials.
        trials: u32,
        /// Trials in which the victim got all of it.
        honoured: u32,
        /// The smallest amount that the neighbours held in a trial.
        #[serde(alias = "hogged_bytes")]
        neighbour_bytes: u64,
        /// The smallest amount that the victim got in a trial.
        granted_bytes: u64,
    },
    /// One tenant tried to read a neighbour's marked memory and to observe its size.
    Visibility {
        /// How often the neighbour allocated the memory anew. Reads of one allocation are
        /// repetitions of one event.
        #[serde(default = "one")]
        mappings: u32,
        /// Mappings of which no read came through; absent in older records, which have one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        blocked_mappings: Option<u32>,
        /// Reads at the neighbour's addresses, by copy.
        reads: u32,
        /// Of these, how many were refused or read memory of the reader's own.
        #[serde(alias = "kept_out")]
        blocked_reads: u32,
        /// Times that the neighbour allocated memory and freed it.
        #[serde(alias = "looks")]
        allocations: u32,
        /// Of these, how often the free memory of `cuMemGetInfo` fell.
        #[serde(alias = "seen_in_free")]
        visible_in_free: u32,
        /// Whether NVML lists the neighbour's process; absent where NVML did not answer.
        #[serde(alias = "seen_in_nvml")]
        listed_by_nvml: Option<bool>,
    },
    /// A tenant ran out of memory beside a neighbour at work.
    #[serde(alias = "exhaust")]
    OutOfMemory {
        /// Each time.
        trials: Vec<ExhaustTrial>,
    },
    /// Kernels of two tenants read the device's clock at the same time.
    #[serde(alias = "turns")]
    TimeSliceTrace {
        /// Reads further apart than this are a gap.
        threshold_ns: u64,
        /// Gaps for which the traces had no room.
        gaps_lost: u64,
        /// Each time.
        traces: Vec<TracePair>,
    },
    /// Two tenants launched blocks at the same time, which reported their SMs.
    #[serde(alias = "census")]
    SmPlacement {
        /// SMs of the whole device.
        device_sms: u32,
        /// Each time.
        rounds: Vec<SmPlacementPair>,
    },
    /// A tenant ran arithmetic that fills every SM, alone and beside a neighbour that did the same.
    Share {
        /// The share of the device's arithmetic that is configured for a tenant, in millionths;
        /// absent without one.
        configured_ppm: Option<u32>,
        /// The lengths of windows over which shares are reported.
        windows_ns: Vec<u64>,
        /// The victim alone.
        alone: WorkSeries,
        /// The victim beside its neighbour.
        beside: WorkSeries,
    },
    /// A tenant that had just been started ran arithmetic, once in each trial.
    #[serde(alias = "enforce")]
    Enforcement {
        /// The share of the device's arithmetic that is configured for it, in millionths; without
        /// one it is absent and there are no trials.
        limit_ppm: Option<u32>,
        /// Length of the windows whose share is compared with the cap.
        window_ns: u64,
        /// Each trial, from the first launch on.
        trials: Vec<WorkSeries>,
    },
    /// A tenant launched the smallest kernel, alone and beside a neighbour at work.
    #[serde(alias = "launch")]
    LaunchLatency(LaunchTrials),
    /// A tenant created contexts and loaded modules, alone and beside a busy neighbour.
    #[serde(rename = "driver-calls", alias = "calls")]
    CallTrials(CallTrials),
    /// A tenant tried routes past its limits.
    Escape {
        /// The memory that it may have; absent without a limit.
        limit_bytes: Option<u64>,
        /// What it had in use before, by its own view of a limited device.
        in_use_bytes: u64,
        /// The share of the device that it may have, in millionths; absent without a limit.
        limit_ppm: Option<u32>,
        /// Each route.
        routes: Vec<EscapeRoute>,
    },
    /// The probe failed.
    Broken {
        /// Name of the probe.
        name: String,
        /// Why.
        reason: String,
    },
}

/// Releases and mappings of records that do not count them.
const fn one() -> u32 {
    1
}

impl ProbeFound {
    /// Whether it belongs to the row of this sub-axis of memory. Sub-axis and probe have one name.
    pub fn is_of_row(&self, sub_axis: &str) -> bool {
        let own = match self {
            Self::Residue { .. } => "residue",
            Self::Cap { .. } => "cap",
            Self::Capacity { .. } => "capacity",
            Self::Visibility { .. } => "visibility",
            Self::Broken { name, .. } => name,
            _ => return false,
        };
        own == sub_axis
    }
}

// Figures made from findings of probes. They explain rows and are no scores.

/// A figure of a probe, which is no score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeFigure {
    /// Canonical variant.
    pub variant: String,
    /// Its name: `time slice`, `switch gap`, `overlap`...
    pub figure: String,
    /// The sub-axis of the rows that it explains, as `axis/sub-axis`; it changes no level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explains: Option<String>,
    /// For a route past a limit: `escaped` or `contained`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// The figure.
    #[serde(flatten)]
    pub estimate: Estimate,
}

impl ProbeFigure {
    /// Its name, with the verdict where it has one.
    pub fn title(&self) -> String {
        match &self.verdict {
            Some(verdict) => format!("{}: {verdict}", self.figure),
            None => self.figure.clone(),
        }
    }
}

// How much memory one call allocates.

/// What one call allocated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CapCall {
    /// The call.
    pub call: String,
    /// Smallest and largest sum of all rounds.
    pub bytes: (u64, u64),
    /// How many rounds.
    pub rounds: u32,
    /// `CUresult` of the refusal; absent if the whole device was allocated without one.
    pub refused_with: Option<i32>,
}

// What happens to a tenant that runs out of memory, and to its neighbour.

/// One time that a tenant allocated all the memory that it could.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Exhausted {
    /// How much that was.
    pub bytes: u64,
    /// `CUresult` of the refusal of more; absent if more was granted.
    pub refused_with: Option<i32>,
    /// How long the refusal took.
    pub refusal_ns: u64,
    /// `CUresult` of a launch and a copy while it held all of it; 0 for success.
    pub serves_code: i32,
    /// `CUresult` of an allocation after all was freed; 0 for success.
    pub recovers_code: i32,
}

/// One trial, beside a neighbour that launches kernels throughout.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExhaustTrial {
    /// Result of the tenant; absent if its process died.
    pub tenant: Option<Exhausted>,
    /// The neighbour's successful launches; absent if it reported none.
    pub neighbour_served: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::ProbeResult;

    #[test]
    fn findings_of_format_1_0_are_read_under_their_new_names() -> Result<(), serde_json::Error> {
        for (old, name, key) in [
            (r#""census","device_sms":8,"rounds":[]"#, "sm-placement", "rounds"),
            (r#""turns","threshold_ns":1,"gaps_lost":0,"traces":[]"#, "time-slice-trace", "traces"),
            (r#""exhaust","trials":[]"#, "out-of-memory", "trials"),
            (r#""enforce","limit_ppm":null,"window_ns":1,"trials":[]"#, "enforcement", "window_ns"),
            (
                r#""launch","before":[{"called_ns":1,"started_ns":2,"seen_ns":3}],"beside":[],
                    "neighbour_ns":[0,1],"after":[]"#,
                "launch-latency",
                "ended_ns",
            ),
            (
                r#""calls","alone":{"contexts_ns":[],"modules_ns":[]},
                    "beside_kernels":{"contexts_ns":[],"modules_ns":[]},"kernels_ns":[0,1],
                    "beside_calls":{"contexts_ns":[],"modules_ns":[]},"calls_ns":[0,1]"#,
                "driver-calls",
                "alone",
            ),
            (
                r#""residue","given_up":"freed","page_bytes":4096,"marked":1,"found_by_owner":1,
                    "scanned":1,"stale":0"#,
                "residue",
                "released_by",
            ),
            (
                r#""capacity","reserved_bytes":1,"trials":1,"honoured":1,"hogged_bytes":1,
                    "granted_bytes":1"#,
                "capacity",
                "neighbour_bytes",
            ),
            (
                r#""visibility","reads":1,"kept_out":1,"looks":1,"seen_in_free":0,
                    "seen_in_nvml":true"#,
                "visibility",
                "listed_by_nvml",
            ),
        ] {
            let read: ProbeResult =
                serde_json::from_str(&format!("{{\"variant\":\"mps\",\"probe\":{old}}}"))?;
            let written = serde_json::to_string(&read)?;
            assert!(written.contains(&format!("\"probe\":\"{name}\"")), "{written}");
            assert!(written.contains(&format!("\"{key}\":")), "{written}");
        }
        Ok(())
    }
}
