//! What one call may simulate: the number of its steps and runs has a limit. A step is a request, a
//! time slice, a refill of tokens or a burst.

use super::event;
use super::event::options::ArrivalKind;
use super::event::options::EventOptions;
use super::scenario::REQUESTS_MAX;
use super::scenario::Scenario;
use crate::error::PredictError;
use std::num::NonZeroUsize;

/// Other steps of a run: seconds of one core.
const STEPS_MAX: f64 = 2e7;
/// Steps of all runs of a call.
const ALL_STEPS_MAX: f64 = 1e10;
/// Runs of a call: their figures are kept until the end.
const RUNS_MAX: u64 = 1_000_000;
pub const REPLICATIONS_MAX: u32 = 100_000;
/// Worker threads of a call.
pub const THREADS_MAX: usize = 1024;
/// No draw of an exponential distribution is longer than this many means.
const MEANS_MAX: f64 = 50.0;

fn check_steps(scenario: &Scenario) -> Result<(), PredictError> {
    let Some(options) = &scenario.event else { return Ok(()) };
    for (key, value, steps) in event_steps(scenario, options) {
        if steps.is_nan() || steps > STEPS_MAX {
            let accepted = format!(
                "a larger number, because a run has at most {STEPS_MAX:.0} steps (this one: \
                 {steps:.1e})"
            );
            return Err(PredictError::value(key, value, &accepted));
        }
    }
    Ok(())
}

pub(super) fn check_runs(scenarios: &[Scenario], replications: u32) -> Result<(), PredictError> {
    if !(1..=REPLICATIONS_MAX).contains(&replications) {
        let accepted = format!("a whole number from 1 to {REPLICATIONS_MAX}");
        return Err(PredictError::value("replications", replications, &accepted));
    }
    scenarios.iter().try_for_each(check_steps)?;
    let runs = u64::from(replications) * scenarios.len() as u64;
    let steps: f64 = scenarios.iter().map(steps).sum::<f64>() * f64::from(replications);
    if runs <= RUNS_MAX && steps <= ALL_STEPS_MAX {
        return Ok(());
    }
    let found = format!("{runs} runs with {steps:.1e} steps in all");
    let accepted = format!(
        "at most {RUNS_MAX} runs and {ALL_STEPS_MAX:.0e} steps (replications, loads, rate and \
         duration decide)"
    );
    Err(PredictError::value("the simulation", found, &accepted))
}

/// The threads of a call, so many that the requests of all together fit into memory.
pub(super) fn threads(scenario: &Scenario, wanted: NonZeroUsize) -> NonZeroUsize {
    let fitting = (REQUESTS_MAX / requests(scenario).max(1.0)) as usize;
    let threads = wanted.get().min(fitting).min(THREADS_MAX);
    NonZeroUsize::new(threads).unwrap_or(NonZeroUsize::MIN)
}

fn requests(scenario: &Scenario) -> f64 {
    scenario.offered_per_s() * scenario.duration_s
}

fn steps(scenario: &Scenario) -> f64 {
    let event = scenario.event.as_ref();
    let of_event = event.map(|options| event_steps(scenario, options));
    let of_event = of_event.into_iter().flatten().map(|(_, _, steps)| steps);
    requests(scenario) + of_event.sum::<f64>()
}

/// The steps that depend on a value of the discrete-event model: its key, the value, and the steps.
fn event_steps(
    scenario: &Scenario,
    options: &EventOptions,
) -> impl Iterator<Item = (&'static str, f64, f64)> {
    let loads = scenario.loads();
    let work_s: f64 = scenario.device_load() * scenario.duration_s;
    let slices = options.quantum_ms.map(|ms| {
        let steps = work_s / (ms / 1000.0);
        ("event.quantum_ms", ms, steps)
    });
    // Until the last request ends; a tenant without tokens waits until its work is paid for.
    let paid_s = loads
        .iter()
        .zip(event::buckets(options, scenario))
        .map(|(load, bucket)| {
            let work_s = load.service_s * load.rate_per_s() * scenario.duration_s;
            work_s / bucket.added_s * bucket.refill_s
        })
        .fold(0.0, f64::max);
    let switches_s = requests(scenario) * scenario.switch_ms / 1000.0;
    let ends_s = scenario.duration_s + work_s + switches_s + paid_s;
    let refills = ends_s / (options.hami_refill_ms / 1000.0);
    let (refill_key, refill_value) = match options.hami_percent {
        Some(percent) if paid_s > ends_s / 2.0 => ("event.hami_percent", percent),
        _ => ("event.hami_refill_ms", options.hami_refill_ms),
    };
    let bursts = match options.arrivals {
        ArrivalKind::Poisson => None,
        ArrivalKind::Bursts { on_ms, off_ms } => {
            // Each tenant draws one arrival behind the end.
            let span_s = |load: &super::scenario::TenantLoad| {
                scenario.duration_s + MEANS_MAX * load.mean_gap_s
            };
            let span_s: f64 = loads.iter().map(span_s).sum();
            let steps = span_s / ((on_ms + off_ms) / 1000.0);
            Some(("event.arrivals.on_ms", on_ms, steps))
        }
    };
    let refills = (refill_key, refill_value, refills);
    slices.into_iter().chain([refills]).chain(bursts)
}

#[cfg(test)]
mod tests {
    use super::{REPLICATIONS_MAX, check_runs, threads};
    use crate::simulate::event::EventOptions;
    use crate::simulate::event::options::ArrivalKind;
    use crate::simulate::scenario::Scenario;
    use std::num::NonZeroUsize;

    fn refused(scenario: &Scenario) -> String {
        let checked = scenario.check().and_then(|()| check_runs(std::slice::from_ref(scenario), 1));
        checked.err().map(|error| error.to_string()).unwrap_or_default()
    }

    fn event(options: EventOptions) -> Scenario {
        Scenario { event: Some(options), ..Scenario::default() }
    }

    #[test]
    fn a_run_without_end_is_refused_with_its_value() {
        let bursts = |on_ms, off_ms| EventOptions {
            arrivals: ArrivalKind::Bursts { on_ms, off_ms },
            ..EventOptions::default()
        };
        for (options, key) in [
            (
                EventOptions { quantum_ms: Some(1e-9), ..EventOptions::default() },
                "event.quantum_ms is 0.000000001: accepted is a larger number",
            ),
            (
                EventOptions { hami_refill_ms: 1e-7, ..EventOptions::default() },
                "event.hami_refill_ms is 0.0000001",
            ),
            (
                EventOptions { hami_percent: Some(1e-9), ..EventOptions::default() },
                "event.hami_percent is 0.000000001",
            ),
            (bursts(1e-7, 1e-7), "event.arrivals.on_ms is 0.0000001"),
        ] {
            let text = refused(&event(options));
            assert!(text.starts_with(key), "{key}: {text}");
        }
        assert_eq!(refused(&event(EventOptions::default())), "");
        assert_eq!(refused(&event(bursts(5.0, 20.0))), "");
    }

    #[test]
    fn every_value_has_an_upper_end() {
        for (change, key) in [
            ((|s| s.service_ms = 1e300) as fn(&mut Scenario), "service_ms is 1"),
            (|s| s.rate_per_s = 1e300, "rate_per_s is 1"),
            (|s| s.duration_s = 1e300, "duration_s is 1"),
            (|s| s.switch_ms = f64::INFINITY, "switch_ms is inf"),
            (|s| s.contention = 1e300, "contention is 1"),
            (|s| s.duration_s = 1e7, "the load is "),
        ] {
            let mut scenario = Scenario::default();
            change(&mut scenario);
            let text = refused(&scenario);
            assert!(text.starts_with(key) && text.len() < 400, "{key}: {text}");
        }
    }

    #[test]
    fn all_runs_together_have_a_limit() {
        let scenario = Scenario::default();
        let many = vec![scenario.clone(); 1000];
        assert!(check_runs(&many, 100).is_ok());
        assert!(check_runs(&many[..1], REPLICATIONS_MAX).is_ok());
        for (scenarios, replications) in [(1, 0), (1, REPLICATIONS_MAX + 1), (1000, 2000)] {
            assert!(check_runs(&many[..scenarios], replications).is_err());
        }
    }

    #[test]
    fn large_runs_are_simulated_one_after_another() {
        let wanted = NonZeroUsize::new(5000).expect("not zero");
        let small = Scenario::default();
        assert_eq!(threads(&small, wanted).get(), 1024);
        let large = Scenario { duration_s: 2e6, ..small };
        assert_eq!(threads(&large, wanted).get(), 1);
    }
}
