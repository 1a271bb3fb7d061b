//! Telemetry: one long table of named metrics.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One reading. `t_ns` is nanoseconds since the start of the session's clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TelemetryRow {
    /// When it was read.
    pub t_ns: u64,
    /// The cell in which it was read, empty between cells.
    pub cell: String,
    /// The source, for example `nvml`.
    pub source: String,
    /// The metric, for example `power`.
    pub metric: String,
    /// The reading.
    pub value: f64,
    /// Its unit, for example `mW`.
    pub unit: String,
}

// Counters of the device's error correction.

/// The counts at one instant. A count that NVML does not report, as on a device without error
/// correction, is absent and never zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct EccCounts {
    /// Corrected errors since the driver was loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corrected_volatile: Option<u64>,
    /// Corrected errors of the device's life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corrected_aggregate: Option<u64>,
    /// Errors that could not be corrected since the driver was loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncorrected_volatile: Option<u64>,
    /// Errors that could not be corrected of the device's life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncorrected_aggregate: Option<u64>,
    /// Rows that were remapped for corrected errors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows_remapped_corrected: Option<u64>,
    /// Rows that were remapped for errors that could not be corrected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows_remapped_uncorrected: Option<u64>,
    /// Whether a row waits for the next reset to be remapped: 1 if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remap_pending: Option<u64>,
    /// Whether a remapping has failed: 1 if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remap_failed: Option<u64>,
}

impl EccCounts {
    /// Each count by name.
    pub const fn named(&self) -> [(&'static str, Option<u64>); 8] {
        [
            ("corrected, volatile", self.corrected_volatile),
            ("corrected, aggregate", self.corrected_aggregate),
            ("uncorrected, volatile", self.uncorrected_volatile),
            ("uncorrected, aggregate", self.uncorrected_aggregate),
            ("rows remapped, corrected", self.rows_remapped_corrected),
            ("rows remapped, uncorrected", self.rows_remapped_uncorrected),
            ("remap pending", self.remap_pending),
            ("remap failed", self.remap_failed),
        ]
    }

    /// The difference of each count that both have, where it is not zero.
    pub fn moved(&self, later: &Self) -> impl Iterator<Item = (&'static str, i64)> + use<> {
        let pairs = self.named().into_iter().zip(later.named());
        pairs.filter_map(|((name, before), (_, after))| {
            let by = i64::try_from(i128::from(after?) - i128::from(before?)).unwrap_or(i64::MAX);
            (by != 0).then_some((name, by))
        })
    }

    /// Whether both have the same counts, of any value.
    pub fn has_same_counts_as(&self, other: &Self) -> bool {
        let mut pairs = self.named().into_iter().zip(other.named());
        pairs.all(|((_, one), (_, other))| one.is_some() == other.is_some())
    }

    /// Whether there is any count.
    pub fn has_any(&self) -> bool {
        self.named().iter().any(|(_, count)| count.is_some())
    }
}

// An Xid in the kernel's log: its process and MIG instance, which NVML's event lacks.

/// One line of the kernel's log about one Xid. What the line lacks is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct XidLine {
    /// Number of the Xid.
    pub number: u32,
    /// Process that the driver names, by its id in the host's initial namespace. Absent in virtual
    /// time, because records of equal runs are equal; [`XidLine::ours`] names the tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Name of that process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// GPU instance, where MIG is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_instance: Option<u32>,
    /// Compute instance in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_instance: Option<u32>,
    /// The tenants of this run in that process, or the mechanism's service; empty for other
    /// processes. Absent where process ids are those of another namespace, or the line has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ours: Option<Vec<String>>,
    /// The stamp of the line on the clock of the run, in ns; absent where the line has none, or one
    /// of another clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t_ns: Option<u64>,
    /// The rest of the line.
    pub text: String,
}

/// Name of the mechanism's service in [`XidLine::ours`].
pub const SERVICE: &str = "service";

#[cfg(test)]
mod tests {
    use super::EccCounts;

    #[test]
    fn an_absent_count_has_not_moved_and_is_no_zero() -> Result<(), serde_json::Error> {
        let before = EccCounts {
            corrected_volatile: Some(3),
            uncorrected_volatile: Some(0),
            ..EccCounts::default()
        };
        let after = EccCounts { corrected_volatile: Some(5), ..before };
        let moved: Vec<_> = before.moved(&after).collect();
        assert_eq!(moved, [("corrected, volatile", 2)]);
        assert_eq!(after.moved(&before).next(), Some(("corrected, volatile", -2)));
        assert!(before.has_same_counts_as(&after) && before.has_any());
        let none = EccCounts::default();
        assert_eq!(before.moved(&none).next(), None);
        assert!(!before.has_same_counts_as(&none) && !none.has_any());
        assert_eq!(serde_json::to_string(&none)?, "{}");
        Ok(())
    }
}
