//! A tenant in a fault trial: injects the fault at an instant, or is the recovery client that opens
//! the device afterwards.

use gpubench_kernels::Launcher;
use gpubench_kernels::driver::{DriverError, Grid};
use gpubench_kernels::kernel::timing::Empty;
use gpubench_record::FromTenant;
use gpubench_record::wire::{FaultRole, Participants};

use super::cells::{Failure, While};
use super::session::Session;
use super::tenant::{Tenant, joined, usable};
use crate::clock::{Clock, Time};
use crate::fault::{self, Armed, Arming, InjectError, Moment, afterwards};
use crate::load::Gpu;

pub(super) const DOING: &str = "injecting a fault";

impl Tenant {
    pub(super) fn arm(
        &mut self,
        name: &str,
        budget_ns: u64,
        role: &FaultRole,
    ) -> Result<FromTenant, Failure> {
        const DOING: &str = "preparing a fault";
        let open = usable(&mut self.open, DOING)?;
        let found = fault::find(name)
            .ok_or_else(|| Failure::other(DOING, format!("unknown fault {name:?}")))?;
        let gpu = &open.session.gpu;
        let given = match role {
            FaultRole::HelpedInjector { helper_data } => helper_data.as_deref(),
            FaultRole::Injector | FaultRole::Helper => None,
        };
        let (armed, helper_data) = joined(&self.clock, open.participants, DOING, || {
            if *role == FaultRole::Helper {
                return found.arm_helper(gpu).doing(DOING);
            }
            let armed = found.arm(gpu, &Arming { budget_ns, from_helper: given });
            armed.map(|armed| (armed, None)).doing(DOING)
        })?;
        open.armed = Some(armed);
        Ok(FromTenant::Armed { helper_data })
    }

    pub(super) fn inject(
        &mut self,
        t0_ns: u64,
        at_ns: u64,
        until_ns: u64,
    ) -> Result<FromTenant, Failure> {
        let open = usable(&mut self.open, DOING)?;
        let Some(mut armed) = open.armed.take() else {
            return Err(Failure::other(DOING, "no fault was prepared"));
        };
        // The context may be unusable now, and the process is about to end.
        open.stuck = true;
        let (clock, gpu) = (&self.clock, &open.session.gpu);
        let injected = joined(clock, open.participants, DOING, || {
            inject(clock, gpu, &mut *armed, [t0_ns, at_ns, until_ns])
        });
        std::mem::forget(armed);
        injected
    }

    pub(super) fn arrive(
        &mut self,
        ordinal: u32,
        participants: Participants,
        times_ns: [u64; 3],
    ) -> Result<FromTenant, Failure> {
        const DOING: &str = "asking for the device";
        if self.open.is_some() {
            return Err(Failure::other(DOING, "it is already open"));
        }
        let clock = &self.clock;
        joined(clock, participants, DOING, || arrive(clock, ordinal, times_ns))
    }
}

/// Injects the armed fault `at_ns` after the common start; it ends by `until_ns`.
fn inject(
    clock: &Clock,
    gpu: &Gpu,
    armed: &mut dyn Armed,
    [t0_ns, at_ns, until_ns]: [u64; 3],
) -> Result<FromTenant, Failure> {
    clock.sleep_until(t0_ns.saturating_add(at_ns)).doing(DOING)?;
    let began_ns = clock.now_ns().saturating_sub(t0_ns);
    let moment = Moment::new(clock, t0_ns.saturating_add(until_ns));
    let injected = armed.inject(gpu, &moment);
    moment.answered();
    let answered_ns = moment.answered_ns().unwrap_or_else(|| clock.now_ns());
    let detected_ns = answered_ns.saturating_sub(t0_ns);
    let code = match injected {
        Ok(()) => None,
        Err(InjectError::Driver(error)) => Some(number(&error)?),
        Err(InjectError::Clock(error)) => return Err(error).doing(DOING),
    };
    let later_code = afterwards(gpu).or_else(|error| number(&error))?;
    Ok(FromTenant::Injected { began_ns, detected_ns, code, later_code })
}

/// The driver's error code; an error without one is not the driver's.
fn number(error: &DriverError) -> Result<i32, Failure> {
    let what = || Failure::other(DOING, error.to_string());
    error.code().ok_or_else(what)
}

/// Opens the device repeatedly until a kernel has run on it.
fn arrive(
    clock: &Clock,
    ordinal: u32,
    [from_ns, every_ns, limit_ns]: [u64; 3],
) -> Result<FromTenant, Failure> {
    if from_ns > clock.now_ns() {
        clock.sleep_until(from_ns).doing(DOING)?;
    }
    let began_ns = clock.now_ns();
    let (mut tries, mut refused_with) = (0, None);
    let accepted_after_ns = loop {
        tries += 1;
        match first_kernel(ordinal) {
            Ok(()) => break Some(clock.now_ns().saturating_sub(began_ns)),
            Err(error) => refused_with = Some(number(&error)?),
        }
        let now_ns = clock.now_ns();
        if now_ns.saturating_sub(began_ns) >= limit_ns {
            break None;
        }
        clock.sleep_until(now_ns.saturating_add(every_ns)).doing(DOING)?;
    };
    Ok(FromTenant::DeviceAcquired { accepted_after_ns, tries, refused_with })
}

/// Opens the device, runs an empty kernel and closes the device again.
fn first_kernel(ordinal: u32) -> Result<(), DriverError> {
    let (session, _) = Session::open(ordinal, false, None)?;
    let grid = Grid::new(1, 1);
    Empty { grid }.launch(&session.gpu.kernels, &session.gpu.stream)?;
    session.gpu.stream.synchronize()
}
