//! A tenant's state between messages, and the reply to each message.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use gpubench_kernels::driver::{Context, DeviceBuffer, Driver, DriverError, Grid};
use gpubench_kernels::kernel::timing::{BlockTrace, GAP_WORDS, ROW_WORDS, decode};
use gpubench_kernels::{Launcher, driver};
use gpubench_record::wire::{Inside, OPENING, Participants};
use gpubench_record::{FromTenant, ProbeStep, RefusalKind, ToTenant, Verification};

use super::cells::{Cell, Failure, While};
use super::session::Session;
use crate::clock::{Clock, Participation, Time};
use crate::fault::Armed;
use crate::load;
use crate::load::Gpu;

pub(super) struct Tenant {
    pub(super) clock: Clock,
    pub(super) open: Option<Open>,
    pub(super) guard_measured: bool,
}

/// What exists while the device is open.
pub(super) struct Open {
    pub(super) session: Session,
    pub(super) participants: Participants,
    pub(super) cell: Option<Cell>,
    pub(super) log: PathBuf,
    pub(super) stuck: bool,
    pub(super) armed: Option<Box<dyn Armed>>,
}

impl Tenant {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, open: None, guard_measured: false }
    }

    pub(super) fn answer(&mut self, message: ToTenant) -> Result<FromTenant, Failure> {
        match message {
            ToTenant::Open { ordinal, spin, participants, inside } => {
                self.open(ordinal, spin, participants, inside)
            }
            ToTenant::Close => self.close(),
            ToTenant::Calibrate { workload, share, service_ns } => {
                self.calibrate(&workload, share, service_ns)
            }
            ToTenant::Verify { workloads } => self.verify(&workloads),
            ToTenant::FindSms => self.find_sms(),
            ToTenant::FindTimerStep => self.find_timer_step(),
            ToTenant::TryAllocate { bytes } => self.try_allocate(bytes),
            ToTenant::Probe { step } => self.probe(&step),
            ToTenant::Prepare { id: _, workload, load, log, capacity_rows, cpu, reaper_cpu } => {
                let (log, cpus) = (Path::new(&log), (cpu, reaper_cpu));
                self.prepare(workload.as_ref(), load, log, capacity_rows, cpus)
            }
            ToTenant::Go { t0_ns } => self.go(t0_ns),
            ToTenant::Digest { workload } => self.digest(workload.as_ref()),
            ToTenant::Arm { fault, budget_ns, role } => self.arm(&fault, budget_ns, &role),
            ToTenant::Inject { t0_ns, at_ns, until_ns } => self.inject(t0_ns, at_ns, until_ns),
            ToTenant::AcquireDevice { ordinal, participants, from_ns, every_ns, limit_ns } => {
                self.arrive(ordinal, participants, [from_ns, every_ns, limit_ns])
            }
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
        const DOING: &str = OPENING;
        if self.open.is_some() {
            return Err(Failure::other(DOING, "it is already open"));
        }
        if participants.issuer == participants.reaper {
            return Err(Failure::other(DOING, "issuer and reaper have the same number"));
        }
        let (mut session, facts) = joined(&self.clock, participants, DOING, || {
            Session::open(ordinal, spin, inside).doing(DOING)
        })?;
        let clock = self.clock.clone();
        session.gpu.kernels.time_by(move || clock.now_ns());
        self.open = Some(Open {
            session,
            participants,
            cell: None,
            log: PathBuf::new(),
            stuck: false,
            armed: None,
        });
        Ok(FromTenant::Opened { facts })
    }

    fn close(&mut self) -> Result<FromTenant, Failure> {
        const DOING: &str = "closing the device";
        // Releasing waits for the device, which takes forever if its work never ends.
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
        let load::Calibrated { spec, rate_per_s, service_ns, work_per_request } = found;
        let unit = workload.facts.unit.to_owned();
        Ok(FromTenant::Calibrated { spec, rate_per_s, service_ns, work_per_request, unit })
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
            let failed = |error: load::LoadError| Verification::Failed {
                problem: error.to_string(),
                code: error.code(),
            };
            let found = checked.unwrap_or_else(failed);
            (name.clone(), found)
        };
        let results: BTreeMap<_, _> = joined(&self.clock, open.participants, DOING, || {
            Ok(names.iter().map(check).collect())
        })?;
        Ok(FromTenant::Verified { results })
    }

    fn find_sms(&mut self) -> Result<FromTenant, Failure> {
        const DOING: &str = "finding its SMs";
        let open = usable(&mut self.open, DOING)?;
        let gpu = &open.session.gpu;
        let sms = joined(&self.clock, open.participants, DOING, || sms(gpu).doing(DOING))?;
        Ok(FromTenant::FoundSms { sms })
    }

    fn find_timer_step(&mut self) -> Result<FromTenant, Failure> {
        const DOING: &str = "finding the step of the timer";
        let open = usable(&mut self.open, DOING)?;
        let gpu = &open.session.gpu;
        let ns = joined(&self.clock, open.participants, DOING, || timer_step(gpu).doing(DOING))?;
        Ok(FromTenant::FoundTimerStep { ns })
    }

    fn try_allocate(&mut self, bytes: u64) -> Result<FromTenant, Failure> {
        const DOING: &str = "trying to allocate";
        let open = usable(&mut self.open, DOING)?;
        let gpu = &open.session.gpu;
        let refused_with = joined(&self.clock, open.participants, DOING, || {
            try_allocate(gpu, bytes).doing(DOING)
        })?;
        Ok(FromTenant::Tried { refused_with })
    }

    fn probe(&mut self, step: &ProbeStep) -> Result<FromTenant, Failure> {
        const DOING: &str = "probing";
        let open = usable(&mut self.open, DOING)?;
        let (clock, session) = (&self.clock, &mut open.session);
        let reply =
            joined(clock, open.participants, DOING, || session.probe(clock, step).doing(DOING))?;
        Ok(FromTenant::Probed { reply })
    }
}

/// Does driver work as the issuer: joins the clock, works and leaves it, also after an error.
pub(super) fn joined<T>(
    clock: &Clock,
    participants: Participants,
    doing: &'static str,
    work: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let participation = Participation::join(clock, participants.issuer).doing(doing)?;
    let done = work();
    participation.leave().doing(doing)?;
    done
}

pub(super) fn usable<'o>(
    open: &'o mut Option<Open>,
    doing: &'static str,
) -> Result<&'o mut Open, Failure> {
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

// Evidence from inside a tenant that a mechanism is in force: its memory, the SMs on which it
// runs, and the library that implements its calls.

/// How long each block occupies its SM, so that the next block runs on another one.
const STAY_NS: u64 = 5_000;
const BLOCKS_PER_SM: u32 = 2;
/// Threads per block: one warp, of which one thread reads the SM's number.
const THREADS: u32 = 32;

pub(super) fn add_facts(
    driver: &Driver,
    context: &Context,
    facts: &mut BTreeMap<String, String>,
) -> Result<(), DriverError> {
    let memory = context.mem_info()?;
    facts.insert("memory_total_bytes".to_owned(), memory.total_bytes.to_string());
    facts.insert("memory_free_bytes".to_owned(), memory.free_bytes.to_string());
    // Without it the proof lacks this evidence and reports so.
    if let Some(file) = driver.allocator_file() {
        facts.insert("allocator_file".to_owned(), file);
    }
    Ok(())
}

/// The SMs on which the blocks of one launch ran, ascending and without duplicates.
pub(super) fn sms(gpu: &Gpu) -> Result<Vec<u32>, DriverError> {
    let grid = Grid::new(gpu.props.sm_count.max(1) * BLOCKS_PER_SM, THREADS);
    let blocks = grid.blocks as usize;
    let rows = DeviceBuffer::from_slice(&gpu.context, &vec![u64::MAX; blocks * ROW_WORDS])?;
    let gaps = DeviceBuffer::from_slice(&gpu.context, &[0_u64; 2])?;
    let launch = BlockTrace {
        rows: rows.device_ptr(),
        gaps: gaps.device_ptr(),
        gap_capacity: 0,
        spin_ns: STAY_NS,
        budget_ns: 1_000_000_000,
        gap_threshold_ns: u64::MAX,
        grid,
    };
    launch.launch(&gpu.kernels, &gpu.stream)?;
    gpu.stream.synchronize()?;
    let sms: BTreeSet<u32> = decode(&rows.to_vec()?, &[], 0)
        .into_iter()
        .filter_map(|row| u32::try_from(row.sm).ok())
        .collect();
    Ok(sms.into_iter().collect())
}

/// The shortest step between different readings of the clock in one block.
pub(super) fn timer_step(gpu: &Gpu) -> Result<u64, DriverError> {
    const STEPS: usize = 64;
    let rows = DeviceBuffer::from_slice(&gpu.context, &[0_u64; ROW_WORDS])?;
    let gaps = DeviceBuffer::from_slice(&gpu.context, &[0_u64; STEPS * GAP_WORDS])?;
    let launch = BlockTrace {
        rows: rows.device_ptr(),
        gaps: gaps.device_ptr(),
        gap_capacity: STEPS as u32,
        spin_ns: 20 * STAY_NS,
        budget_ns: 1_000_000_000,
        gap_threshold_ns: 0,
        grid: Grid::new(1, THREADS),
    };
    launch.launch(&gpu.kernels, &gpu.stream)?;
    gpu.stream.synchronize()?;
    let traced = decode(&rows.to_vec()?, &gaps.to_vec()?, STEPS);
    let steps = traced.iter().flat_map(|row| &row.gaps_ns).map(|(before, after)| after - before);
    Ok(steps.min().unwrap_or(0))
}

/// Allocates and frees at once; returns the driver's error code if it refuses.
pub(super) fn try_allocate(gpu: &Gpu, bytes: u64) -> Result<Option<i32>, DriverError> {
    let words = usize::try_from(bytes / 8).unwrap_or(usize::MAX);
    match DeviceBuffer::<u64>::alloc(&gpu.context, words) {
        Ok(_granted) => Ok(None),
        Err(error) => match error.code() {
            Some(code) => Ok(Some(code)),
            None => Err(error),
        },
    }
}
