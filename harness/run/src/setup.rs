//! The inputs and outputs of a run.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use gpubench_host::device::{NoAnswer, Nvml};
use gpubench_host::mechanism::host::{HostError, JournalLocation};
use gpubench_host::mechanism::{self, HostFacts, HostStage, MechanismContext};
use gpubench_host::tenant::{SpawnError, Spawner, TenantError};
use gpubench_plan::profile::Profile;
use gpubench_record::{
    Calibration, Cell, DeviceIdentity, FORMAT_VERSION, FaultTrial, Interruption, Left, Outcome,
    Plan, Provenance, RunEvent, RunSettings, TelemetryRow, TopUp,
};
use gpubench_store::{EventLog, StoreError, TelemetryLog, reopen};
use gpubench_workloads::clock::ClockError;

use super::RunClock;

/// Reads the folder of a run after its planned cells and returns the cells to add; `None` where no
/// row is undecided. No other result changes what a run does.
pub type TopUpDecision =
    Box<dyn Fn(&Path) -> Result<Option<(TopUp, Vec<Cell>)>, String> + Send + Sync>;

/// The inputs of a run. They do not change during the run.
pub struct Setup {
    pub plan: Plan,
    pub out: PathBuf,
    pub clock: RunClock,
    pub nvml: Arc<Nvml>,
    pub identity: DeviceIdentity,
    /// Facts of host, build and time.
    pub provenance: Provenance,
    pub spawner: Spawner,
    pub ptx_hash: String,
    /// An earlier calibration that replaces a new one.
    pub calibration: Option<Calibration>,
    /// Calibrations of earlier runs on this device, one for each basis. Entries of the same basis
    /// are used again.
    pub kept: Vec<Calibration>,
    /// What a later start needs, in a run that can be resumed.
    pub settings: Option<RunSettings>,
    /// What is done, in a run that goes on after an interruption.
    pub continued: Option<Continued>,
    /// The look at undecided rows, where the profile wants one.
    pub top_up: Option<TopUpDecision>,
    pub host: HostSetup,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunEnd {
    /// Every planned cell ran; single cells may have failed.
    Complete,
    Interrupted,
}

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// A tenant failed, and nothing can be measured without it.
    #[error(transparent)]
    Tenant(#[from] TenantError),
    /// The clock of the virtual GPU refused a call.
    #[error("the virtual GPU's clock: {0}")]
    VirtualClock(String),
    #[error("{0}")]
    Bug(String),
    /// The driver, the host or the shared clock does not answer.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
    /// Kernels compute wrong results on this device, so their measurements mean nothing.
    #[error("kernel verification failed: {0}")]
    Verification(String),
    #[error("no kernel can be loaded: {0}")]
    Unloadable(String),
    /// The disk has no room for the samples of another cell.
    #[error("no space left for samples")]
    DiskFull,
    #[error("interrupted")]
    Interrupted,
    /// It ended the run after a cell was measured.
    #[error("{0}")]
    AfterCells(Box<RunError>),
    /// The kernel refused to place threads on their cores.
    #[error("placing threads on cores (their scheduler settings): {0}")]
    Cores(#[from] ClockError),
    /// The host could not be changed or restored.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The plan names a mechanism without implementation.
    #[error("mechanism {0} is planned and has no implementation")]
    UnknownMechanism(String),
}

#[derive(Debug, Clone, PartialEq)]
pub enum RunPhase {
    /// What limits the run: too few cores and which threads share one, a clock that was stepped.
    Note(String),
    StartingTenants,
    Calibrating,
    /// A workload is calibrated, after `done` of `count`.
    CalibratingWorkload {
        name: String,
        done: usize,
        count: usize,
    },
    /// A signal stopped a tenant, which is killed after so many seconds more.
    Halted {
        tenant: String,
        pid: u32,
        seconds: u64,
    },
    /// The device is loaded until it is steady.
    Heating,
    StartingProgram {
        /// Longest wait in seconds.
        limit_s: f64,
        /// What the program does once it is ready.
        sign: &'static str,
    },
    /// Undecided rows were looked at.
    ToppedUp {
        top_up: TopUp,
        cells: usize,
    },
    /// The device is probed without a mechanism.
    ProbingDevice,
    Probing(String),
    Fault {
        fault: String,
        variant: String,
    },
}

impl std::fmt::Display for RunPhase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Note(text) => write!(f, "note: {text}"),
            Self::StartingTenants => f.write_str("starting tenants"),
            Self::Calibrating => f.write_str("calibrating"),
            Self::CalibratingWorkload { name, done, count } => {
                write!(f, "calibrating: {done} of {count} workloads done, now {name}")
            }
            Self::Halted { tenant, pid, seconds } => write!(
                f,
                "{tenant} (process {pid}) is stopped by a signal: kill -CONT {pid} lets it go on, \
                 else it is killed after {seconds} s in which it is waited for"
            ),
            Self::Heating => f.write_str("heating the device until it is steady"),
            Self::StartingProgram { limit_s, sign } => write!(
                f,
                "calibrating: the victim's program has {limit_s} s {sign} (--victim-ready, \
                 user-victim.ready)"
            ),
            Self::ToppedUp { top_up, .. } => write!(f, "more blocks for undecided rows: {top_up}"),
            Self::ProbingDevice => f.write_str("probing the device alone"),
            Self::Probing(variant) => write!(f, "probing {variant}"),
            Self::Fault { fault, variant } => write!(f, "fault {fault} under {variant}"),
        }
    }
}

pub trait Observer {
    fn phase(&mut self, phase: &RunPhase);
    fn cell_begins(&mut self, cell: &Cell);
    /// A cell ended; `failure` says why it failed, if it did.
    fn cell_ends(&mut self, cell: &Cell, failure: Option<&str>);
}

/// Shows no progress.
pub struct Silent;

impl Observer for Silent {
    fn phase(&mut self, _phase: &RunPhase) {}
    fn cell_begins(&mut self, _cell: &Cell) {}
    fn cell_ends(&mut self, _cell: &Cell, _failure: Option<&str>) {}
}

// A resumed run: the finished and the remaining parts of its plan.

/// What of a run is done. Its plan is that of the set-up, without what an interruption cut.
#[derive(Debug, Clone)]
pub struct Continued {
    pub interruption: Interruption,
    pub left: Left,
    pub cells: BTreeSet<String>,
    /// Outcomes of the variants that failed or cannot run.
    pub ended: BTreeMap<String, Outcome>,
    /// How many findings there are, by variant and name of the probe.
    pub found: BTreeMap<(String, String), usize>,
    pub trials: BTreeSet<String>,
    /// Whether the device cannot run further fault trials.
    pub trials_stopped: bool,
}

impl Setup {
    /// The planned cells that did not run yet.
    pub fn cells_left(&self) -> Vec<Cell> {
        let is_left = |cell: &&Cell| {
            let done = self.continued.as_ref().map(|run| &run.cells);
            done.is_none_or(|done| !done.contains(&cell.id))
        };
        self.plan.cells.iter().filter(is_left).cloned().collect()
    }

    /// The planned fault trials that did not run yet.
    pub fn trials_left(&self) -> Vec<FaultTrial> {
        let is_left = |trial: &&FaultTrial| {
            let run = self.continued.as_ref();
            run.is_none_or(|run| !run.trials_stopped && !run.trials.contains(&trial.id))
        };
        let trials = self.plan.fault_trials.iter();
        trials.filter(is_left).cloned().collect()
    }

    /// The plan with only what did not run yet, for the progress display.
    pub fn plan_left(&self) -> Plan {
        Plan { cells: self.cells_left(), fault_trials: self.trials_left(), ..self.plan.clone() }
    }

    pub fn findings(&self, variant: &str, probe: &str) -> usize {
        let run = self.continued.as_ref();
        let found = run.and_then(|run| run.found.get(&(variant.to_owned(), probe.to_owned())));
        found.copied().unwrap_or(0)
    }
}

/// Begins the record, or goes on with that of an interrupted run, and writes the first event.
pub(super) fn recorder(setup: &Setup) -> Result<Recorder, RunError> {
    let (recorder, event) = match &setup.continued {
        None => (
            Recorder::create(&setup.out)?,
            RunEvent::Began {
                format_version: FORMAT_VERSION,
                plan: Box::new(setup.plan.clone()),
                device: Box::new(setup.identity.clone()),
                provenance: Box::new(setup.provenance.clone()),
                settings: setup.settings.clone().map(Box::new),
            },
        ),
        Some(run) => {
            reopen(&setup.out)?;
            let event = RunEvent::Resumed {
                interruption: Box::new(run.interruption.clone()),
                left: run.left.clone(),
            };
            (Recorder::reopen(&setup.out)?, event)
        }
    };
    recorder.event(&event)?;
    Ok(recorder)
}

// What a run writes while it runs: its events and the device's counters.

/// The open files of a record. Clones share the files.
#[derive(Clone)]
pub struct Recorder(Rc<RefCell<Logs>>);

/// The files; `None` after closing, when writes have no effect.
struct Logs {
    events: Option<EventLog>,
    telemetry: Option<TelemetryLog>,
}

impl Recorder {
    /// Creates both files.
    pub fn create(out: &Path) -> Result<Self, StoreError> {
        let logs = Logs {
            events: Some(EventLog::create(out)?),
            telemetry: Some(TelemetryLog::create(out)?),
        };
        Ok(Self(Rc::new(RefCell::new(logs))))
    }

    /// Goes on with both files of an interrupted run.
    pub fn reopen(out: &Path) -> Result<Self, StoreError> {
        let logs = Logs {
            events: Some(EventLog::reopen(out)?),
            telemetry: Some(TelemetryLog::reopen(out)?),
        };
        Ok(Self(Rc::new(RefCell::new(logs))))
    }

    pub fn event(&self, event: &RunEvent) -> Result<(), StoreError> {
        match &mut self.0.borrow_mut().events {
            Some(events) => events.append(event),
            None => Ok(()),
        }
    }

    pub fn warning(&self, text: impl Into<String>) -> Result<(), StoreError> {
        self.event(&RunEvent::Warning { text: text.into() })
    }

    /// Writes that a tenant's process ended, and how.
    pub fn tenant_ended(&self, tenant: &str, pid: u32, reason: String) -> Result<(), StoreError> {
        let tenant = tenant.to_owned();
        self.event(&RunEvent::TenantEnded { tenant, pid, reason })
    }

    pub fn telemetry(&self, rows: &[TelemetryRow]) -> Result<(), StoreError> {
        if let Some(telemetry) = &mut self.0.borrow_mut().telemetry {
            for row in rows {
                telemetry.append(row)?;
            }
        }
        Ok(())
    }

    /// Closes both files.
    pub fn close(&self) -> Result<(), StoreError> {
        let mut logs = self.0.borrow_mut();
        let (events, telemetry) = (logs.events.take(), logs.telemetry.take());
        telemetry.map_or(Ok(()), TelemetryLog::close)?;
        events.map_or(Ok(()), EventLog::close)
    }
}

// What mechanisms need of a run: options, facts of the host, journal.

/// The user's options, the facts of the host, and the journal of its changes.
pub struct HostSetup {
    profile: Profile,
    /// The profiles of its variants: those of asked shares, and last that of unprotected forms,
    /// which run for comparison.
    variants: Vec<Profile>,
    pub facts: HostFacts,
    pub journal: JournalLocation,
}

impl HostSetup {
    pub fn new(profile: Profile, facts: HostFacts, journal: JournalLocation) -> Self {
        let mut variants = profile.with_asked();
        variants.push(mechanism::unprotected_profile(&profile));
        Self { variants, profile, facts, journal }
    }

    /// The context of mechanisms with the user's options.
    pub const fn context(&self) -> MechanismContext<'_> {
        MechanismContext { profile: &self.profile, facts: &self.facts }
    }

    /// The context of the mechanism of a variant. A variant that does not follow from the user's
    /// options is an unprotected form.
    pub fn context_of(&self, mechanism: &str, variant: &str) -> MechanismContext<'_> {
        let context = self.context();
        let Some(mechanism) = mechanism::find(mechanism) else {
            return context;
        };
        let is_of = |profile: &&Profile| {
            let context = MechanismContext { profile, ..context };
            mechanism.configuration(&context).variant == variant
        };
        let profile = self.variants.iter().find(is_of).or(self.variants.last());
        MechanismContext { profile: profile.unwrap_or(&self.profile), ..context }
    }

    /// The state of the host in which cells of that variant run.
    pub fn stage_of(&self, mechanism: &str, variant: &str) -> Option<HostStage> {
        let context = self.context_of(mechanism, variant);
        mechanism::find(mechanism)?.configuration(&context).stage
    }
}
