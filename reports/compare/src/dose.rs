//! The dose of a row, as a part of its key.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use serde::{Deserialize, Serialize};

/// The dose that the aggressor offers, below 1. Doses order by their size.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Dose(pub f64);

impl PartialEq for Dose {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Dose {}

impl PartialOrd for Dose {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Dose {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl Hash for Dose {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

impl std::fmt::Display for Dose {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A hundredth of a percent is the smallest step that is shown.
        write!(f, "{} %", (self.0 * 1e4).round() / 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Dose;
    use crate::session::{Metric, RowKey};

    fn key(dose: Option<f64>) -> RowKey {
        RowKey {
            variant: "mps".to_owned(),
            axis: "bandwidth/dram".to_owned(),
            victim: "stream".to_owned(),
            aggressor: Some("dram-copy".to_owned()),
            dose: dose.map(Dose),
            metric: Metric::DoseRetention,
        }
    }

    #[test]
    fn doses_order_by_size_and_full_ones_come_first() {
        let mut keys = [Some(0.25), Some(0.05), None, Some(0.125)].map(key);
        keys.sort();
        let beside = keys.map(|key| key.beside().unwrap_or_default());
        assert_eq!(
            beside,
            ["dram-copy", "dram-copy at 5 %", "dram-copy at 12.5 %", "dram-copy at 25 %"]
        );
    }

    #[test]
    fn a_dose_is_a_number_in_json_and_a_key_without_one_has_no_field() -> serde_json::Result<()> {
        for dose in [Some(0.1), Some(0.3), Some(1.0 / 3.0), None] {
            let key = key(dose);
            let json = serde_json::to_value(&key)?;
            assert_eq!(json.get("dose").and_then(serde_json::Value::as_f64), dose);
            assert_eq!(json.get("dose").is_some(), dose.is_some());
            assert_eq!(serde_json::from_value::<RowKey>(json)?, key);
        }
        Ok(())
    }
}
