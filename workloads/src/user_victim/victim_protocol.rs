//! The victim protocol: an order to the user's program, and its reports until the order is done.

use gpubench_record::user_victim::{FromProgram, Reports, Request, RunOrder, ToProgram};

use super::program::{Program, Received};
use super::{bad, in_s, read};
use crate::clock::Clock;

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
