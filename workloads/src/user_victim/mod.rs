//! A user victim: this process starts the user's program, sends it orders, and logs the requests
//! that it reports like those of any tenant. This process makes no driver call.
//!
//! The program holds a context from its ready message until it ends, so opening the device starts
//! the program and closing the device ends it. It runs on the wall clock only: its stamps are of
//! `CLOCK_MONOTONIC`.

pub mod process_tree;
mod program;
mod rows;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::path::Path;

use gpubench_record::user_victim::{
    ACCEPTED, DESCRIPTOR_ENV, FromProgram, Reports, Request, RunOrder, USER_VICTIM, UserVictim,
};
use gpubench_record::{FromTenant, LoadSpec, RefusalKind, ToTenant, WorkloadSpec};
use gpubench_stats::{schedule_hash, schedule_ns};
use program::{Program, Received};
use rows::{Rows, VictimProtocol};

use crate::child;
use crate::child::{Failure, While};
use crate::clock::{Clock, Time};
use crate::log::LogWriter;

/// Name of the fact with the program's PID, which leads a process group of its own.
pub const PROGRAM_PID: &str = "program_pid";

/// How long after the end of an order the program may finish what it began.
const LATE_NS_MAX: u64 = 10_000_000_000;

/// Serves one coordinator with that program; returns the exit status of the process.
pub fn serve(victim: &UserVictim, reader: impl BufRead, writer: impl Write) -> i32 {
    let limits = Limits { ready_ns: victim.ready_ns, late_ns: LATE_NS_MAX };
    serve_within(limits, &victim.command, victim.reports, reader, writer)
}

fn serve_within(
    limits: Limits,
    command: &str,
    reports: Reports,
    reader: impl BufRead,
    writer: impl Write,
) -> i32 {
    let mut tenant = UserVictimTenant {
        command: command.to_owned(),
        reports,
        limits,
        clock: Clock::wall(),
        open: None,
    };
    let name = tenant.clock.name();
    let code = child::serve(name, reader, writer, &mut |message| tenant.answer(message));
    if let Some(open) = tenant.open.take() {
        open.program.end(&tenant.clock);
    }
    i32::from(code.code())
}

/// Time limits of the program.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Until it is ready.
    ready_ns: u64,
    /// Until it reports an order as done, after the end of that order.
    late_ns: u64,
}

struct UserVictimTenant {
    command: String,
    reports: Reports,
    limits: Limits,
    clock: Clock,
    open: Option<Open>,
}

struct Open {
    program: Program,
    /// Whether it starts requests at scheduled times.
    follows: bool,
    cell: Option<Cell>,
}

struct Cell {
    load: LoadSpec,
    arrivals_ns: Vec<u64>,
    log: LogWriter,
}

impl UserVictimTenant {
    fn answer(&mut self, message: ToTenant) -> Result<FromTenant, Failure> {
        match message {
            ToTenant::Open { .. } => self.open(),
            ToTenant::Close => {
                if let Some(open) = self.open.take() {
                    open.program.end(&self.clock);
                }
                Ok(FromTenant::Closed)
            }
            ToTenant::Calibrate { .. } => self.calibrate(),
            ToTenant::Prepare { load, log, capacity_rows, .. } => {
                self.prepare(load, Path::new(&log), capacity_rows)
            }
            ToTenant::Go { t0_ns } => self.go(t0_ns),
            other => {
                let what = "a user's program does not support that message";
                Err(Failure::new(child::doing(&other), RefusalKind::Program, what))
            }
        }
    }

    /// Starts the program and waits until it is ready.
    fn open(&mut self) -> Result<FromTenant, Failure> {
        const DOING: &str = "starting the victim's program";
        let fail = |what: String| Failure::new(DOING, RefusalKind::Program, what);
        let mut program = Program::start(&self.command, self.reports)
            .map_err(|error| fail(format!("\"{}\": {error}", self.command)))?;
        let until_ns = self.clock.now_ns() + self.limits.ready_ns;
        let ready = match (program.receive(&self.clock, until_ns), self.reports) {
            (Received::Line { .. }, Reports::Lines) => Ok(false),
            (Received::Line { number, text, .. }, Reports::Requests) => match read(number, &text) {
                Ok(FromProgram::Ready { arrivals }) => Ok(arrivals),
                Ok(FromProgram::Error(text)) => Err(format!("the program says: {text}")),
                Ok(_) => Err(bad(number, &text, "the first line must be {\"ready\":true}")),
                Err(why) => Err(why),
            },
            (Received::Nothing, reports) => Err(format!(
                "it was not ready within {} s, which --victim-ready sets: {}",
                in_s(self.limits.ready_ns),
                match reports {
                    Reports::Lines => "it printed no line".to_owned(),
                    Reports::Requests => format!(
                        "no {{\"ready\":true}} came on the descriptor that {DESCRIPTOR_ENV} names \
                         (a program without the victim protocol takes --victim-reports lines)"
                    ),
                }
            )),
            (Received::End, _) => Err(program.how_it_ended(&self.clock)),
        };
        program.keep_lines(self.reports == Reports::Requests);
        let follows = match ready {
            Ok(follows) => follows,
            Err(what) => {
                program.end(&self.clock);
                return Err(fail(what));
            }
        };
        let pid = program.pid().to_string();
        self.open = Some(Open { program, follows, cell: None });
        let facts = BTreeMap::from([(PROGRAM_PID.to_owned(), pid)]);
        Ok(FromTenant::Opened { facts })
    }

    fn protocol(&self) -> VictimProtocol {
        VictimProtocol {
            clock: self.clock.clone(),
            reports: self.reports,
            late_ns: self.limits.late_ns,
        }
    }

    fn prepare(
        &mut self,
        load: LoadSpec,
        log: &Path,
        capacity_rows: u64,
    ) -> Result<FromTenant, Failure> {
        const DOING: &str = "preparing a cell";
        let open = usable(&mut self.open, DOING)?;
        let fail = |what: String| Failure::new(DOING, RefusalKind::Program, what);
        let LoadSpec::Victim { open_start_ns, open_end_ns, rate_per_s, bursts, seed, .. } = load
        else {
            return Err(fail("a user's program is always the victim".to_owned()));
        };
        let mut arrivals_ns = Vec::new();
        if open.follows {
            let length_ns = open_end_ns.saturating_sub(open_start_ns);
            let bursts = bursts.map(crate::generator::shape);
            arrivals_ns = schedule_ns(rate_per_s, length_ns, seed, bursts)
                .map_err(|error| fail(error.to_string()))?;
        }
        let hash = open.follows.then(|| format!("{:016x}", schedule_hash(&arrivals_ns)));
        let log = LogWriter::create(log, capacity_rows).doing(DOING)?;
        open.cell = Some(Cell { load, arrivals_ns, log });
        Ok(FromTenant::Ready { schedule_hash: hash, identity: None, modules_ns: 0 })
    }

    fn go(&mut self, t0_ns: u64) -> Result<FromTenant, Failure> {
        const DOING: &str = "running a cell";
        let fail = |what: String| Failure::new(DOING, RefusalKind::Program, what);
        let protocol = self.protocol();
        let open = usable(&mut self.open, DOING)?;
        let Some(Cell { load, arrivals_ns, mut log }) = open.cell.take() else {
            return Err(fail("no cell was prepared".to_owned()));
        };
        let mut rows = Rows::new(t0_ns, &load);
        let order = rows.order(&arrivals_ns, open.follows);
        protocol
            .play(&mut open.program, order, |request| {
                let row = rows.row(request)?;
                // A full log counts the rows that it has no room for.
                let _counted = log.push(&row);
                Ok(())
            })
            .map_err(fail)?;
        Ok(FromTenant::Done {
            rows: log.committed_rows(),
            unlogged: log.unlogged_rows(),
            overloaded: false,
            // Unknown: the program starts its own threads.
            sched: "its own".to_owned(),
            reaper_sched: None,
            cpu_gaps: None,
        })
    }
}

fn in_s(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn read(number: u64, text: &str) -> Result<FromProgram, String> {
    FromProgram::read(text).map_err(|why| bad(number, text, &why))
}

/// The error text for a line that is not a valid message.
fn bad(number: u64, text: &str, why: &str) -> String {
    const SHOWN_MAX: usize = 80;
    let shown: String = text.trim_end().chars().take(SHOWN_MAX).collect();
    format!("line {number} of the program, {shown:?}: {why} (accepted: {ACCEPTED})")
}

fn usable<'o>(open: &'o mut Option<Open>, doing: &'static str) -> Result<&'o mut Open, Failure> {
    open.as_mut()
        .ok_or_else(|| Failure::new(doing, RefusalKind::Program, "the program does not run"))
}

// The native rate of a user victim: a closed loop on the device without a neighbour.

/// Lengths of the closed loop that measures the native rate; the next is used if too little ends.
const CALIBRATE_NS: [u64; 3] = [2_000_000_000, 8_000_000_000, 32_000_000_000];

/// Requests needed for a native rate.
const CALIBRATE_REQUESTS: usize = 20;

/// Time between sending an order and the start of its work.
const LEAD_NS: u64 = 5_000_000;

/// Unit of the work: only the program knows what a request computes.
const UNIT: &str = "requests";

impl UserVictimTenant {
    /// Measures the rate of a closed loop on the device.
    fn calibrate(&mut self) -> Result<FromTenant, Failure> {
        const DOING: &str = "finding the victim's native rate";
        let protocol = self.protocol();
        let open = usable(&mut self.open, DOING)?;
        let mut done = Vec::new();
        for length_ns in CALIBRATE_NS {
            let from_ns = protocol.clock.now_ns() + LEAD_NS;
            let order = RunOrder {
                from_ns,
                closed_until_ns: from_ns + length_ns,
                arrivals_ns: Vec::new(),
                until_ns: from_ns + length_ns,
            };
            done.clear();
            protocol
                .play(&mut open.program, order, |request| {
                    if !request.failed {
                        done.push(request);
                    }
                    Ok(())
                })
                .map_err(|what| Failure::new(DOING, RefusalKind::Program, what))?;
            if done.len() >= CALIBRATE_REQUESTS {
                break;
            }
        }
        let (rate_per_s, service_ns) = rate(&done).ok_or_else(|| {
            let longest_s = CALIBRATE_NS[CALIBRATE_NS.len() - 1] / 1_000_000_000;
            let (have, need) = (done.len(), CALIBRATE_REQUESTS);
            let what = format!("{have} requests ended well in {longest_s} s, {need} are needed");
            Failure::new(DOING, RefusalKind::Program, what)
        })?;
        Ok(FromTenant::Calibrated {
            spec: WorkloadSpec { name: USER_VICTIM.to_owned(), params: BTreeMap::new() },
            rate_per_s,
            service_ns,
            work_per_request: 1.0,
            unit: UNIT.to_owned(),
        })
    }
}

/// Completions per second over whole cycles, and the median time of one; `None` from too few
/// requests.
fn rate(done: &[Request]) -> Option<(f64, u64)> {
    if done.len() < CALIBRATE_REQUESTS {
        return None;
    }
    let start_ns = done.iter().map(|request| request.start_ns).min()?;
    let end_ns = done.iter().map(|request| request.end_ns).max()?;
    let span_ns = end_ns.checked_sub(start_ns).filter(|&span| span > 0)?;
    let mut service_ns: Vec<u64> = done.iter().map(|one| one.end_ns - one.start_ns).collect();
    service_ns.sort_unstable();
    let rate_per_s = done.len() as f64 * 1e9 / span_ns as f64;
    Some((rate_per_s, service_ns[service_ns.len() / 2]))
}

#[cfg(test)]
mod calibration_tests {
    use super::{CALIBRATE_REQUESTS, Request, rate};

    #[test]
    fn a_native_rate_is_completions_over_whole_cycles() {
        let request = |number: u64| Request {
            due_ns: None,
            start_ns: 1_000 + number * 10_000_000,
            end_ns: 1_000 + (number + 1) * 10_000_000,
            failed: false,
        };
        let done: Vec<Request> = (0..40).map(request).collect();
        assert_eq!(rate(&done), Some((100.0, 10_000_000)));
        assert_eq!(rate(&done[..CALIBRATE_REQUESTS - 1]), None);
    }
}
