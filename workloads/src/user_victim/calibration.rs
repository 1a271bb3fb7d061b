//! The native rate of a user victim: a closed loop on the device without a neighbour.

use std::collections::BTreeMap;

use gpubench_record::user_victim::{Request, RunOrder, USER_VICTIM};
use gpubench_record::{FromTenant, RefusalKind, WorkloadSpec};

use super::{UserVictimTenant, usable};
use crate::child::Failure;
use crate::clock::Time;

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
    pub(super) fn calibrate(&mut self) -> Result<FromTenant, Failure> {
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
mod tests {
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
