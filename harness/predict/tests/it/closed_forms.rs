//! The discrete-event model against queues with known waits, and against the reference model.

use gpubench_predict::rng::RngKind;
use gpubench_predict::simulate::event::options::ServiceKind;
use gpubench_predict::simulate::event::{self, EventOptions};
use gpubench_predict::simulate::event::{Request, requests};
use gpubench_predict::simulate::reference::{self, Service};
use gpubench_predict::simulate::summary::{State, predict};
use gpubench_predict::simulate::{Mode, Scenario, arrivals};
use gpubench_stats::{Confidence, Effect, Estimate};

const SERVICE_S: f64 = 0.01;
const LOADS: [f64; 6] = [0.1, 0.3, 0.5, 0.7, 0.8, 0.9];
const REPLICATIONS: u64 = 24;

fn one_server(load: f64) -> Scenario {
    Scenario {
        tenants: 1,
        slices: Some(1),
        service_ms: SERVICE_S * 1000.0,
        rate_per_s: load / SERVICE_S,
        duration_s: 250.0,
        seed: 20,
        ..Scenario::default()
    }
}

fn mean_wait_s(scenario: &Scenario, options: &EventOptions, replication: u64) -> f64 {
    let requests = requests(scenario, options, replication);
    let ends_s = event::ends(scenario, options, Mode::Mig, &requests);
    let settled = requests.iter().zip(&ends_s).filter(|(r, _)| r.arrival_s >= options.warmup_s);
    let waits_s: Vec<f64> = settled.map(|(r, end_s)| end_s - r.arrival_s - r.work_s).collect();
    waits_s.iter().sum::<f64>() / waits_s.len() as f64
}

/// Intervals of the mean wait at each load, with 99 % simultaneous coverage over both
/// distributions.
fn waits_s(service: ServiceKind) -> Vec<Estimate> {
    let confidence = Confidence::simultaneous(0.01, 2 * LOADS.len() as u32).expect("a level");
    // Eight relaxation times at a load of 0.9, which is 1 / (mu (1 - sqrt(rho))^2) or 3.8 s.
    let options = EventOptions { service, warmup_s: 30.0, ..EventOptions::default() };
    let interval = |load: f64| {
        let scenario = one_server(load);
        let means: Vec<f64> =
            (0..REPLICATIONS).map(|number| mean_wait_s(&scenario, &options, number)).collect();
        let effect = Effect::of_mean(&means).expect("an effect");
        effect.interval(confidence).expect("an interval")
    };
    LOADS.into_iter().map(interval).collect()
}

/// Pollaczek and Khinchine: Wq = rho S (1 + cv^2) / (2 (1 - rho)).
fn known_wait_s(load: f64, squared_cv: f64) -> f64 {
    load * SERVICE_S * (1.0 + squared_cv) / (2.0 * (1.0 - load))
}

#[test]
fn waits_of_known_queues_lie_in_the_simultaneous_intervals() {
    let laws = [(ServiceKind::Exponential, 1.0, 0.0), (ServiceKind::Deterministic, 0.0, 1.0)];
    for (law, squared_cv, other) in laws {
        for (load, found) in LOADS.into_iter().zip(waits_s(law)) {
            let known_s = known_wait_s(load, squared_cv);
            assert!(found.contains(known_s), "{law:?} at {load}: {known_s} is not in {found:?}");
            // An interval that contains the other wait too would prove nothing.
            let other_s = known_wait_s(load, other);
            assert!(
                !found.contains(other_s),
                "{law:?} at {load}: {found:?} contains {other_s} too"
            );
        }
    }
}

#[test]
fn other_distributions_have_their_mean_and_spread() {
    let laws = [
        (ServiceKind::Erlang { stages: 4 }, 0.25),
        (ServiceKind::LogNormal { cv: 0.7 }, 0.49),
        (ServiceKind::HyperExponential { cv: 2.0 }, 4.0),
    ];
    for (service, squared_cv) in laws {
        let options = EventOptions { service, warmup_s: 30.0, ..EventOptions::default() };
        let scenario = one_server(0.5);
        let means: Vec<f64> =
            (0..REPLICATIONS).map(|number| mean_wait_s(&scenario, &options, number)).collect();
        let confidence = Confidence::simultaneous(0.01, 3).expect("a level");
        let effect = Effect::of_mean(&means).expect("an effect");
        let found = effect.interval(confidence).expect("an interval");
        let known_s = known_wait_s(0.5, squared_cv);
        assert!(found.contains(known_s), "{service:?}: {known_s} not in {found:?}");
    }
}

#[test]
fn overload_is_reported_with_its_growth_and_has_no_mean() {
    let scenario = Scenario { duration_s: 200.0, ..one_server(1.25) };
    let found = event::predict(&scenario, &EventOptions::default(), 0);
    for mode in [&found.modes[0], &found.modes[2]] {
        let State::Overloaded { growth_per_s, .. } = mode.state else {
            panic!("{mode:?} at a load of 1.25")
        };
        // 125 arrive and 100 end per second; arrivals spread by sqrt(125 / 200 s).
        assert!((growth_per_s - 25.0).abs() < 5.0 * (125.0_f64 / 200.0).sqrt(), "{mode:?}");
        assert_eq!(mode.mean_ms, None);
    }
    let calm = event::predict(&one_server(0.9), &EventOptions::default(), 0);
    assert!(calm.modes.iter().all(|mode| mode.state == State::Stable), "{calm:?}");
}

/// With deterministic service, no quantum and equal slices both models are the same queues.
#[test]
fn disciplines_agree_with_the_reference_model() {
    let scenario = Scenario::default();
    let arrivals = arrivals::arrivals(&scenario, 3);
    let work_s = scenario.service_ms / 1000.0;
    let requests: Vec<Request> =
        arrivals.iter().map(|(arrival_s, tenant)| Request { arrival_s, work_s, tenant }).collect();
    let options = EventOptions::default();
    let same = |mode: Mode, expected_s: Vec<f64>| {
        let ends_s = event::ends(&scenario, &options, mode, &requests);
        assert_eq!(ends_s.len(), expected_s.len());
        for (found_s, expected_s) in ends_s.iter().zip(expected_s) {
            assert!((found_s - expected_s).abs() < 1e-9, "{mode:?}: {found_s} {expected_s}");
        }
    };
    let mut expected_s = Vec::new();
    reference::mig(&scenario, &arrivals, |service: Service| expected_s.push(service.end_s));
    same(Mode::Mig, std::mem::take(&mut expected_s));
    reference::time_slice(&scenario, &arrivals, |service: Service| expected_s.push(service.end_s));
    same(Mode::TimeSlice, expected_s);
}

#[test]
fn each_refinement_changes_its_mode() {
    let scenario = Scenario { duration_s: 120.0, ..Scenario::default() };
    let p99_ms = |options: EventOptions, mode: usize| {
        event::predict(&scenario, &options, 0).modes[mode].p99_ms.expect("requests")
    };
    let plain = EventOptions::default;
    // A short slice costs more switches; half of the SMs halve the speed of a wide kernel; a bucket
    // of a seventh delays launches that time-slicing admits; a large MIG instance is faster.
    let short = EventOptions { quantum_ms: Some(5.0), ..plain() };
    assert!(p99_ms(short, 2) > 1.2 * p99_ms(plain(), 2));
    let wide = |mps_percent| EventOptions { width: Some(1.0), mps_percent, ..plain() };
    assert!(p99_ms(wide(10.0), 1) > 1.5 * p99_ms(wide(100.0), 1));
    assert!(p99_ms(plain(), 3) > 1.2 * p99_ms(plain(), 2));
    let bursts = event::options::ArrivalKind::Bursts { on_ms: 200.0, off_ms: 800.0 };
    assert!(p99_ms(EventOptions { arrivals: bursts, ..plain() }, 2) > 2.0 * p99_ms(plain(), 2));
    let two = Scenario { tenants: 2, ..scenario.clone() };
    let layout = |names: [&str; 2]| EventOptions {
        gpu: Some("H200-141".to_owned()),
        mig: names.map(str::to_owned).to_vec(),
        ..plain()
    };
    let mig_p99_ms = |options: &EventOptions| event::predict(&two, options, 0).modes[0].p99_ms;
    assert!(
        mig_p99_ms(&layout(["1g.18gb", "1g.18gb"])) > mig_p99_ms(&layout(["4g.71gb", "3g.71gb"]))
    );
}

// The published table of the reference model, to the digit, and its overload.

fn published() -> Scenario {
    Scenario { rng: RngKind::Numpy, seed: 7, ..Scenario::default() }
}

#[test]
fn the_published_table_is_equal_to_the_digit() {
    let found = predict(&published());
    assert_eq!(found.offered, 5067);
    let rows: Vec<String> = found
        .modes
        .iter()
        .map(|mode| {
            let (Some(percent), Some(p50_ms), Some(p99_ms)) =
                (mode.served_percent, mode.p50_ms, mode.p99_ms)
            else {
                return format!("{} has no figures", mode.mode.name());
            };
            let name = mode.mode.name();
            format!("{name} {} {percent:.1} {p50_ms:.2} {p99_ms:.2}", mode.served)
        })
        .collect();
    let table = [
        "MIG 5039 99.4 200.92 1029.04",
        "MPS 5065 100.0 11.80 30.47",
        "time-slice 5063 99.9 39.92 208.21",
    ];
    assert_eq!(rows, table);
}

#[test]
fn overload_is_reported_with_its_growth() {
    // Seven slices of a seventh: 20 requests per second of 70 ms each are a load of 1.4, and 20
    // minus 1/0.07 accumulate per second and tenant.
    let scenario = Scenario { rate_per_s: 20.0, ..published() };
    let found = predict(&scenario);
    let mig = &found.modes[0];
    assert!((mig.load - 1.4).abs() < 1e-9, "{}", mig.load);
    let State::Overloaded { growth_per_s, delay_growth_ms_per_s } = mig.state else {
        panic!("MIG at a load of 1.4 is {:?}", mig.state);
    };
    assert!((growth_per_s - 7.0 * (20.0 - 1.0 / 0.07)).abs() < 1e-6, "{growth_per_s}");
    assert!((delay_growth_ms_per_s - 400.0).abs() < 1e-6, "{delay_growth_ms_per_s}");
    assert_eq!(found.modes[1].state, State::Stable);
}
