//! Converts a program's reports to rows of the sample log. Pure.

use gpubench_record::sample::MISSING;
use gpubench_record::user_victim::{FromProgram, Reports, Request, RunOrder, ToProgram};
use gpubench_record::{LoadSpec, Phase, SampleRow, SampleStatus};

use super::program::{Program, Received};
use super::{bad, in_s, read};
use crate::clock::Clock;
use crate::generator::DRAIN_NS_MAX;

#[derive(Debug)]
pub(super) struct Rows {
    t0_ns: u64,
    warmup_end_ns: u64,
    closed_end_ns: u64,
    open_start_ns: u64,
    open_end_ns: u64,
    seq: u64,
    /// The latest end of a request, since the common start.
    idle_since_ns: u64,
}

impl Rows {
    /// For a cell that starts at `t0_ns`, with a victim's load.
    pub(super) fn new(t0_ns: u64, load: &LoadSpec) -> Self {
        let end_ns = load.end_ns();
        let [warmup_end_ns, closed_end_ns, open_start_ns] = match *load {
            LoadSpec::Victim { warmup_end_ns, closed_end_ns, open_start_ns, .. } => {
                [warmup_end_ns, closed_end_ns, open_start_ns]
            }
            _ => [end_ns; 3],
        };
        Self {
            t0_ns,
            warmup_end_ns,
            closed_end_ns,
            open_start_ns,
            open_end_ns: end_ns,
            seq: 0,
            idle_since_ns: 0,
        }
    }

    /// The order to the program: a closed loop and then the arrivals, or, for a program without a
    /// schedule, a closed loop to the end.
    pub(super) fn order(&self, arrivals_ns: &[u64], follows: bool) -> RunOrder {
        let at = |offset_ns: u64| self.t0_ns.saturating_add(offset_ns);
        let closed_ns = if follows { self.closed_end_ns } else { self.open_end_ns };
        RunOrder {
            from_ns: self.t0_ns,
            closed_until_ns: at(closed_ns),
            arrivals_ns: arrivals_ns
                .iter()
                .map(|&offset_ns| at(self.open_start_ns.saturating_add(offset_ns)))
                .collect(),
            // All arrivals are started, however late, unless the queue grows without end.
            until_ns: at(if follows {
                self.open_end_ns.saturating_add(DRAIN_NS_MAX)
            } else {
                self.open_end_ns
            }),
        }
    }

    pub(super) fn row(&mut self, request: Request) -> Result<SampleRow, String> {
        let since = |what: &str, at_ns: u64| {
            let from_ns = self.t0_ns;
            at_ns
                .checked_sub(from_ns)
                .ok_or_else(|| format!("{what} {at_ns} is before from_ns {from_ns}"))
        };
        let t_issue_ns = since("start_ns", request.start_ns)?;
        let t_done_ns = since("end_ns", request.end_ns)?;
        let due_ns = request.due_ns.map(|due_ns| since("due_ns", due_ns)).transpose()?;
        if due_ns.is_some_and(|due_ns| due_ns > t_issue_ns) {
            return Err("start_ns is before due_ns".to_owned());
        }
        let row = SampleRow {
            seq: self.seq,
            t_sched_ns: due_ns.unwrap_or(t_issue_ns),
            t_issue_ns,
            // The program does not report when its last call returned.
            t_ret_ns: MISSING,
            t_done_ns,
            gpu_ns: MISSING,
            error: if request.failed { -1 } else { 0 },
            phase: self.phase(t_issue_ns, due_ns.is_some()),
            status: if request.failed { SampleStatus::Error } else { SampleStatus::Ok },
            // Without a schedule no request comes due, so none is late.
            issuer_idle: due_ns.is_some_and(|due_ns| self.idle_since_ns <= due_ns),
        };
        self.seq += 1;
        self.idle_since_ns = self.idle_since_ns.max(t_done_ns);
        Ok(row)
    }

    /// A request with an arrival belongs to the open loop, however late it starts. What a program
    /// without a schedule starts in the gap before that loop is not scored.
    fn phase(&self, t_ns: u64, due: bool) -> Phase {
        if due {
            Phase::Open
        } else if t_ns < self.warmup_end_ns {
            Phase::Warmup
        } else if t_ns < self.closed_end_ns {
            Phase::Closed
        } else if (self.open_start_ns..self.open_end_ns).contains(&t_ns) {
            Phase::Open
        } else {
            Phase::Drain
        }
    }
}

// The victim protocol: an order to the user's program, and its reports until the order is done.

/// Maximum requests per second: launching and awaiting an empty kernel takes more than ten
/// microseconds. The same number is accepted on top for an order of any length.
const REQUESTS_PER_S_MAX: u64 = 100_000;
const REQUESTS_MORE: u64 = 1_000;

/// Carries out orders with a program.
pub(super) struct VictimProtocol {
    pub(super) clock: Clock,
    pub(super) reports: Reports,
    /// How long the program may continue after the end of an order.
    pub(super) late_ns: u64,
}

impl VictimProtocol {
    /// Sends an order and passes on every request until the order is done.
    pub(super) fn play(
        &self,
        program: &mut Program,
        order: RunOrder,
        mut each: impl FnMut(Request) -> Result<(), String>,
    ) -> Result<(), String> {
        if self.reports == Reports::Lines {
            return self.play_lines(program, &order, each);
        }
        let end_ns = order.until_ns.saturating_add(self.late_ns);
        let mut left = lines_max(&order);
        program.order(&ToProgram::Run(order))?;
        loop {
            let (number, text) = match program.receive(&self.clock, end_ns) {
                Received::Line { number, at_ns, text } if at_ns <= end_ns => (number, text),
                Received::Line { .. } | Received::Nothing => {
                    let late_s = in_s(self.late_ns);
                    return Err(format!(
                        "the program did not report {{\"done\":true}} within {late_s} s of until_ns"
                    ));
                }
                Received::End => return Err(program.how_it_ended(&self.clock)),
            };
            match read(number, &text)? {
                FromProgram::Request(request) => {
                    count(&mut left, number)?;
                    each(request).map_err(|why| bad(number, &text, &why))?;
                }
                FromProgram::Done => return Ok(()),
                FromProgram::Error(text) => return Err(format!("the program says: {text}")),
                FromProgram::Ready { .. } => {
                    return Err(bad(number, &text, "it was ready already"));
                }
            }
        }
    }

    /// Counts each line printed during an order as a request that began with the line before.
    fn play_lines(
        &self,
        program: &mut Program,
        order: &RunOrder,
        mut each: impl FnMut(Request) -> Result<(), String>,
    ) -> Result<(), String> {
        program.keep_lines(true);
        let (mut before_ns, mut left) = (None, lines_max(order));
        let played = loop {
            match program.receive(&self.clock, order.until_ns) {
                Received::Line { at_ns, .. } if at_ns < order.from_ns => {}
                Received::Line { at_ns, .. } if at_ns > order.until_ns => break Ok(()),
                Received::Line { number, at_ns, .. } => {
                    count(&mut left, number)?;
                    if let Some(start_ns) = before_ns.replace(at_ns) {
                        each(Request { due_ns: None, start_ns, end_ns: at_ns, failed: false })?;
                    }
                }
                Received::Nothing => break Ok(()),
                Received::End => break Err(program.how_it_ended(&self.clock)),
            }
        };
        program.keep_lines(false);
        played
    }
}

/// Counts one more request; an error above the maximum rate.
fn count(left: &mut u64, number: u64) -> Result<(), String> {
    *left = left.checked_sub(1).ok_or_else(|| {
        format!(
            "line {number} of the program: more than {REQUESTS_PER_S_MAX} requests a second, which \
             no GPU does"
        )
    })?;
    Ok(())
}

/// Maximum number of lines that an order can cause.
fn lines_max(order: &RunOrder) -> u64 {
    let length_ns = order.until_ns.saturating_sub(order.from_ns);
    REQUESTS_MORE + length_ns.saturating_mul(REQUESTS_PER_S_MAX) / 1_000_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD: LoadSpec = LoadSpec::Victim {
        warmup_end_ns: 10,
        closed_end_ns: 30,
        depth: 1,
        sparse: None,
        open_start_ns: 40,
        open_end_ns: 100,
        rate_per_s: 1.0,
        bursts: None,
        seed: 1,
        outstanding_max: 4,
    };

    fn request(due_ns: Option<u64>, start_ns: u64, end_ns: u64) -> Request {
        Request { due_ns, start_ns, end_ns, failed: false }
    }

    #[test]
    fn requests_become_rows_of_the_phase_in_which_they_started() -> Result<(), String> {
        let mut rows = Rows::new(1_000, &LOAD);
        let mut built = Vec::new();
        for (due, start, end) in [
            (None, 1_000, 1_012),
            (None, 1_012, 1_031),
            (None, 1_031, 1_040),
            (Some(1_045), 1_046, 1_060),
            (Some(1_050), 1_060, 1_200),
            (None, 1_100, 1_101),
        ] {
            let row = rows.row(request(due, start, end))?;
            built.push((row.seq, row.phase, row.t_sched_ns, row.issuer_idle));
        }
        assert_eq!(
            built,
            [
                (0, Phase::Warmup, 0, false),
                (1, Phase::Closed, 12, false),
                (2, Phase::Drain, 31, false),
                (3, Phase::Open, 45, true),
                (4, Phase::Open, 50, false),
                (5, Phase::Drain, 100, false),
            ]
        );
        Ok(())
    }

    #[test]
    fn impossible_stamps_are_refused() {
        let mut rows = Rows::new(1_000, &LOAD);
        for (request, why) in [
            (request(None, 999, 1_001), "start_ns 999 is before from_ns"),
            (request(Some(1_005), 1_004, 1_006), "before due_ns"),
        ] {
            let refused = rows.row(request).err().unwrap_or_default();
            assert!(refused.contains(why), "{refused}");
        }
        // A refused request has no number.
        assert_eq!(rows.row(request(None, 1_000, 1_001)).map(|row| row.seq), Ok(0));
    }

    #[test]
    fn a_failed_request_does_not_count_as_completed() -> Result<(), String> {
        let failed = Request { failed: true, ..request(None, 1_015, 1_016) };
        let row = Rows::new(1_000, &LOAD).row(failed)?;
        assert_eq!((row.status, row.error), (SampleStatus::Error, -1));
        Ok(())
    }

    #[test]
    fn an_order_is_on_the_shared_clock() {
        let rows = Rows::new(1_000, &LOAD);
        let followed = rows.order(&[0, 7], true);
        assert_eq!(
            (followed.from_ns, followed.closed_until_ns, followed.until_ns),
            (1_000, 1_030, 1_100 + DRAIN_NS_MAX)
        );
        assert_eq!(followed.arrivals_ns, [1_040, 1_047]);
        let free = rows.order(&[], false);
        assert_eq!((free.closed_until_ns, free.until_ns), (1_100, 1_100));
    }
}
