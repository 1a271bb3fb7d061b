//! Observations around one cell, which its gates judge: instants, error correction, clocks, and
//! what could not be observed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ecc::EccCounts;

/// Observations around one cell. What was not observed is absent; records of older versions have
/// none of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Surroundings {
    /// Start and planned end on the clock of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub span: Option<CellSpan>,
    /// Counters of error correction at the end of the cell before and at the end of this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecc: Option<EccSpan>,
    /// Processes that stamp samples and have a clock of another time namespace than the
    /// coordinator, by name. Absent in virtual time, and where a namespace is not readable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_clocks: Option<Vec<String>>,
    /// Mean clock of the SMs in the closed loop by NVML. Absent where it was not read, and
    /// in format 1.0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sm_clock_khz: Option<u64>,
    /// Failed observations by name ([`Unobserved`]), each with its error.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unobserved: BTreeMap<Unobserved, String>,
}

impl Surroundings {
    /// Notes a failed observation, if it failed.
    pub fn note(&mut self, what: Unobserved, error: Option<String>) {
        self.unobserved.extend(error.map(|error| (what, error)));
    }
}

/// An observation that can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unobserved {
    /// The processes on the device.
    Processes,
    /// The reasons for throttling, in at least one sample.
    Throttle,
    /// The Xids.
    Xids,
    /// The counters of error correction.
    Ecc,
    /// The time namespaces.
    Clocks,
}

/// Start and end of a cell, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellSpan {
    /// The common start of its tenants.
    pub start_ns: u64,
    /// The planned end of its last loop.
    pub end_ns: u64,
}

/// Counters of error correction around a cell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EccSpan {
    /// At the end of the cell before, or at the start of the run.
    pub before: EccCounts,
    /// At the end of the cell.
    pub after: EccCounts,
}

#[cfg(test)]
mod tests {
    use super::{Surroundings, Unobserved};

    #[test]
    fn absent_observations_are_no_keys() -> Result<(), serde_json::Error> {
        let none = Surroundings::default();
        assert_eq!(serde_json::to_string(&none)?, "{}");
        assert_eq!(serde_json::from_str::<Surroundings>("{}")?, none);
        let failed =
            Surroundings { unobserved: [(Unobserved::Xids, "lost".to_owned())].into(), ..none };
        let text = serde_json::to_string(&failed)?;
        assert_eq!(text, r#"{"unobserved":{"xids":"lost"}}"#);
        assert_eq!(serde_json::from_str::<Surroundings>(&text)?, failed);
        Ok(())
    }
}
