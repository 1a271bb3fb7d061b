//! The tenant's main loop: reads one message and writes one reply, until the quit message.
//!
//! This thread is the issuer. It joins the clock for all work on the driver and leaves it before it
//! writes a reply or reads the next message, so that a pipe never stops virtual time. The tenant
//! ends with its coordinator, and the system releases its resources.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use gpubench_record::wire::{LINE_BYTES_MAX, OPENING, PROTOCOL, from_line, to_line};
use gpubench_record::{ExitCode, FromTenant, ToTenant};

use crate::clock::Clock;

mod cells;
mod injection;
mod session;
mod tenant;

pub use cells::Failure;
pub(crate) use cells::While;
use tenant::Tenant;

/// Serves one coordinator; returns the exit status of the process.
pub fn tenant_main(reader: impl BufRead, writer: impl Write) -> i32 {
    let code = match Clock::find() {
        Ok(clock) => serve_device(clock, reader, writer),
        Err(error) => {
            let mut writer = writer;
            let failure = Failure::other("finding the clock", error.to_string());
            // Without a clock the tenant cannot work. If the pipe is closed, the report is lost.
            let _unreported = send(&mut writer, &failure.into());
            ExitCode::Internal
        }
    };
    i32::from(code.code())
}

/// Serves further tenants beside the one on the standard pipes, as threads of this process. Each
/// has its own connection to the socket at `path`, opened in order.
/// Fails when the socket does not accept that many connections.
pub fn serve_beside(path: &Path, count: u32) -> std::io::Result<()> {
    for place in 1..=count {
        let socket = UnixStream::connect(path)?;
        let reader = BufReader::new(socket.try_clone()?);
        std::thread::Builder::new()
            .name(format!("tenant-{place}"))
            // It ends with its connection or with the process; no thread joins it.
            .spawn(move || tenant_main(reader, socket))?;
    }
    Ok(())
}

fn serve_device(clock: Clock, reader: impl BufRead, writer: impl Write) -> ExitCode {
    let name = clock.name();
    let mut tenant = Tenant::new(clock);
    let code = serve(name, reader, writer, &mut |message| tenant.answer(message));
    // Releasing device objects takes driver calls, for which this thread would have to join the
    // clock unannounced. The driver releases them when the process ends.
    std::mem::forget(tenant);
    code
}

/// Sends the hello message with the name of the clock, then answers messages.
pub(crate) fn serve(
    clock: &str,
    mut reader: impl BufRead,
    mut writer: impl Write,
    answer: &mut dyn FnMut(ToTenant) -> Result<FromTenant, Failure>,
) -> ExitCode {
    let hello = FromTenant::Hello {
        protocol: PROTOCOL,
        pid: std::process::id(),
        clock: clock.to_owned(),
        time_namespace: time_namespace(),
    };
    if send(&mut writer, &hello).is_err() {
        return ExitCode::Internal;
    }
    loop {
        let message = match receive(&mut reader) {
            Ok(Some(message)) => message,
            // The coordinator closed the pipe or died, so nothing can be reported.
            Ok(None) => break ExitCode::Done,
            Err(failure) => match send(&mut writer, &failure.into()) {
                Ok(()) => continue,
                Err(_) => break ExitCode::Internal,
            },
        };
        if message == ToTenant::Quit {
            break ExitCode::Done;
        }
        let doing = doing(&message);
        // A panic is a bug. It is reported and ends the process, because the state is unknown.
        let (reply, code) = match catch_unwind(AssertUnwindSafe(|| answer(message))) {
            Ok(reply) => (reply.unwrap_or_else(FromTenant::from), None),
            Err(panic) => {
                let what = format!("panic: {}", panic_text(&*panic));
                (Failure::other(doing, what).into(), Some(ExitCode::Internal))
            }
        };
        if send(&mut writer, &reply).is_err() {
            break ExitCode::Internal;
        }
        if let Some(code) = code {
            break code;
        }
    }
}

/// Reads one message; `None` at the end of the input.
fn receive(reader: &mut impl BufRead) -> Result<Option<ToTenant>, Failure> {
    let mut line = String::new();
    let mut limited = reader.take(LINE_BYTES_MAX as u64 + 1);
    match limited.read_line(&mut line) {
        Ok(0) => Ok(None),
        // A line cut off at the limit is refused for its length.
        Ok(_) => from_line(&line)
            .map(Some)
            .map_err(|error| Failure::other("reading a message", one_line(&error))),
        // A pipe that cannot be read counts as closed.
        Err(_) => Ok(None),
    }
}

fn send(writer: &mut impl Write, message: &FromTenant) -> std::io::Result<()> {
    let line = to_line(message).map_err(std::io::Error::other)?;
    writer.write_all(line.as_bytes())?;
    writer.flush()
}

pub(crate) fn doing(message: &ToTenant) -> &'static str {
    match message {
        ToTenant::Open { .. } => OPENING,
        ToTenant::Close => "closing the device",
        ToTenant::Calibrate { .. } => "calibrating",
        ToTenant::Verify { .. } => "verifying",
        ToTenant::FindSms => "finding its SMs",
        ToTenant::FindTimerStep => "finding the step of the timer",
        ToTenant::TryAllocate { .. } => "trying to allocate",
        ToTenant::Probe { .. } => "probing",
        ToTenant::Prepare { .. } => "preparing a cell",
        ToTenant::Go { .. } => "running a cell",
        ToTenant::Digest { .. } => "digesting its output",
        ToTenant::Arm { .. } => "preparing a fault",
        ToTenant::Inject { .. } => injection::DOING,
        ToTenant::AcquireDevice { .. } => "asking for the device",
        ToTenant::Quit => "quitting",
    }
}

/// Inode of the time namespace; 0 on kernels before 5.6, which have only one.
fn time_namespace() -> u64 {
    std::fs::metadata("/proc/self/ns/time").map_or(0, |meta| meta.ino())
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("of an unknown kind")
}

fn one_line(error: &dyn std::fmt::Display) -> String {
    error.to_string().replace('\n', " ")
}

#[cfg(test)]
mod tests;
