//! Fault trials: the plan, the observation and its judgement.
//!
//! In a trial a new process, the injector, causes a fault at a planned instant while victims run.
//! Afterwards a new client requests the device.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::exit_code::Outcome;
use super::figures::Estimate;
use super::telemetry::{EccCounts, XidLine};
use crate::cell::TenantResult;
use crate::plan::CellTenant;

/// One planned trial of a fault.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FaultTrial {
    /// Unique among cells and trials, sortable in run order, and fit for a file name.
    pub id: String,
    /// Mechanisms that run without a switch of the host between them share a group.
    pub group: String,
    /// Name of the mechanism.
    pub mechanism: String,
    /// Canonical variant.
    pub variant: String,
    /// Name of the fault in the catalogue.
    pub fault: String,
    /// Its class: the sub-axis that it is scored under.
    pub class: String,
    /// What the trial needs of the fault to be judged.
    pub facts: FaultFacts,
    /// Number of the trial of this fault under this variant, from 1.
    pub trial: u32,
    /// Workload of the victims.
    pub victim: String,
    /// The tenants, the injector last.
    pub tenants: Vec<CellTenant>,
    /// Seed of the victims' schedules.
    pub schedule_seed: u64,
    /// When the fault happens, since the common start.
    pub at_ns: u64,
    /// When its work on the device must have ended, since the common start.
    pub until_ns: u64,
    /// Begin of the counted requests of the victims, since the common start.
    pub from_ns: u64,
    /// How long the victims run.
    pub window_ns: u64,
}

/// Facts of a fault that the judgement of a trial needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FaultFacts {
    /// Which control it is; absent for a fault that is scored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<Control>,
    /// The answer that the injector gets where the fault happens.
    pub answer: ExpectedAnswer,
    /// The coordinator causes it (a command to the MPS daemon, a signal to a server), so that its
    /// instant is the coordinator's.
    #[serde(default, skip_serializing_if = "is_false")]
    pub by_coordinator: bool,
    /// It can leave the injector waiting forever for a killed service.
    #[serde(default, skip_serializing_if = "is_false")]
    pub leaves_waiting: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

/// A fault that tests the instrument and is never scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Control {
    /// Must harm no victim.
    Placebo,
    /// Must be detected: it kills a victim.
    SelfTest,
}

/// The answer that an injector gets where its fault happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ExpectedAnswer {
    /// Every call succeeds.
    Success,
    /// A call fails.
    Error,
    /// A call may fail or not.
    Either,
    /// The process ends before any answer.
    ProcessEnds,
    /// The reader of this version does not know the fault; its trials do not count.
    Unknown,
}

/// The result of the process that injected the fault.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InjectorResult {
    /// Its name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tenant: String,
    /// When it began, since the common start; absent if it ended before it could report it.
    #[serde(default)]
    pub began_ns: Option<u64>,
    /// When it got the answer, since the common start.
    #[serde(default)]
    pub detected_ns: Option<u64>,
    /// `CUresult` of the first call that failed; absent if none did.
    #[serde(default)]
    pub code: Option<i32>,
    /// `CUresult` of a harmless call afterwards; 0 for success.
    #[serde(default)]
    pub later_code: Option<i32>,
    /// How the process ended, if it did.
    #[serde(default)]
    pub ended: Option<String>,
}

/// A client that requested the device after the fault.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NewClient {
    /// From the end of the last harmed process until the client's first kernel had run; absent if
    /// it never got the device.
    pub accepted_after_ns: Option<u64>,
    /// Number of its requests.
    pub tries: u32,
    /// `CUresult` of the last refusal.
    pub refused_with: Option<i32>,
}

/// What was observed in one trial, unjudged. The victims' requests are in their logs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FaultObservation {
    /// Each victim.
    pub victims: Vec<TenantResult>,
    /// The process that injected the fault.
    #[serde(alias = "struck")]
    pub injector: InjectorResult,
    /// When the coordinator acted (a signal, a command to the MPS daemon), since the common start;
    /// absent without an action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acted_ns: Option<u64>,
    /// The client after it; absent where the trial ended before.
    pub new_client: Option<NewClient>,
    /// Whether the mechanism's service was gone afterwards, so that the new client got the device
    /// without it; absent where the mechanism has no service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_gone: Option<bool>,
    /// Xids from the trial's begin to its end; absent without NVML events.
    pub xids: Option<Vec<u32>>,
    /// Xid lines of the kernel's log in that time; absent if the log was not readable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xid_lines: Option<Vec<XidLine>>,
    /// The recovery action that NVML requests, before and after (`nvml.h`, field 230; 0 is none);
    /// absent where NVML does not report it.
    pub recovery_action: [Option<u32>; 2],
    /// Error-correction counters before and after.
    #[serde(default)]
    pub ecc: [EccCounts; 2],
    /// Processes on the device after all processes of the trial had ended; absent where NVML does
    /// not list them.
    pub left_behind: Option<Vec<u32>>,
    /// Why the trial could not be run, if it could not.
    pub failure: Option<String>,
}

named! {
    /// How a fault harmed one victim.
    #[derive(PartialOrd, Ord)]
    pub enum Harm {
        /// Not at all.
        Unharmed = "unharmed",
        /// Its rate fell.
        Slowed = "slowed",
        /// It made no progress for a while, or a request failed, and it went on.
        Stalled = "stalled",
        /// It never completed another request.
        Dead = "dead",
        /// It went on, and its output is wrong: without an error that anyone would act on.
        Corrupted = "corrupted",
    }
}

/// The outcome of one victim of one trial, computed from its requests alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VictimOutcome {
    /// Its name.
    pub tenant: String,
    /// How it was harmed.
    #[serde(alias = "fate")]
    pub harm: Harm,
    /// `CUresult` of its first failed request; absent if none failed.
    pub code: Option<i32>,
    /// Completions per second after the fault over before it.
    pub rate_ratio: f64,
    /// Longest time without a completion after the fault.
    pub gap_ns: u64,
    /// From the fault to its first completed request: of a harmed victim the first after the harm.
    /// Absent if there was none.
    pub next_good_ns: Option<u64>,
}

/// One trial with its judgement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FaultResult {
    /// The trial as planned.
    #[serde(flatten)]
    pub planned: FaultTrial,
    /// Whether it can be counted, with the reason if not.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The victims.
    pub victims: Vec<VictimOutcome>,
    /// From the fault to its answer in the injector; absent if it got none.
    pub detected_after_ns: Option<u64>,
    /// What was observed.
    #[serde(alias = "seen")]
    pub observed: FaultObservation,
}

impl FaultResult {
    /// Whether no victim was harmed.
    pub fn is_contained(&self) -> bool {
        self.victims.iter().all(|one| one.harm == Harm::Unharmed)
    }
}

// Counts over all trials of one fault under one variant, from one record or from several.

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
    use super::{FaultObservation, FaultTally, Times, in_words};
    use crate::fault::Harm;

    #[test]
    fn reads_an_observation_of_an_older_version() -> Result<(), serde_json::Error> {
        let text = r#"{"victims":[],"struck":{},"new_client":{"accepted_after_ns":7,"tries":1,
            "refused_with":null},"xids":[13],"recovery_action":[0,0],"left_behind":[],
            "failure":null}"#;
        let read: FaultObservation = serde_json::from_str(text)?;
        assert_eq!((read.acted_ns, read.service_gone), (None, None));
        assert!(!read.ecc[0].has_any());
        assert_eq!(read.new_client.map(|client| client.tries), Some(1));
        Ok(())
    }

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
