//! Counts over all trials of one fault under one variant, from one record or from several.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::estimate::Estimate;
use crate::fault::Harm;

/// The same time measured in several trials, or by several victims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Times {
    /// How many.
    pub n: u32,
    /// The lower median.
    pub median_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl Times {
    /// Of these times; `None` without any.
    #[must_use]
    pub fn of(times_ns: impl IntoIterator<Item = u64>) -> Option<Self> {
        let mut sorted: Vec<u64> = times_ns.into_iter().collect();
        sorted.sort_unstable();
        Some(Self {
            n: u32::try_from(sorted.len()).unwrap_or(u32::MAX),
            median_ns: *sorted.get(sorted.len().saturating_sub(1) / 2)?,
            max_ns: *sorted.last()?,
        })
    }
}

/// A time for reports: in microseconds below a millisecond.
#[must_use]
pub fn in_words(ns: u64) -> String {
    if ns < 1_000_000 {
        format!("{:.1} us", ns as f64 / 1e3)
    } else {
        format!("{:.1} ms", ns as f64 / 1e6)
    }
}

/// How often each value occurred.
pub type Counts<K> = BTreeMap<K, u32>;

/// The trials of one fault under one variant.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FaultTally {
    /// Mechanism.
    pub mechanism: String,
    /// Canonical variant.
    pub variant: String,
    /// The fault.
    pub fault: String,
    /// Its class.
    pub class: String,
    /// Number of records with these trials.
    pub records: u32,
    /// Trials that count. All other figures are of these.
    pub trials: u32,
    /// Trials that ran and do not count.
    pub left_out: u32,
    /// Trials in which no victim was harmed.
    pub contained: u32,
    /// Share of contained trials with its two-sided Clopper-Pearson interval of 95 %; absent
    /// without trials.
    pub survival: Option<Estimate>,
    /// The one-sided lower bound of that share with 95 %, on which the level rests. Absent without
    /// trials, and in format 1.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// Number of further contained trials that would show L2; absent where a trial was not
    /// contained.
    pub more_for_l2: Option<u32>,
    /// The same for L3.
    pub more_for_l3: Option<u32>,
    /// Outcomes of the victims.
    pub victims: Counts<Harm>,
    /// `CUresult` of a victim's first failed request, with the number of victims.
    pub victim_codes: Counts<i32>,
    /// `CUresult` in the injector, with the number of trials.
    pub own_codes: Counts<i32>,
    /// Xids, with the number of trials that had them.
    pub xids: Counts<u32>,
    /// The same by the process that the kernel's log names: `31 of the faulting process`. Trials
    /// without a readable log are not in it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub xid_owners: Counts<String>,
    /// Trials without NVML events.
    #[serde(alias = "xids_unheard")]
    pub xids_unobserved: u32,
    /// From the fault to its answer in the injector.
    pub detected: Option<Times>,
    /// From the fault to the next successful request of each victim that had one after its harm.
    pub next_good: Option<Times>,
    /// From the end of the last harmed process until a new client's first kernel had run.
    pub new_client: Option<Times>,
    /// `CUresult` of the last refusal of a new client, with the number of trials.
    pub refused_with: Counts<i32>,
    /// Trials after which no new client was accepted.
    pub no_new_client: u32,
    /// Trials after which the mechanism's service was gone.
    pub service_gone: u32,
    /// Recovery actions that NVML requested before, with the number of trials; 0 is none.
    pub recovery_before: Counts<u32>,
    /// The same afterwards.
    pub recovery_after: Counts<u32>,
    /// Increase of each error-correction counter, over all trials.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ecc_moved: BTreeMap<String, i64>,
    /// Trials in which NVML reported no error-correction counter.
    #[serde(default, alias = "ecc_untold")]
    pub ecc_unobserved: u32,
    /// Trials after which the device was as before: no recovery action, no error-correction counter
    /// changed, and no process but the mechanism's.
    pub left_as_found: u32,
    /// Trials for which NVML does not report enough to decide that.
    pub unknown_if_left: u32,
    /// Why the trials cannot be trusted, if there is a reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::{FaultTally, Times, in_words};
    use crate::fault::Harm;

    #[test]
    fn the_median_is_a_time_that_was_measured() {
        assert_eq!(Times::of([]), None);
        for (times_ns, median_ns) in [(&[7][..], 7), (&[9, 1], 1), (&[5, 1, 9], 5)] {
            let times = Times::of(times_ns.iter().copied());
            assert_eq!(times.map(|t| t.median_ns), Some(median_ns));
            assert_eq!(times.map(|t| t.max_ns), times_ns.iter().max().copied());
        }
    }

    #[test]
    fn short_times_keep_their_digits() {
        assert_eq!(in_words(1_600), "1.6 us");
        assert_eq!(in_words(999_949), "999.9 us");
        assert_eq!(in_words(120_245_000), "120.2 ms");
    }

    #[test]
    fn counts_keep_their_keys_in_json() -> Result<(), serde_json::Error> {
        let tally = FaultTally {
            victims: [(Harm::Dead, 2)].into(),
            victim_codes: [(719, 2)].into(),
            xids: [(13, 1)].into(),
            ..FaultTally::default()
        };
        let text = serde_json::to_string(&tally)?;
        assert!(text.contains(r#""victims":{"dead":2},"victim_codes":{"719":2}"#));
        assert_eq!(serde_json::from_str::<FaultTally>(&text)?, tally);
        Ok(())
    }
}
