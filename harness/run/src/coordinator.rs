//! The coordinator: one run from its first event to its last.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpubench_host::mechanism;
use gpubench_host::tenant::SILENT;
use gpubench_record::user_victim::Reports;
use gpubench_record::{Calibration, Cell, RunEvent, TimePart};
use tokio::sync::watch;

use super::cores::{Placement, shortage};
use super::handles::MechanismLedger;
use super::host_session::{HostSession, MechanismKey};
use super::soak::Soak;
use super::tenant_process::WallClock;
use super::tenant_set::TenantSet;
use super::waits::Waits;
use super::xids::XidMonitor;
use super::{
    KernelLog, Observer, RunEnd, RunError, RunHandles, RunPhase, Setup, calibrate, cell, fault,
    probe, rfc3339_now, setup,
};

struct Coordinator {
    handles: RunHandles,
    xids: XidMonitor,
    cores: Placement,
    ledger: MechanismLedger,
    session: HostSession,
    /// What keeps the device at one speed, if anything does.
    soak: Option<Soak>,
    /// Cells of each variant in which a tenant did not answer.
    hung: BTreeMap<String, u32>,
    /// Whether a cell was measured, by this start or an earlier one.
    has_measured: bool,
    wall_clock: WallClock,
}

/// A variant that hangs in so many cells gets no more.
const HUNG_MAX: u32 = 2;

/// Runs the plan. `kernel_log` was opened before any tenant was started; it is absent where it is
/// not readable.
/// Fails when the record cannot be written or nothing can be measured; what was measured until then
/// is in the folder.
pub async fn run(
    setup: Setup,
    kernel_log: Option<KernelLog>,
    stop: watch::Receiver<bool>,
    observer: &mut dyn Observer,
) -> Result<RunEnd, RunError> {
    let setup = Arc::new(setup);
    let recorder = setup::recorder(&setup)?;
    let ended = setup.continued.as_ref().map(|run| run.ended.clone());
    if let Some(text) = shortage_of(&setup)? {
        observer.phase(&RunPhase::Note(text.clone()));
        recorder.warning(text)?;
    }
    // Before any thread or process is started, because they inherit the cores of this one.
    let cores = Placement::settle(&setup)?;
    let (phases, mut shown) = tokio::sync::mpsc::unbounded_channel();
    let handles = RunHandles::new(setup, Waits::new(stop, phases), recorder.clone());
    // Registered before any tenant is started: earlier Xids are not this run's.
    let xids = XidMonitor::start(&handles, kernel_log).await?;
    let mut coordinator = Coordinator {
        xids,
        cores,
        ledger: MechanismLedger::new(recorder.clone(), ended.unwrap_or_default()),
        session: HostSession::new(handles.clone()),
        soak: None,
        hung: BTreeMap::new(),
        has_measured: handles.setup.continued.is_some(),
        wall_clock: WallClock::now(),
        handles,
    };
    let observer = RefCell::new(observer);
    let end = {
        let mut shared = Shared(&observer);
        let mut all = std::pin::pin!(coordinator.all(&mut shared));
        loop {
            tokio::select! {
                end = &mut all => break end,
                Some(phase) = shown.recv() => observer.borrow_mut().phase(&phase),
            }
        }
    };
    let end = match end {
        Err(RunError::Interrupted) => Ok(RunEnd::Interrupted),
        Err(error) if coordinator.has_measured => Err(RunError::AfterCells(Box::new(error))),
        end => end,
    };
    // A host that could not be restored takes precedence over every other error.
    let end = match coordinator.session.leave().await {
        Err(RunError::Interrupted) => end.map(|_| RunEnd::Interrupted),
        left => left.and(end),
    };
    let (complete, reason) = match &end {
        Ok(RunEnd::Complete) => (true, None),
        Ok(RunEnd::Interrupted) => (false, Some("interrupted".to_owned())),
        Err(error) => (false, Some(error.to_string())),
    };
    recorder.event(&RunEvent::TimeSpent { time: coordinator.handles.time_spent().await })?;
    recorder.event(&RunEvent::Ended { complete, reason, at: rfc3339_now() })?;
    recorder.close()?;
    coordinator.cores.leave()?;
    end
}

/// The observer of a run, which also shows what waits tell.
struct Shared<'a, 'b>(&'a RefCell<&'b mut dyn Observer>);

impl Observer for Shared<'_, '_> {
    fn phase(&mut self, phase: &RunPhase) {
        self.0.borrow_mut().phase(phase);
    }

    fn cell_begins(&mut self, cell: &Cell) {
        self.0.borrow_mut().cell_begins(cell);
    }

    fn cell_ends(&mut self, cell: &Cell, failure: Option<&str>) {
        self.0.borrow_mut().cell_ends(cell, failure);
    }
}

/// Which threads share cores; `None` in virtual time, which passes without cores.
fn shortage_of(setup: &Setup) -> Result<Option<String>, RunError> {
    if setup.clock.is_virtual() {
        return Ok(None);
    }
    Ok(shortage(&setup.plan)?)
}

impl Coordinator {
    async fn all(&mut self, observer: &mut dyn Observer) -> Result<RunEnd, RunError> {
        let handles = self.handles.clone();
        let plan = &handles.setup.plan;
        for planned in &plan.mechanisms {
            if mechanism::find(&planned.name).is_none() {
                return Err(RunError::UnknownMechanism(planned.name.clone()));
            }
        }
        observer.phase(&RunPhase::StartingTenants);
        handles.spend(TimePart::Calibration).await;
        let calibration = match self.session.calibrating(&mut self.ledger).await? {
            Some((tenants, share)) => {
                // Victims are sized on the device at the speed that it has in the cells.
                self.soak = Soak::begin(tenants, observer).await?;
                observer.phase(&calibration_phase(&handles.setup));
                let found = calibration(tenants, share).await?;
                if let Some(soak) = &mut self.soak {
                    soak.after_load().await?;
                }
                found
            }
            // The row of each mechanism gives the reason.
            None => Calibration::default(),
        };
        handles.spend(TimePart::Other).await;
        let device = handles.identity();
        handles.recorder.event(&RunEvent::Calibrated {
            calibration: calibration.clone(),
            device: (device.sm_count > 0).then(|| Box::new(device)),
        })?;
        for (name, variant) in variants(&handles.setup) {
            self.ledger.runs(&name, &variant)?;
        }
        self.cells(&handles.setup.cells_left(), &calibration, observer).await?;
        let more = self.top_up(observer)?;
        self.cells(&more, &calibration, observer).await?;
        if handles.waits.is_stopped() {
            return Ok(RunEnd::Interrupted);
        }
        let (session, ledger) = (&mut self.session, &mut self.ledger);
        if !plan.probes.is_empty() && !handles.waits.is_stopped() {
            handles.spend(TimePart::Probes).await;
            probe::campaign(&handles, session, ledger, observer).await?;
        }
        let xids = &mut self.xids;
        handles.spend(TimePart::Faults).await;
        fault::campaign(&handles, session, ledger, xids, &calibration, observer).await?;
        handles.spend(TimePart::Other).await;
        Ok(if handles.waits.is_stopped() { RunEnd::Interrupted } else { RunEnd::Complete })
    }

    /// Runs cells in their order, until the user stops the run.
    async fn cells(
        &mut self,
        cells: &[Cell],
        calibration: &Calibration,
        observer: &mut dyn Observer,
    ) -> Result<(), RunError> {
        for cell in cells {
            if self.handles.waits.is_stopped() {
                return Ok(());
            }
            observer.cell_begins(cell);
            let failure = self.cell(cell, calibration).await?;
            observer.cell_ends(cell, failure.as_deref());
            if let Some(text) = self.wall_clock.stepped() {
                observer.phase(&RunPhase::Note(text.clone()));
                self.handles.recorder.warning(text)?;
            }
        }
        match &mut self.soak {
            Some(soak) if !cells.is_empty() => soak.finish(&mut self.session).await?,
            _ => {}
        }
        self.handles.spend(TimePart::Other).await;
        Ok(())
    }

    /// The cells that undecided rows get. A look that fails costs no measurement.
    fn top_up(&self, observer: &mut dyn Observer) -> Result<Vec<Cell>, RunError> {
        let (setup, recorder) = (&self.handles.setup, &self.handles.recorder);
        let Some(look) = setup
            .top_up
            .as_ref()
            // A start before an interruption may have looked: it happens once.
            .filter(|_| !self.handles.waits.is_stopped() && setup.plan.top_up.is_none())
        else {
            return Ok(Vec::new());
        };
        match look(&setup.out) {
            Ok(None) => Ok(Vec::new()),
            Ok(Some((top_up, cells))) => {
                observer.phase(&RunPhase::ToppedUp { top_up: top_up.clone(), cells: cells.len() });
                recorder.event(&RunEvent::ToppedUp { top_up, cells: cells.clone() })?;
                Ok(cells)
            }
            Err(error) => {
                recorder.warning(format!("undecided rows get no more blocks: {error}"))?;
                Ok(Vec::new())
            }
        }
    }

    /// Runs a cell, or writes why it did not run. Returns why it failed, if it did.
    async fn cell(
        &mut self,
        cell: &Cell,
        calibration: &Calibration,
    ) -> Result<Option<String>, RunError> {
        let recorder = &self.handles.recorder;
        if let Some(reason) = self.ledger.waived(&cell.variant) {
            cell::write_not_run(recorder, cell, reason)?;
            return Ok(None);
        }
        if self.hung.get(&cell.variant).is_some_and(|count| *count >= HUNG_MAX) {
            let reason = format!("{HUNG_MAX} cells of the mechanism hung");
            return cell::write_not_run(recorder, cell, reason).map(|_| None);
        }
        let key = MechanismKey::from(cell);
        let (session, ledger) = (&mut self.session, &mut self.ledger);
        if let Some(soak) = &mut self.soak {
            soak.before(session, &key, ledger).await?;
        }
        let failure = match session.ready(&key, ledger).await? {
            Ok(tenants) => {
                let (cores, xids) = (&self.cores, &mut self.xids);
                let failure = cell::run(tenants, cores, ledger, xids, calibration, cell).await?;
                self.has_measured |= failure.is_none();
                if let Some(soak) = &mut self.soak {
                    soak.after_load().await?;
                }
                failure
            }
            Err(reason) => Some(cell::write_not_run(recorder, cell, reason)?),
        };
        if let Some(reason) = failure.as_deref().filter(|reason| reason.contains(SILENT)) {
            let count = self.hung.entry(cell.variant.clone()).or_default();
            *count += 1;
            if *count == HUNG_MAX {
                let reason = format!("it hung in {HUNG_MAX} cells, last: {reason}");
                self.ledger.failed(&cell.mechanism, &cell.variant, &reason)?;
            }
        }
        Ok(failure)
    }
}

/// Warning about a reused calibration that names no device.
const UNBOUND: &str = "the reused calibration has no binding, as before record format 2.2: whether \
                       it fits the peaks of this device is unknown";

async fn calibration(tenants: &mut TenantSet, share: f64) -> Result<Calibration, RunError> {
    let setup = Arc::clone(&tenants.handles().setup);
    // A user's program reports nothing about the device; a neighbour does.
    let reporter = usize::from(setup.plan.user_victim.is_some());
    if reporter > 0 || setup.calibration.is_some() {
        // A tenant with an open context reports facts of the device.
        tenants.open_only(reporter).await?;
    }
    match &setup.calibration {
        Some(calibration) => {
            if calibration.binding.is_none() {
                let recorder = &tenants.handles().recorder;
                recorder.warning(UNBOUND.to_owned())?;
            }
            Ok(calibration.clone())
        }
        None => calibrate::calibrate(tenants, share).await,
    }
}

/// The phase in which the victim is calibrated. A user's program may load for long before it
/// reports.
fn calibration_phase(setup: &Setup) -> RunPhase {
    let program = setup.plan.user_victim.as_ref();
    let Some(program) = program.filter(|_| setup.calibration.is_none()) else {
        return RunPhase::Calibrating;
    };
    RunPhase::StartingProgram {
        limit_s: program.ready_ns as f64 / 1e9,
        sign: match program.reports {
            Reports::Requests => "to report that it is ready",
            Reports::Lines => "to print a line",
        },
    }
}

/// Every variant that has cells, the planned ones first. The reference and the unprotected forms
/// run for comparison even if the profile does not name them, and are proved too.
fn variants(setup: &Setup) -> Vec<(String, String)> {
    let plan = &setup.plan;
    let planned = plan.mechanisms.iter().map(|one| (&one.name, &one.variant));
    let run = plan.cells.iter().map(|cell| (&cell.mechanism, &cell.variant));
    let mut found = BTreeSet::new();
    planned
        .chain(run)
        .filter(|(_, variant)| found.insert((*variant).clone()))
        .map(|(name, variant)| (name.clone(), variant.clone()))
        .collect()
}
