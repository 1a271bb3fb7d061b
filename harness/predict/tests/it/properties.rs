//! Properties that must hold for any load, any tenants, any seed.

use gpubench_predict::parallel::percentiles;
use gpubench_predict::rng::RngKind;
use gpubench_predict::simulate::event;
use gpubench_predict::simulate::event::EventOptions;
use gpubench_predict::simulate::event::options::ServiceKind;
use gpubench_predict::simulate::event::slicing::{TimeSlice, run_sliced};
use gpubench_predict::simulate::{Mode, Scenario, arrivals, reference};
use proptest::prelude::*;

fn scenario() -> impl Strategy<Value = Scenario> {
    (
        1_u32..12,
        1.0..30.0_f64,
        1.0..40.0_f64,
        0.0..0.5_f64,
        0.0..3.0_f64,
        any::<u64>(),
        any::<bool>(),
    )
        .prop_map(
            |(tenants, service_ms, rate_per_s, contention, switch_ms, seed, is_numpy)| Scenario {
                tenants,
                service_ms,
                rate_per_s,
                duration_s: 5.0,
                contention,
                switch_ms,
                seed,
                rng: if is_numpy { RngKind::Numpy } else { RngKind::Fast },
                ..Scenario::default()
            },
        )
}

/// Waits in one first-come queue, by Lindley's recursion (1952).
fn lindley_waits(gaps_s: &[f64], works_s: &[f64]) -> Vec<f64> {
    let mut wait_s = 0.0_f64;
    let mut last_work_s = 0.0_f64;
    let step = |(gap_s, work_s): (&f64, &f64)| {
        wait_s = (wait_s + last_work_s - gap_s).max(0.0);
        last_work_s = *work_s;
        wait_s
    };
    gaps_s.iter().zip(works_s).map(step).collect()
}

fn simulated_waits(one: &Scenario, requests: &[event::Request]) -> Vec<f64> {
    let ends_s = event::ends(one, &EventOptions::default(), Mode::Mig, requests);
    assert_eq!(ends_s.len(), requests.len());
    let wait_s =
        |(request, end_s): (&event::Request, f64)| end_s - request.arrival_s - request.work_s;
    requests.iter().zip(ends_s).map(wait_s).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn recursion_equals_the_queue(scenario in scenario(), replication in 0_u64..1000) {
        let one = Scenario { tenants: 1, slices: Some(1), ..scenario };
        let options =
            EventOptions { service: ServiceKind::Exponential, ..EventOptions::default() };
        let requests = event::requests(&one, &options, replication);
        let mut last_s = 0.0;
        let gap = |request: &event::Request| {
            let gap_s = request.arrival_s - last_s;
            last_s = request.arrival_s;
            gap_s
        };
        let gaps_s: Vec<f64> = requests.iter().map(gap).collect();
        let works_s: Vec<f64> = requests.iter().map(|request| request.work_s).collect();
        let waits_s = lindley_waits(&gaps_s, &works_s);
        for (found_s, wait_s) in simulated_waits(&one, &requests).into_iter().zip(waits_s) {
            prop_assert!((found_s - wait_s).abs() < 1e-9, "{found_s} {wait_s}");
        }
    }

    /// Arrivals are ordered, lie within the duration, and are the same when drawn again.
    #[test]
    fn arrivals_are_ordered_and_repeat(scenario in scenario()) {
        let found = arrivals::arrivals(&scenario, scenario.seed);
        let listed: Vec<(f64, usize)> = found.iter().collect();
        prop_assert!(listed.is_sorted());
        prop_assert!(listed.iter().all(|(time_s, _)| (0.0..5.0).contains(time_s)));
        prop_assert_eq!(found, arrivals::arrivals(&scenario, scenario.seed));
    }

    /// No mode is faster than the device, and each serves in its own order.
    #[test]
    fn nothing_is_faster_than_the_device(scenario in scenario()) {
        let arrivals = arrivals::arrivals(&scenario, scenario.seed);
        let service_s = scenario.service_ms / 1000.0;
        let mut ends_s = Vec::new();
        reference::time_slice(&scenario, &arrivals, |service| {
            ends_s.push(service.end_s);
            assert!(service.latency_s >= service_s * (1.0 - 1e-12));
        });
        prop_assert!(ends_s.is_sorted());
        reference::mps(&scenario, &arrivals, |service| {
            assert!(service.latency_s >= service_s * (1.0 - 1e-12));
        });
    }

    /// Time slices conserve work: if changes have no cost, the last end does not depend on the
    /// quantum, and no request is shorter than its work.
    #[test]
    fn time_slices_conserve_work(scenario in scenario(), quantum_ms in 0.3..20.0_f64) {
        let options = EventOptions::default();
        let requests = event::requests(&scenario, &options, 0);
        let time_slice = TimeSlice::new(quantum_ms, 0.0);
        let sliced_s = run_sliced(&requests, scenario.tenants as usize, time_slice, None);
        let free = Scenario { switch_ms: 0.0, ..scenario };
        let queued_s = event::ends(&free, &options, Mode::TimeSlice, &requests);
        let last = |ends_s: &[f64]| ends_s.iter().copied().fold(0.0, f64::max);
        prop_assert!((last(&sliced_s) - last(&queued_s)).abs() < 1e-6);
        for (request, end_s) in requests.iter().zip(&sliced_s) {
            prop_assert!(end_s - request.arrival_s >= request.work_s * (1.0 - 1e-9));
        }
    }

    /// Percentiles by selection equal percentiles by sorting.
    #[test]
    fn selection_equals_sorting(mut values in prop::collection::vec(0.0..1e3_f64, 1..300)) {
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let by_sorting = |percent: f64| {
            let place = (sorted.len() - 1) as f64 * (percent / 100.0);
            let (low, gamma) = (place.floor() as usize, place.fract());
            let high = sorted[(low + 1).min(sorted.len() - 1)];
            sorted[low] + (high - sorted[low]) * gamma
        };
        let percents = [0.0, 3.0, 50.0, 50.0, 99.0, 100.0];
        let found = percentiles(&mut values, percents).expect("values");
        for (percent, found) in percents.into_iter().zip(found) {
            prop_assert!((found - by_sorting(percent)).abs() < 1e-9, "{percent}");
        }
    }
}
