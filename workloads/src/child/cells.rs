//! The tenant's side of a cell: prepares it, and runs it with issuer and reaper.

use std::path::Path;
use std::sync::Arc;

use gpubench_kernels::driver::DriverError;
use gpubench_record::wire::Participants;
use gpubench_record::{FromTenant, LoadSpec, RefusalKind, WorkloadSpec};
use gpubench_stats::{poisson_schedule_ns, schedule_hash, schedule_ns};

use super::tenant::{Open, Tenant, joined, usable};
use crate::clock::thread::{Cores, ReaperCores};
use crate::clock::{Clock, ClockError, Time};
use crate::device::NoDevice;
use crate::generator::{CellRun, CellRunError, DeviceError, Outcome, Reap, run_cell, shape};
use crate::load::LoadError;
use crate::log::{LogError, LogWriter, mark_wrong};
use crate::probe::ProbeError;

pub(super) struct Cell {
    load: LoadSpec,
    arrivals_ns: Vec<u64>,
    pauses_ns: Vec<u64>,
    log: LogWriter,
    cpu: Option<u32>,
    reaper_cpu: Option<u32>,
}

impl Tenant {
    pub(super) fn prepare(
        &mut self,
        workload: Option<&WorkloadSpec>,
        load: LoadSpec,
        log: &Path,
        capacity_rows: u64,
        (cpu, reaper_cpu): (Option<u32>, Option<u32>),
    ) -> Result<FromTenant, Failure> {
        const DOING: &str = "preparing a cell";
        let open = usable(&mut self.open, DOING)?;
        open.cell = None;
        let idle = matches!(load, LoadSpec::Idle { .. });
        if idle != workload.is_none() {
            let what = "an idle load takes no workload and every other load needs one";
            return Err(Failure::other(DOING, what));
        }
        let arrivals_ns = arrivals_ns(&load)?;
        let pauses_ns = pauses_ns(&load)?;
        let hash = matches!(load, LoadSpec::Victim { .. })
            .then(|| format!("{:016x}", schedule_hash(&arrivals_ns)));
        // Created before the clock is joined: allocating a file takes real time and no virtual
        // time.
        open.log = log.to_owned();
        let log = LogWriter::create(log, capacity_rows).doing(DOING)?;
        let (mut identity, modules_ns) = (None, open.session.gpu.kernels.loading_ns());
        if let Some(spec) = workload {
            let session = &mut open.session;
            joined(&self.clock, open.participants, DOING, || {
                session.set_up(spec).doing(DOING)?;
                session.reserve(pairs(&load)).doing(DOING)
            })?;
            identity = session.identity();
        }
        if let Some(wall) = self.clock.as_wall()
            && !self.guard_measured
        {
            wall.measure_guard().doing(DOING)?;
            self.guard_measured = true;
        }
        let modules_ns = open.session.gpu.kernels.loading_ns() - modules_ns;
        open.cell = Some(Cell { load, arrivals_ns, pauses_ns, log, cpu, reaper_cpu });
        Ok(FromTenant::Ready { schedule_hash: hash, identity, modules_ns })
    }

    pub(super) fn go(&mut self, t0_ns: u64) -> Result<FromTenant, Failure> {
        const DOING: &str = "running a cell";
        let open = usable(&mut self.open, DOING)?;
        let Some(cell) = open.cell.take() else {
            return Err(Failure::other(DOING, "no cell was prepared"));
        };
        // Cores matter on the wall clock only; in virtual time the launcher chose them.
        let cpu = cell.cpu.filter(|_| !self.clock.is_virtual());
        let found = cpu.map(|_| Cores::of_this_thread()).transpose().doing(DOING)?;
        if let Some(cpu) = cpu {
            Cores::only(cpu).apply().doing(DOING)?;
        }
        // The reaper would keep the core of the issuer, which starts it.
        let reaper_cores = match cell.reaper_cpu {
            Some(reaper) => cpu.map(|_| ReaperCores::Own(reaper)),
            None => found
                .zip(cpu)
                .map(|(found, cpu)| found.without(cpu))
                .filter(|others| !others.list().is_empty())
                .map(ReaperCores::Shared),
        };
        let played = run(&self.clock, open, cell, t0_ns, reaper_cores);
        if let Some(found) = found {
            found.apply().doing(DOING)?;
        }
        let outcome = played?;
        open.stuck = outcome.stuck;
        open.session.requests = outcome.rows;
        if let Some(failure) = outcome.failure {
            return Err(Failure::new(DOING, RefusalKind::of_code(failure.code), failure.what));
        }
        if outcome.stuck {
            let what = format!("{} requests never ended", outcome.unfinished);
            return Err(Failure::other(DOING, what));
        }
        Ok(FromTenant::Done {
            rows: outcome.rows,
            unlogged: outcome.unlogged,
            overloaded: outcome.overloaded,
            sched: class(outcome.fifo),
            reaper_sched: Some(class(outcome.reaper_fifo)),
            cpu_gaps: outcome.cpu_gaps,
        })
    }
}

impl Tenant {
    /// The output of the last cell or, with a workload, of one cycle of its requests.
    pub(super) fn digest(
        &mut self,
        workload: Option<&WorkloadSpec>,
    ) -> Result<FromTenant, Failure> {
        const DOING: &str = "digesting its output";
        let open = usable(&mut self.open, DOING)?;
        let session = &mut open.session;
        let output = joined(&self.clock, open.participants, DOING, || {
            if let Some(spec) = workload {
                session.set_up(spec).doing(DOING)?;
            }
            let output = session.digest().doing(DOING);
            if workload.is_some() {
                session.put_away();
            }
            output
        })?;
        let output = output.ok_or_else(|| Failure::other(DOING, "no workload was prepared"))?;
        if !output.wrong_after.is_empty() {
            mark_wrong(&open.log, &output.wrong_after).doing(DOING)?;
        }
        Ok(FromTenant::Digested { output })
    }
}

fn class(fifo: bool) -> String {
    if fifo { "fifo" } else { "other" }.to_owned()
}

/// Runs the cell; both threads join the clock and leave it within.
fn run(
    clock: &Clock,
    open: &mut Open,
    cell: Cell,
    t0_ns: u64,
    reaper_cores: Option<ReaperCores>,
) -> Result<Outcome, Failure> {
    const DOING: &str = "running a cell";
    let Participants { issuer, reaper } = open.participants;
    let Cell { load, arrivals_ns, pauses_ns, log, .. } = cell;
    let idle = matches!(load, LoadSpec::Idle { .. });
    let mut run =
        CellRun { t0_ns, load, arrivals_ns, pauses_ns, issuer, reaper, reaper_cores, answers: &[] };
    let time: Arc<dyn Time> = Arc::new(clock.clone());
    if idle {
        let reap: Arc<dyn Reap> = Arc::new(NoDevice);
        return run_cell(&time, &run, &mut NoDevice, &reap, log).doing(DOING);
    }
    run.answers = open.session.answers().doing(DOING)?;
    let mut requests =
        open.session.ready().ok_or_else(|| Failure::other(DOING, "no workload was prepared"))?;
    let reap: Arc<dyn Reap> = Arc::clone(&requests.pool) as Arc<dyn Reap>;
    run_cell(&time, &run, &mut requests, &reap, log).doing(DOING)
}

/// The schedule of a victim; other loads have none.
fn arrivals_ns(load: &LoadSpec) -> Result<Vec<u64>, Failure> {
    match load {
        LoadSpec::Victim { open_start_ns, open_end_ns, rate_per_s, bursts, seed, .. } => {
            let duration_ns = open_end_ns.saturating_sub(*open_start_ns);
            let bursts = bursts.map(shape);
            schedule_ns(*rate_per_s, duration_ns, *seed, bursts).doing("preparing a cell")
        }
        LoadSpec::Aggressor { .. } | LoadSpec::Idle { .. } => Ok(Vec::new()),
    }
}

/// Seed of the pauses, apart from that of the arrivals.
const PAUSES: u64 = 0x5eed_0f9a_115e_5000;

/// The pauses of the sparse phase of a victim, more than fit into it.
fn pauses_ns(load: &LoadSpec) -> Result<Vec<u64>, Failure> {
    let LoadSpec::Victim { sparse: Some(sparse), seed, .. } = load else { return Ok(Vec::new()) };
    let rate_per_s = 1e9 / sparse.pause_ns.max(1) as f64;
    let at_ns = poisson_schedule_ns(rate_per_s, sparse.length_ns, seed ^ PAUSES);
    let at_ns = at_ns.doing("preparing a cell")?;
    let before_ns = std::iter::once(0).chain(at_ns.iter().copied());
    Ok(at_ns.iter().zip(before_ns).map(|(at, before)| at - before).collect())
}

fn pairs(load: &LoadSpec) -> usize {
    match load {
        LoadSpec::Victim { outstanding_max, depth, .. } => (*outstanding_max).max(*depth) as usize,
        LoadSpec::Aggressor { depth, .. } => *depth as usize,
        LoadSpec::Idle { .. } => 0,
    }
}

// The reply of a tenant that could not carry out a message.

/// Why a message could not be carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{doing}: {text}")]
pub struct Failure {
    doing: &'static str,
    kind: RefusalKind,
    text: String,
}

impl Failure {
    /// The step, the kind of failure, and its error in one line.
    pub fn new(doing: &'static str, kind: RefusalKind, text: impl Into<String>) -> Self {
        Self { doing, kind, text: text.into().replace('\n', " ") }
    }

    /// A failure of no special kind.
    pub fn other(doing: &'static str, text: impl Into<String>) -> Self {
        Self::new(doing, RefusalKind::Other, text)
    }
}

impl From<Failure> for FromTenant {
    fn from(Failure { doing, kind, text }: Failure) -> Self {
        Self::Refused { doing: doing.to_owned(), kind, text }
    }
}

/// Adds the step to an error.
pub(crate) trait While<T> {
    /// The error as a failure of the step `doing`.
    fn doing(self, doing: &'static str) -> Result<T, Failure>;
}

macro_rules! failures {
    ($( $error:ty => $kind:expr; )*) => { $(
        impl<T> While<T> for Result<T, $error> {
            fn doing(self, doing: &'static str) -> Result<T, Failure> {
                self.map_err(|error| {
                    let kind: fn(&$error) -> RefusalKind = $kind;
                    Failure::new(doing, kind(&error), error.to_string())
                })
            }
        }
    )* };
}

failures! {
    ClockError => |_| RefusalKind::Other;
    DeviceError => |error| RefusalKind::of_code(error.code);
    DriverError => |error| RefusalKind::of_code(error.code());
    LoadError => LoadError::kind;
    LogError => LogError::kind;
    CellRunError => |_| RefusalKind::Other;
    ProbeError => ProbeError::kind;
    gpubench_stats::ScheduleError => |_| RefusalKind::Other;
}
