//! Running a plan: the one place that starts tenants, tells them what to do, and writes down what
//! happens as it happens.
//!
//! Nothing is judged here. What comes out is a folder of events and sample logs, which `gate` and
//! `score` read later.

mod calibrate;
mod cell;
mod clock;
mod cores;
mod device_processes;
mod fault;
mod fault_scheduler;
mod host_session;
mod kernel_log;
mod observe;
mod peaks;
mod pid_registry;
mod probe;
pub mod sampler;
mod steal;
mod tenant_set;
mod xids;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use gpubench_record::user_victim::Reports;
use gpubench_record::{
    Calibration, Cell, DeviceIdentity, FORMAT_VERSION, MechanismRow, Outcome, OutcomeKind, Plan,
    Provenance, RunEvent, XidLine,
};
use gpubench_reports::store::{EventLog, StoreError, TelemetryLog};
use gpubench_workloads::clock::ClockError;
use tokio::sync::watch;

use crate::device::Nvml;
use crate::mechanism;
use crate::mechanism::host::HostError;
use crate::tenant::{SpawnError, Spawner, TenantError};
pub use clock::{RunClock, rfc3339_now};
use cores::Placement;
use host_session::HostSession;
pub use host_session::HostSetup;
pub use kernel_log::{KernelLog, PciAddress};
use pid_registry::PidRegistry;
use tenant_set::TenantSet;
pub use tenant_set::{name_of, participants_of};
use xids::XidWatch;

/// Everything a run needs from outside.
pub struct Setup {
    /// What to do.
    pub plan: Plan,
    /// Where to write it down; the folder exists.
    pub out: PathBuf,
    /// The clock of the tenants.
    pub clock: RunClock,
    /// The device's counters.
    pub nvml: Arc<Nvml>,
    /// The device.
    pub identity: DeviceIdentity,
    /// The circumstances.
    pub provenance: Provenance,
    /// The kernel's log, read from before any tenant was started; absent where it cannot be read.
    pub kernel_log: Option<KernelLog>,
    /// How tenants are started.
    pub spawner: Spawner,
    /// A calibration made before, to be used instead of a new one.
    pub calibration: Option<Calibration>,
    /// Whether mechanisms are probed after the cells.
    pub probes: bool,
    /// Whether tenants try to get past the limits of mechanisms.
    pub escape: bool,
    /// What mechanisms need to know.
    pub host: HostSetup,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunEnd {
    /// Every planned cell ran, well or badly.
    Complete,
    /// The user stopped it.
    Interrupted,
}

/// Why a run could not go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The record cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A tenant cannot be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// A tenant failed where nothing can be measured without it.
    #[error(transparent)]
    Tenant(#[from] TenantError),
    /// The clock of the virtual GPU.
    #[error("virtual clock: {0}")]
    Clock(String),
    /// Kernels give wrong results on this device: nothing measured with them means anything.
    #[error("kernel verification failed: {0}")]
    Verification(String),
    /// There is no room for the samples of another cell.
    #[error("no space left for samples")]
    DiskFull,
    /// The user wanted an end.
    #[error("interrupted")]
    Interrupted,
    /// Threads cannot be put on cores that they may use.
    #[error("placing threads on cores: {0}")]
    Cores(#[from] ClockError),
    /// The host could not be changed, or is not as it was found.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A mechanism that the plan names and this room does not know.
    #[error("mechanism {0} is planned and has no implementation")]
    UnknownMechanism(String),
}

/// Who is told how the run goes.
pub trait Observer {
    /// A stage before the cells began.
    fn stage(&mut self, what: &str);
    /// A cell begins.
    fn cell_begins(&mut self, cell: &Cell);
    /// A cell ended; `failure` says if it failed.
    fn cell_ends(&mut self, cell: &Cell, failure: Option<&str>);
}

/// What is open while a run goes on.
struct Run {
    setup: Setup,
    /// Absent where the driver tells of no Xids.
    xids: Option<XidWatch>,
    /// Which cores the issuers have.
    cores: Placement,
    /// Whose process is whose, for the kernel's log.
    registry: PidRegistry,
    events: EventLog,
    telemetry: TelemetryLog,
    stop: watch::Receiver<bool>,
    /// Variants that are written down as failed or waived.
    ended: BTreeMap<String, Outcome>,
}

/// Runs the plan.
///
/// # Errors
/// When the record cannot be written or nothing can be measured; what was measured until then is in
/// the folder.
pub async fn run(
    setup: Setup,
    stop: watch::Receiver<bool>,
    observer: &mut dyn Observer,
) -> Result<RunEnd, RunError> {
    let mut events = EventLog::create(&setup.out)?;
    let telemetry = TelemetryLog::create(&setup.out)?;
    events.append(&RunEvent::Began {
        format_version: FORMAT_VERSION,
        plan: Box::new(setup.plan.clone()),
        device: Box::new(setup.identity.clone()),
        provenance: Box::new(setup.provenance.clone()),
    })?;
    // Before any thread or process is started, which would begin where this one is.
    let cores = Placement::settle(&setup)?;
    // Registered before any tenant is started: what happened earlier is nobody's here.
    let xids = match XidWatch::start(&setup.nvml, setup.clock.is_virtual()) {
        Ok(watch) => Some(watch),
        Err(text) => {
            events.append(&RunEvent::Warning { text })?;
            None
        }
    };
    let mut run = Run {
        setup,
        xids,
        cores,
        registry: PidRegistry::default(),
        events,
        telemetry,
        stop,
        ended: BTreeMap::new(),
    };
    let mut session = HostSession::new(&run);
    let end = match run.all(&mut session, observer).await {
        Err(RunError::Interrupted) => Ok(RunEnd::Interrupted),
        end => end,
    };
    // A host that is not as it was found outweighs whatever else ended the run.
    let end = session.leave(&mut run).await.and(end);
    let (complete, reason) = match &end {
        Ok(RunEnd::Complete) => (true, None),
        Ok(RunEnd::Interrupted) => (false, Some("interrupted".to_owned())),
        Err(error) => (false, Some(error.to_string())),
    };
    run.events.append(&RunEvent::Ended {
        complete,
        reason,
        at: rfc3339_now(),
    })?;
    run.telemetry.close()?;
    run.events.close()?;
    run.cores.leave()?;
    end
}

impl Run {
    async fn all(
        &mut self,
        session: &mut HostSession,
        observer: &mut dyn Observer,
    ) -> Result<RunEnd, RunError> {
        for planned in &self.setup.plan.mechanisms {
            if mechanism::find(&planned.name).is_none() {
                return Err(RunError::UnknownMechanism(planned.name.clone()));
            }
        }
        observer.stage("starting tenants");
        let calibration = match session.calibrating(self).await? {
            Some((tenants, share)) => {
                observer.stage(&self.calibrating());
                self.calibration(tenants, share).await?
            }
            // Every mechanism has its row by then, which says why.
            None => Calibration::new(BTreeMap::new()),
        };
        let device = &self.setup.identity;
        self.events.append(&RunEvent::Calibrated {
            calibration: calibration.clone(),
            device: (device.sm_count > 0).then(|| Box::new(device.clone())),
        })?;
        for (name, variant) in self.variants() {
            if self.ended.contains_key(&variant) {
                continue;
            }
            let row = MechanismRow {
                name,
                variant,
                outcome: Outcome::measured(),
                remedy: None,
                proof: Vec::new(),
            };
            self.events.append(&RunEvent::Mechanism { row })?;
        }
        for cell in self.setup.plan.cells.clone() {
            if *self.stop.borrow() {
                return Ok(RunEnd::Interrupted);
            }
            observer.cell_begins(&cell);
            if let Some(reason) = self.waived(&cell.variant) {
                self.not_run(&cell, reason)?;
                observer.cell_ends(&cell, None);
                continue;
            }
            let failure = match session.ready(self, &cell).await? {
                Ok(tenants) => cell::run(self, tenants, &calibration, &cell).await?,
                Err(reason) => Some(self.not_run(&cell, reason)?),
            };
            observer.cell_ends(&cell, failure.as_deref());
        }
        if (self.setup.probes || self.setup.escape) && !*self.stop.borrow() {
            probe::campaign(self, session, observer).await?;
        }
        fault::campaign(self, session, &calibration, observer).await?;
        if *self.stop.borrow() {
            Ok(RunEnd::Interrupted)
        } else {
            Ok(RunEnd::Complete)
        }
    }

    /// The calibration that was given, or a new one.
    async fn calibration(
        &mut self,
        tenants: &mut TenantSet,
        share: f64,
    ) -> Result<Calibration, RunError> {
        // A program of the user's tells nothing of the device; a neighbour does.
        let teller = usize::from(self.setup.plan.foreign.is_some());
        let given = self.setup.calibration.take();
        if teller > 0 || given.is_some() {
            // What the device looks like is told by a tenant that has it.
            tenants.open_only(self, teller).await?;
        }
        match given {
            Some(calibration) => Ok(calibration),
            None => calibrate::calibrate(self, tenants, share).await,
        }
    }

    /// What is told of the stage in which the victim is calibrated. A program may have much to load
    /// before it says anything.
    fn calibrating(&self) -> String {
        let program = self.setup.plan.foreign.as_ref();
        let Some(program) = program.filter(|_| self.setup.calibration.is_none()) else {
            return "calibrating".to_owned();
        };
        let limit_s = program.ready_ns as f64 / 1e9;
        let sign = match program.reports {
            Reports::Requests => "to say that it is ready",
            Reports::Lines => "to print a line",
        };
        format!(
            "calibrating: the victim's program is given {limit_s} s {sign} (--victim-ready, \
             foreign.ready)"
        )
    }

    /// Every variant that has cells, the planned ones first. The reference and the unprotected
    /// forms run for the others' sake where nobody asked for them, and are proved too.
    fn variants(&self) -> Vec<(String, String)> {
        let plan = &self.setup.plan;
        let asked = plan.mechanisms.iter().map(|one| (&one.name, &one.variant));
        let run = plan
            .cells
            .iter()
            .map(|cell| (&cell.mechanism, &cell.variant));
        let mut seen = BTreeSet::new();
        asked
            .chain(run)
            .filter(|(_, variant)| seen.insert((*variant).clone()))
            .map(|(name, variant)| (name.clone(), variant.clone()))
            .collect()
    }

    /// Writes down a cell for which there are no tenants.
    fn not_run(&mut self, cell: &Cell, reason: String) -> Result<String, RunError> {
        let id = cell.id.clone();
        self.events
            .append(&RunEvent::CellBegan { id: id.clone() })?;
        self.events.append(&RunEvent::CellEnded {
            id,
            tenants: Vec::new(),
            failure: Some(reason.clone()),
            foreign_processes: None,
            throttle_reasons: None,
            xids: None,
            xid_lines: None,
            cpu_steal_ratio: None,
        })?;
        Ok(reason)
    }

    /// What the device reported since the last question; absent where nobody listens.
    fn drain_xids(&mut self, what: &str) -> Result<Option<Vec<u32>>, RunError> {
        let Some(drained) = self.xids.as_ref().map(XidWatch::drain) else {
            return Ok(None);
        };
        match drained {
            Ok(xids) => Ok(Some(xids)),
            Err(error) => {
                let text = format!("{what}: Xids cannot be asked for: {error}");
                self.events.append(&RunEvent::Warning { text })?;
                Ok(None)
            }
        }
    }

    /// Writes down that a tenant's process was started, and remembers whose it is.
    fn started(&mut self, tenant: &str, pid: u32) -> Result<(), RunError> {
        self.registry.enter(tenant, pid);
        let tenant = tenant.to_owned();
        Ok(self
            .events
            .append(&RunEvent::TenantStarted { tenant, pid })?)
    }

    /// What the kernel's log said of Xids since the last question, with who is who beside these
    /// services; absent where nobody reads it. One that cannot be read any more is left alone.
    fn drain_xid_lines(
        &mut self,
        what: &str,
        services: &[u32],
    ) -> Result<Option<Vec<XidLine>>, RunError> {
        let Some(log) = &mut self.setup.kernel_log else {
            return Ok(None);
        };
        match log.drain() {
            Ok(mut lines) => {
                if log.has_our_numbers() {
                    self.registry.attribute(&mut lines, services);
                }
                if self.setup.clock.is_virtual() {
                    // Equal runs have equal records, and no two have equal processes.
                    lines.iter_mut().for_each(|line| line.pid = None);
                }
                Ok(Some(lines))
            }
            Err(error) => {
                self.setup.kernel_log = None;
                let text = format!("{what}: the kernel's log cannot be read any more: {error}");
                self.events.append(&RunEvent::Warning { text })?;
                Ok(None)
            }
        }
    }

    /// Why no cell of this variant can run, once that has been found out.
    fn waived(&self, variant: &str) -> Option<String> {
        let outcome = self.ended.get(variant)?;
        let is_waived = outcome.outcome == OutcomeKind::Waived;
        is_waived.then(|| outcome.reason.clone().unwrap_or_default())
    }

    /// Writes down that a mechanism failed, once.
    fn failed(&mut self, name: &str, variant: &str, reason: &str) -> Result<(), RunError> {
        self.ended_as(name, variant, &Outcome::failed(reason), None)
    }

    /// Writes down that a mechanism failed or cannot be, once.
    fn ended_as(
        &mut self,
        name: &str,
        variant: &str,
        outcome: &Outcome,
        remedy: Option<&str>,
    ) -> Result<(), RunError> {
        if self.ended.contains_key(variant) {
            return Ok(());
        }
        self.ended.insert(variant.to_owned(), outcome.clone());
        let row = MechanismRow {
            name: name.to_owned(),
            variant: variant.to_owned(),
            outcome: outcome.clone(),
            remedy: remedy.map(str::to_owned),
            proof: Vec::new(),
        };
        Ok(self.events.append(&RunEvent::Mechanism { row })?)
    }
}
