//! A tenant's state between messages, and the answer to each message.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use gpubench_kernels::driver;
use gpubench_record::wire::{FaultPart, Inside, Participants};
use gpubench_record::{
    FromTenant, LoadSpec, ProbeAsk, RefusalKind, ToTenant, Verification, WorkloadSpec,
};
use gpubench_stats::{schedule_hash, schedule_ns};

use super::breaking;
use super::evidence;
use super::failure::{Failure, While};
use super::session::Session;
use crate::clock::thread::Cores;
use crate::clock::{Clock, Seat, Time};
use crate::device::{NoDevice, Requests};
use crate::fault::{Armed, Arming};
use crate::generator::{Outcome, Part, Reap, play, shape};
use crate::load;
use crate::log::LogWriter;

/// A tenant.
pub(super) struct Tenant {
    clock: Clock,
    open: Option<Open>,
    guard_measured: bool,
}

/// What exists while the device is open.
struct Open {
    session: Session,
    participants: Participants,
    cell: Option<Cell>,
    stuck: bool,
    /// What it is about to break. Dropped before the session it belongs to would be.
    armed: Option<Box<dyn Armed>>,
}

/// A cell that is prepared.
struct Cell {
    load: LoadSpec,
    arrivals_ns: Vec<u64>,
    log: LogWriter,
    cpu: Option<u32>,
}

impl Tenant {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            open: None,
            guard_measured: false,
        }
    }

    /// Does what a message asks for.
    pub(super) fn answer(&mut self, message: ToTenant) -> Result<FromTenant, Failure> {
        match message {
            ToTenant::Open {
                ordinal,
                spin,
                participants,
                inside,
            } => self.open(ordinal, spin, participants, inside),
            ToTenant::Close => self.close(),
            ToTenant::Calibrate {
                workload,
                share,
                service_ns,
            } => self.calibrate(&workload, share, service_ns),
            ToTenant::Verify { workloads } => self.verify(&workloads),
            ToTenant::Census => self.census(),
            ToTenant::TryAllocate { bytes } => self.try_allocate(bytes),
            ToTenant::Probe { ask } => self.probe(&ask),
            ToTenant::Prepare {
                cell: _,
                workload,
                load,
                log,
                capacity_rows,
                cpu,
            } => self.prepare(workload.as_ref(), load, Path::new(&log), capacity_rows, cpu),
            ToTenant::Go { t0_ns } => self.go(t0_ns),
            ToTenant::Arm {
                fault,
                budget_ns,
                part,
            } => self.arm(&fault, budget_ns, &part),
            ToTenant::Strike {
                t0_ns,
                at_ns,
                until_ns,
            } => self.strike(t0_ns, at_ns, until_ns),
            ToTenant::Arrive {
                ordinal,
                participants,
                every_ns,
                limit_ns,
            } => self.arrive(ordinal, participants, every_ns, limit_ns),
            ToTenant::Quit => Err(Failure::other("quitting", "quit is not answered")),
        }
    }

    fn open(
        &mut self,
        ordinal: u32,
        spin: bool,
        participants: Participants,
        inside: Option<Inside>,
    ) -> Result<FromTenant, Failure> {
        const DOING: &str = "opening the device";
        if self.open.is_some() {
            return Err(Failure::other(DOING, "it is already open"));
        }
        if participants.issuer == participants.reaper {
            return Err(Failure::other(
                DOING,
                "issuer and reaper have the same number",
            ));
        }
        let (session, facts) = joined(&self.clock, participants, DOING, || {
            Session::open(ordinal, spin, inside).doing(DOING)
        })?;
        self.open = Some(Open {
            session,
            participants,
            cell: None,
            stuck: false,
            armed: None,
        });
        Ok(FromTenant::Opened { facts })
    }

    fn close(&mut self) -> Result<FromTenant, Failure> {
        const DOING: &str = "closing the device";
        // Releasing waits for the device: with work on it that never ends, for ever.
        usable(&mut self.open, DOING)?;
        let open = self.open.take().ok_or_else(|| not_open(DOING))?;
        let before = driver::drop_errors().count;
        joined(&self.clock, open.participants, DOING, || {
            drop(open);
            Ok(())
        })?;
        let after = driver::drop_errors();
        if after.count == before {
            return Ok(FromTenant::Closed);
        }
        let count = after.count - before;
        let last = after.last.as_ref();
        let text = last.map_or_else(|| "unknown".to_owned(), ToString::to_string);
        let what = format!("closed, but {count} releases failed, the last with: {text}");
        let kind = RefusalKind::of_code(last.and_then(driver::DriverError::code));
        Err(Failure::new(DOING, kind, what))
    }

    fn calibrate(
        &mut self,
        name: &str,
        share: f64,
        service_ns: u64,
    ) -> Result<FromTenant, Failure> {
        const DOING: &str = "calibrating";
        let open = usable(&mut self.open, DOING)?;
        let workload = load::find(name).doing(DOING)?;
        let (clock, session) = (&self.clock, &mut open.session);
        let found = joined(clock, open.participants, DOING, || {
            session.put_away();
            let found = load::calibrate(workload, &session.gpu, clock, share, service_ns);
            found.doing(DOING)
        })?;
        let load::Calibrated {
            spec,
            rate_per_s,
            service_ns,
            work_per_request,
        } = found;
        let unit = workload.unit.to_owned();
        Ok(FromTenant::Calibrated {
            spec,
            rate_per_s,
            service_ns,
            work_per_request,
            unit,
        })
    }

    fn verify(&mut self, names: &[String]) -> Result<FromTenant, Failure> {
        const DOING: &str = "verifying";
        let open = usable(&mut self.open, DOING)?;
        let gpu = &open.session.gpu;
        let check = |name: &String| {
            let checked = load::find(name).and_then(|workload| match workload.lacks(gpu)? {
                Some(reason) => Ok(Verification::Waived { reason }),
                None => workload.verify(gpu).map(|()| Verification::Correct),
            });
            let found = checked.unwrap_or_else(|error| Verification::Failed {
                problem: error.to_string(),
            });
            (name.clone(), found)
        };
        let results: BTreeMap<_, _> = joined(&self.clock, open.participants, DOING, || {
            Ok(names.iter().map(check).collect())
        })?;
        Ok(FromTenant::Verified { results })
    }

    fn census(&mut self) -> Result<FromTenant, Failure> {
        const DOING: &str = "counting SMs";
        let open = usable(&mut self.open, DOING)?;
        let gpu = &open.session.gpu;
        let sms = joined(&self.clock, open.participants, DOING, || {
            evidence::census(gpu).doing(DOING)
        })?;
        Ok(FromTenant::Counted { sms })
    }

    fn try_allocate(&mut self, bytes: u64) -> Result<FromTenant, Failure> {
        const DOING: &str = "trying to allocate";
        let open = usable(&mut self.open, DOING)?;
        let gpu = &open.session.gpu;
        let refused_with = joined(&self.clock, open.participants, DOING, || {
            evidence::try_allocate(gpu, bytes).doing(DOING)
        })?;
        Ok(FromTenant::Tried { refused_with })
    }

    fn probe(&mut self, ask: &ProbeAsk) -> Result<FromTenant, Failure> {
        const DOING: &str = "probing";
        let open = usable(&mut self.open, DOING)?;
        let (clock, session) = (&self.clock, &mut open.session);
        let told = joined(clock, open.participants, DOING, || {
            session.probe(clock, ask).doing(DOING)
        })?;
        Ok(FromTenant::Probed { told })
    }

    fn arm(&mut self, name: &str, budget_ns: u64, part: &FaultPart) -> Result<FromTenant, Failure> {
        const DOING: &str = "readying a fault";
        let open = usable(&mut self.open, DOING)?;
        let fault = crate::fault::find(name)
            .ok_or_else(|| Failure::other(DOING, format!("unknown fault {name:?}")))?;
        let gpu = &open.session.gpu;
        let given = match part {
            FaultPart::Helped { given } => given.as_deref(),
            FaultPart::Alone | FaultPart::Accomplice => None,
        };
        let (armed, given) = joined(&self.clock, open.participants, DOING, || {
            if *part == FaultPart::Accomplice {
                return fault.arm_accomplice(gpu).doing(DOING);
            }
            let armed = fault.arm(gpu, &Arming { budget_ns, given });
            armed.map(|armed| (armed, None)).doing(DOING)
        })?;
        open.armed = Some(armed);
        Ok(FromTenant::Armed { given })
    }

    fn strike(&mut self, t0_ns: u64, at_ns: u64, until_ns: u64) -> Result<FromTenant, Failure> {
        let open = usable(&mut self.open, breaking::DOING)?;
        let Some(mut armed) = open.armed.take() else {
            return Err(Failure::other(breaking::DOING, "no fault was readied"));
        };
        // What is left of it stands in a context that may be broken; the process is about to end.
        open.stuck = true;
        let (clock, gpu) = (&self.clock, &open.session.gpu);
        let struck = joined(clock, open.participants, breaking::DOING, || {
            breaking::strike(clock, gpu, &mut *armed, [t0_ns, at_ns, until_ns])
        });
        std::mem::forget(armed);
        struck
    }

    fn arrive(
        &mut self,
        ordinal: u32,
        participants: Participants,
        every_ns: u64,
        limit_ns: u64,
    ) -> Result<FromTenant, Failure> {
        const DOING: &str = "asking for the device";
        if self.open.is_some() {
            return Err(Failure::other(DOING, "it is already open"));
        }
        let clock = &self.clock;
        joined(clock, participants, DOING, || {
            breaking::arrive(clock, ordinal, every_ns, limit_ns)
        })
    }

    fn prepare(
        &mut self,
        workload: Option<&WorkloadSpec>,
        load: LoadSpec,
        log: &Path,
        capacity_rows: u64,
        cpu: Option<u32>,
    ) -> Result<FromTenant, Failure> {
        const DOING: &str = "preparing a cell";
        let open = usable(&mut self.open, DOING)?;
        open.cell = None;
        let idle = matches!(load, LoadSpec::Idle { .. });
        if idle != workload.is_none() {
            let what = "an idle load goes without a workload and every other load with one";
            return Err(Failure::other(DOING, what));
        }
        let arrivals_ns = arrivals_ns(&load)?;
        let hash = matches!(load, LoadSpec::Victim { .. })
            .then(|| format!("{:016x}", schedule_hash(&arrivals_ns)));
        // Made before the clock is joined: allocating a file takes real time and no virtual time.
        let log = LogWriter::create(log, capacity_rows).doing(DOING)?;
        if let Some(spec) = workload {
            let session = &mut open.session;
            joined(&self.clock, open.participants, DOING, || {
                session.set_up(spec).doing(DOING)?;
                session.reserve(pairs(&load)).doing(DOING)
            })?;
        }
        if let Some(wall) = self.clock.as_wall()
            && !self.guard_measured
        {
            wall.measure_guard().doing(DOING)?;
            self.guard_measured = true;
        }
        open.cell = Some(Cell {
            load,
            arrivals_ns,
            log,
            cpu,
        });
        Ok(FromTenant::Ready {
            schedule_hash: hash,
        })
    }

    fn go(&mut self, t0_ns: u64) -> Result<FromTenant, Failure> {
        const DOING: &str = "running a cell";
        let open = usable(&mut self.open, DOING)?;
        let Some(cell) = open.cell.take() else {
            return Err(Failure::other(DOING, "no cell was prepared"));
        };
        // Cores are real on the wall clock alone; in virtual time the launcher has placed us.
        let cpu = cell.cpu.filter(|_| !self.clock.is_virtual());
        let found = cpu
            .map(|_| Cores::of_this_thread())
            .transpose()
            .doing(DOING)?;
        if let Some(cpu) = cpu {
            Cores::only(cpu).apply().doing(DOING)?;
        }
        // With no other core to go to, sharing one is all there is; the figures show it.
        let others = found
            .zip(cpu)
            .map(|(found, cpu)| found.without(cpu))
            .filter(|others| !others.list().is_empty());
        let played = run(&self.clock, open, cell, t0_ns, others);
        if let Some(found) = found {
            found.apply().doing(DOING)?;
        }
        let outcome = played?;
        open.stuck = outcome.stuck;
        if let Some(failure) = outcome.failure {
            return Err(Failure::new(
                DOING,
                RefusalKind::of_code(failure.code),
                failure.what,
            ));
        }
        if outcome.stuck {
            let what = format!("{} requests never ended", outcome.unfinished);
            return Err(Failure::other(DOING, what));
        }
        Ok(FromTenant::Done {
            rows: outcome.rows,
            unlogged: outcome.unlogged,
            overloaded: outcome.overloaded,
            sched: if outcome.fifo { "fifo" } else { "other" }.to_owned(),
        })
    }
}

/// Plays the tenant's part of a cell; both threads join and leave within.
fn run(
    clock: &Clock,
    open: &mut Open,
    cell: Cell,
    t0_ns: u64,
    reaper_cores: Option<Cores>,
) -> Result<Outcome, Failure> {
    const DOING: &str = "running a cell";
    let Participants { issuer, reaper } = open.participants;
    let Cell {
        load,
        arrivals_ns,
        log,
        ..
    } = cell;
    let idle = matches!(load, LoadSpec::Idle { .. });
    let mut part = Part {
        t0_ns,
        load,
        arrivals_ns,
        issuer,
        reaper,
        reaper_cores,
        answers: &[],
    };
    let time: Arc<dyn Time> = Arc::new(clock.clone());
    if idle {
        let reap: Arc<dyn Reap> = Arc::new(NoDevice);
        return play(&time, &part, &mut NoDevice, &reap, log).doing(DOING);
    }
    part.answers = open.session.answers().doing(DOING)?;
    let (gpu, prepared, pool) = open
        .session
        .ready()
        .ok_or_else(|| Failure::other(DOING, "no workload was prepared"))?;
    let reap: Arc<dyn Reap> = Arc::clone(&pool) as Arc<dyn Reap>;
    play(
        &time,
        &part,
        &mut Requests {
            gpu,
            pool,
            prepared,
        },
        &reap,
        log,
    )
    .doing(DOING)
}

/// The schedule of a victim; other loads have none.
fn arrivals_ns(load: &LoadSpec) -> Result<Vec<u64>, Failure> {
    match load {
        LoadSpec::Victim {
            open_start_ns,
            open_end_ns,
            rate_per_s,
            bursts,
            seed,
            ..
        } => {
            let duration_ns = open_end_ns.saturating_sub(*open_start_ns);
            let bursts = bursts.map(shape);
            schedule_ns(*rate_per_s, duration_ns, *seed, bursts).doing("preparing a cell")
        }
        LoadSpec::Aggressor { .. } | LoadSpec::Idle { .. } => Ok(Vec::new()),
    }
}

/// Event pairs that a load needs.
fn pairs(load: &LoadSpec) -> usize {
    match load {
        LoadSpec::Victim {
            outstanding_max, ..
        } => *outstanding_max as usize,
        LoadSpec::Aggressor { depth, .. } => *depth as usize,
        LoadSpec::Idle { .. } => 0,
    }
}

/// Does driver work as the issuer: joins, works, leaves, whatever came of it.
fn joined<T>(
    clock: &Clock,
    participants: Participants,
    doing: &'static str,
    work: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let seat = Seat::take(clock, participants.issuer).doing(doing)?;
    let done = work();
    seat.leave().doing(doing)?;
    done
}

fn usable<'o>(open: &'o mut Option<Open>, doing: &'static str) -> Result<&'o mut Open, Failure> {
    let open = open.as_mut().ok_or_else(|| not_open(doing))?;
    if open.stuck {
        let what = "work of an earlier cell never ended: this tenant must be replaced";
        return Err(Failure::other(doing, what));
    }
    Ok(open)
}

fn not_open(doing: &'static str) -> Failure {
    Failure::other(doing, "the device is not open")
}
