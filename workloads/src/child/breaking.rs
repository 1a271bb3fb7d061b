//! A tenant's part in a fault trial: breaking something at an instant, or coming after it.

use gpubench_kernels::Launcher;
use gpubench_kernels::driver::{DriverError, Grid};
use gpubench_kernels::kernel::empty::Empty;
use gpubench_record::FromTenant;

use super::failure::{Failure, While};
use super::session::Session;
use crate::clock::{Clock, Time};
use crate::fault::{Armed, Moment, StrikeError, afterwards};
use crate::load::Gpu;

/// What it does, as errors say it.
pub(super) const DOING: &str = "breaking something";

/// Breaks what was armed: at `at_ns` after the common start, over by `until_ns` after it.
pub(super) fn strike(
    clock: &Clock,
    gpu: &Gpu,
    armed: &mut dyn Armed,
    [t0_ns, at_ns, until_ns]: [u64; 3],
) -> Result<FromTenant, Failure> {
    clock
        .sleep_until(t0_ns.saturating_add(at_ns))
        .doing(DOING)?;
    let began_ns = clock.now_ns().saturating_sub(t0_ns);
    let moment = Moment::new(clock, t0_ns.saturating_add(until_ns));
    let struck = armed.strike(gpu, &moment);
    moment.answered();
    let answered_ns = moment.answered_ns().unwrap_or_else(|| clock.now_ns());
    let detected_ns = answered_ns.saturating_sub(t0_ns);
    let code = match struck {
        Ok(()) => None,
        Err(StrikeError::Driver(error)) => Some(number(&error)?),
        Err(StrikeError::Clock(error)) => return Err(error).doing(DOING),
    };
    let later_code = afterwards(gpu).or_else(|error| number(&error))?;
    Ok(FromTenant::Struck {
        began_ns,
        detected_ns,
        code,
        later_code,
    })
}

/// The driver's number; an error that has none is no answer of the driver.
fn number(error: &DriverError) -> Result<i32, Failure> {
    let what = || Failure::other(DOING, error.to_string());
    error.code().ok_or_else(what)
}

/// Asks for the device again and again until a kernel has run on it.
pub(super) fn arrive(
    clock: &Clock,
    ordinal: u32,
    every_ns: u64,
    limit_ns: u64,
) -> Result<FromTenant, Failure> {
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
        clock
            .sleep_until(now_ns.saturating_add(every_ns))
            .doing(DOING)?;
    };
    Ok(FromTenant::Arrived {
        accepted_after_ns,
        tries,
        refused_with,
    })
}

/// Opens the device, runs an empty kernel and closes the device again.
fn first_kernel(ordinal: u32) -> Result<(), DriverError> {
    let (session, _) = Session::open(ordinal, false, None)?;
    let grid = Grid::new(1, 1);
    Empty { grid }.launch(&session.gpu.kernels, &session.gpu.stream)?;
    session.gpu.stream.synchronize()
}
