//! What a matrix does after its cells, probes and fault trials: the flags, and the lines of a plan.

use gpubench_plan::profile::{Profile, TRIALS_MAX};
use gpubench_record::{Plan, counted};

use super::common::whole;
use super::names::{FaultNames, Names};
use super::plan::in_minutes;
use crate::error::ExpectedError;
use crate::verbs::{AfterCells, FaultRequest};

/// Probes and fault trials.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct AfterCellsFlags {
    /// After the cells, run every probe of each mechanism (`gpubench list probes`)
    ///
    /// Probes are checks that do not produce a throughput: memory, SMs, shares, launches, driver
    /// calls. Those of the memory axis make its rows and always run where the profile includes the
    /// axis; the others explain rows of the compute axis and change no level.
    #[arg(long)]
    probes: bool,
    /// After the cells, try to bypass the limits of each mechanism
    ///
    /// Tries every call that allocates memory or launches work, other ways to look up driver
    /// functions, the memory of another tenant, and a process without the tenant's environment.
    /// The report says for each attempt by how much it exceeded the limit, or "contained".
    /// Do not use on a GPU with other users.
    #[arg(long)]
    escape: bool,
    /// After the cells, inject faults: all, or only these or those of a class (separate by commas)
    ///
    /// On the virtual GPU all faults of the profile's axes are injected without this flag, once
    /// each. Each fault is injected in its own process while victims run, from benign to severe.
    /// The GPU must recover within a time limit. If it requires a reset, the trials stop and the
    /// exit code is 4. Do not use on a GPU with other users.
    #[arg(
        long,
        value_name = "NAME",
        num_args = 0..,
        require_equals = true,
        value_delimiter = ',',
        value_parser = FaultNames,
    )]
    faults: Option<Vec<Names>>,
    /// Inject no fault, also on the virtual GPU
    #[arg(long, conflicts_with_all = ["faults", "fault_trials"])]
    no_faults: bool,
    /// Trials of each fault under each mechanism [default: that of the profile; 1 without --faults]
    ///
    /// 17 contained trials without a failure are evidence for L2, 72 for L3. Trials of several
    /// records of one device and driver add up: `gpubench report NIGHT1 NIGHT2...`.
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1, TRIALS_MAX.into()))]
    fault_trials: Option<u32>,
}

impl AfterCellsFlags {
    /// Refuses flags that contradict the profile.
    pub fn check(&self, profile: &Profile) -> Result<(), ExpectedError> {
        let has_extras = self.probes || self.escape || self.faults.is_some();
        if has_extras && profile.user_victim.victim().is_some() {
            return Err(ExpectedError::usage(
                "--probes, --escape and --faults need built-in victims, and the victim is \
                          a user program",
                Some("leave out --probes, --escape and --faults, or --victim-cmd"),
            ));
        }
        Ok(())
    }

    /// Each flag, with its value where it is given.
    pub(super) fn given(&self) -> [(&'static str, Option<String>); 5] {
        let is = |flag: bool| flag.then(String::new);
        [
            ("--probes", is(self.probes)),
            ("--escape", is(self.escape)),
            ("--faults", self.faults.as_ref().map(|names| Names::all(names).join(","))),
            ("--no-faults", is(self.no_faults)),
            ("--fault-trials", self.fault_trials.map(|trials| trials.to_string())),
        ]
    }

    /// The flags without their command line.
    pub fn flags(&self) -> AfterCells {
        let faults = match &self.faults {
            Some(names) => FaultRequest::On(Names::all(names)),
            None if self.no_faults => FaultRequest::Off,
            None => FaultRequest::Unset,
        };
        AfterCells {
            probes: self.probes,
            escape: self.escape,
            faults,
            fault_trials: self.fault_trials,
        }
    }
}

/// The probes and fault trials after the cells; empty without both.
pub(super) fn in_words(plan: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    if !plan.probes.is_empty() {
        lines.push(format!("then probes of each mechanism: {}", plan.probes.join(", ")));
    }
    if let Some(first) = plan.fault_trials.first() {
        let windows = plan.fault_trials.iter().map(|trial| trial.window_ns);
        let of_first = plan
            .fault_trials
            .iter()
            .filter(|trial| (&trial.variant, &trial.fault) == (&first.variant, &first.fault));
        lines.push(format!(
            "then {}, {} of each fault under each mechanism, in windows of {} together",
            counted(plan.fault_trials.len(), "fault trial"),
            of_first.count(),
            in_minutes(windows.fold(0, u64::saturating_add)),
        ));
    }
    lines
}
