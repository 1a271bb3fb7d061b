//! The published table of the reference model, to the digit, and its overload.

use gpubench_predict::rng::RngKind;
use gpubench_predict::simulate::Scenario;
use gpubench_predict::simulate::summary::{State, predict};

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
