//! The process of the user's program: its start, its messages and its end.
#![expect(
    unsafe_code,
    reason = "pre_exec is unsafe: it sets what the program inherits between fork and exec"
)]

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use gpubench_record::user_victim::{DESCRIPTOR_ENV, Reports, ToProgram};
use gpubench_record::wire::to_line;
use rustix::io::FdFlags;
use rustix::process::Signal;

use super::process_tree::{self, signal_group};
use crate::clock::{Clock, Time};
use crate::command::{Inherits, command as process};

/// Longest line in bytes; a longer one is not accepted.
const LINE_BYTES_MAX: u64 = 1 << 16;
/// Maximum number of unread lines. A program that writes more blocks until lines are read.
const LINES_KEPT_MAX: usize = 1 << 14;
/// How long a program may leave an order unread.
const UNREAD_MAX: Duration = Duration::from_secs(5);
/// Time limit of a program to end after the quit order, and again after SIGTERM.
const GRACE_NS: u64 = 2_000_000_000;
/// How often a silent program is checked, and how long its last lines may take to arrive after its
/// end.
const LOOK_NS: u64 = 50_000_000;
const LAST_NS: u64 = 200_000_000;
/// How often its end is checked.
const POLL_NS: u64 = 5_000_000;

/// A result of waiting for the program.
#[derive(Debug)]
pub(super) enum Received {
    Line {
        /// Number of the line since the start, from 1.
        number: u64,
        at_ns: u64,
        /// Its text; empty where only the arrival counts.
        text: String,
    },
    /// Nothing before the deadline.
    Nothing,
    End,
}

pub(super) struct Program {
    child: Child,
    orders: Option<UnixStream>,
    lines: Receiver<(u64, u64, String)>,
    keeping: Arc<AtomicBool>,
}

impl Program {
    pub(super) fn start(command: &str, reports: Reports) -> std::io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        // This tenant has the user's environment under the variables of mechanism and run.
        let mut shell = process("/bin/sh", Inherits::All);
        shell.arg("-c").arg(command).stdin(Stdio::null()).process_group(0);
        let descriptor = theirs.as_raw_fd();
        match reports {
            Reports::Requests => {
                shell.env(DESCRIPTOR_ENV, descriptor.to_string());
                // Its standard output must not mix with the messages of this tenant.
                shell.stdout(Stdio::null());
            }
            Reports::Lines => {
                shell.stdout(Stdio::piped());
            }
        }
        // SAFETY: between fork and exec only plain system calls are made.
        unsafe {
            shell.pre_exec(move || {
                // The program dies with its tenant.
                rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
                if reports == Reports::Requests {
                    rustix::io::fcntl_setfd(&theirs, FdFlags::empty())?;
                }
                Ok(())
            });
        }
        let mut child = shell.spawn()?;
        // This closes the last copy on this side, so that the program's end is detected.
        drop(shell);
        let keeping = Arc::new(AtomicBool::new(true));
        let (sender, lines) = sync_channel(LINES_KEPT_MAX);
        ours.set_write_timeout(Some(UNREAD_MAX))?;
        let orders = match (reports, child.stdout.take()) {
            (Reports::Lines, Some(printed)) => {
                read_lines(printed, false, sender, Arc::clone(&keeping))?;
                None
            }
            _ => {
                read_lines(ours.try_clone()?, true, sender, Arc::clone(&keeping))?;
                Some(ours)
            }
        };
        Ok(Self { child, orders, lines, keeping })
    }

    /// Its process, which leads its process group.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether lines are kept from now on. Between cells the lines of a program that prints all the
    /// time are dropped.
    pub(super) fn keep_lines(&self, keep: bool) {
        self.keeping.store(keep, Ordering::Release);
    }

    pub(super) fn order(&mut self, order: &ToProgram) -> Result<(), String> {
        let orders = self.orders.as_mut().ok_or("it takes no orders")?;
        let line = to_line(order).map_err(|error| error.to_string())?;
        orders.write_all(line.as_bytes()).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                format!("the program left an order unread for {} s", UNREAD_MAX.as_secs())
            }
            _ => format!("the program does not read its orders: {error}"),
        })
    }

    /// The next line that arrives before an instant.
    pub(super) fn receive(&mut self, clock: &Clock, until_ns: u64) -> Received {
        loop {
            // Checked before the last line is read: all of its lines precede its end.
            let ended = matches!(self.child.try_wait(), Ok(Some(_)));
            let left_ns = until_ns.saturating_sub(clock.now_ns());
            let wait_ns = if ended { LAST_NS } else { left_ns.min(LOOK_NS) };
            match self.lines.recv_timeout(Duration::from_nanos(wait_ns)) {
                Ok((number, at_ns, text)) => return Received::Line { number, at_ns, text },
                // Descendants of the program may still hold the descriptor open.
                Err(RecvTimeoutError::Timeout) if ended => return Received::End,
                Err(RecvTimeoutError::Timeout) if left_ns > LOOK_NS => {}
                Err(RecvTimeoutError::Timeout) => return Received::Nothing,
                Err(RecvTimeoutError::Disconnected) => return Received::End,
            }
        }
    }

    /// Describes the end of a program that sends nothing more.
    pub(super) fn how_it_ended(&mut self, clock: &Clock) -> String {
        match self.wait(clock, GRACE_NS) {
            Some(status) => format!("the program ended: {}", describe(status)),
            None => "the program closed its descriptor and runs on".to_owned(),
        }
    }

    /// Sends the quit order, then SIGTERM, then SIGKILL, to its process group.
    pub(super) fn end(mut self, clock: &Clock) {
        // A message to an ended program fails, and no grace period is needed.
        let quit_sent = self.order(&ToProgram::Quit(true)).is_ok();
        self.orders = None;
        if !quit_sent || self.wait(clock, GRACE_NS).is_none() {
            signal_group(self.pid(), Signal::TERM);
            self.wait(clock, GRACE_NS);
        }
        // Also when it has ended: its descendants may still run, in its process group or outside.
        signal_group(self.pid(), Signal::KILL);
        let _reaped = self.child.wait();
        if process_tree::adopts() {
            process_tree::end_adopted();
        }
    }

    fn wait(&mut self, clock: &Clock, limit_ns: u64) -> Option<ExitStatus> {
        let end_ns = clock.now_ns().saturating_add(limit_ns);
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            let now_ns = clock.now_ns();
            if now_ns >= end_ns {
                return None;
            }
            std::thread::sleep(Duration::from_nanos(POLL_NS));
        }
    }
}

/// Reads lines on a thread and stamps their arrival, until the other end is closed.
fn read_lines(
    from: impl Read + Send + 'static,
    with_text: bool,
    sender: SyncSender<(u64, u64, String)>,
    keeping: Arc<AtomicBool>,
) -> std::io::Result<()> {
    let read = move || {
        let clock = Clock::wall();
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            // A descriptor that cannot be read counts as closed.
            match (&mut from).take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
            if !keeping.load(Ordering::Acquire) {
                continue;
            }
            let text =
                if with_text { String::from_utf8_lossy(&line).into_owned() } else { String::new() };
            if sender.send((number, clock.now_ns(), text)).is_err() {
                break;
            }
        }
    };
    // The thread ends with the program; no thread joins it.
    std::thread::Builder::new().name("program".to_owned()).spawn(read).map(drop)
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(127), _) => {
            "exit status 127, which is the shell's for a command not found".to_owned()
        }
        (Some(code @ 129..=192), _) => format!(
            "exit status {code}, which is the shell's for a process killed by signal {}",
            code - 128
        ),
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "for an unknown reason".to_owned(),
    }
}
