//! Figures and gates of cells that the tests construct.

mod table;

use gpubench_record::sample::MISSING;
use gpubench_record::{
    CellResult, CellTenant, Condition, Gate, GateState, OutcomeKind, Phase, Role, SampleStatus,
    TenantResult,
};
use gpubench_stats::ScheduleRng;

use super::changes::{late, stop_aggressor};
use super::fixture::{MS, World};
use super::{CellObservation, ClockKind, GateError, Tenant, judge};

use GateState::{Failed, NotApplicable, NotEvaluated, Passed};

#[test]
fn a_valid_cell_is_measured_in_every_condition() {
    for condition in Condition::ALL {
        let result = World::new(condition, MS).judge();
        assert!(result.outcome.is_measured(), "{condition:?}: {:?}", result.outcome);
        let mut gates = result.gates.iter();
        assert!(gates.all(|gate| gate.state != Failed), "{condition:?}: {:#?}", result.gates);
        // Where nothing disturbs, every bound is 0.
        assert_eq!(result.figures.closed_rate_loss_max_ln.unwrap(), 0.0);
        assert_eq!(result.figures.closed_halves_ln.unwrap(), 0.0);
        assert_eq!(
            result.figures.open_latency_p99_lower_ns.unwrap(),
            result.figures.open_latency_p99_ns.unwrap()
        );
        let paused = result.figures.aggressor_idle_closed_ratio;
        assert_eq!(paused, condition.has_aggressor().then_some(0.0));
        assert_eq!(result.figures.closed_rate_per_s.unwrap(), 1_000.0);
        assert_eq!(result.figures.closed_service_p50_ns.unwrap(), 1e6);
        assert_eq!(result.figures.gpu_p50_ns.unwrap(), 1e6);
        assert_eq!(result.figures.open_service_p50_ns.unwrap() as u64 / 100_000, 10);
        assert_eq!(result.figures.achieved_dose_ratio.is_some(), condition.has_aggressor());
        assert_eq!(result.requests["open"], 497, "arrivals of this seed");
        assert!(result.figures.backlog_slope_per_s.unwrap().abs() < 1.0);
        assert!(result.figures.open_latency_p999_ns.is_none(), "497 requests are too few");
    }
}

#[test]
fn the_rate_does_not_depend_on_where_the_window_ends() {
    for service_ns in [999_983, 1_300_000, 7_700_000, 33_333_333, 70_000_000] {
        let result = World::new(Condition::N, service_ns).judge();
        let rate = result.figures.closed_rate_per_s.unwrap();
        assert!((rate * service_ns as f64 / 1e9 - 1.0).abs() < 1e-12, "{service_ns}: {rate}");
    }
}

/// At 5 ms a request, 250 arrivals per second are 1.25 times the capacity.
#[test]
fn overload_is_detected_below_the_request_limit_and_leaves_no_percentiles() {
    for (condition, state) in [(Condition::S, Failed), (Condition::C, NotEvaluated)] {
        let result = World::new(condition, 5 * MS).judge();
        assert_eq!(result.gate_state(&Gate::Overload), Some(state));
        assert!(result.figures.backlog_slope_per_s.unwrap() > 20.0);
        let (good, offered) =
            (result.figures.goodput_per_s.unwrap(), result.figures.offered_per_s.unwrap());
        assert!((195.0..=200.0).contains(&good) && offered > 270.0, "{good} of {offered}");
        assert!(
            !result.figures.by_name().keys().any(|name| name.starts_with("open_")),
            "{:?}",
            result.figures
        );
        assert_eq!(
            result.figures.closed_rate_per_s.unwrap(),
            200.0,
            "the closed loop still counts"
        );
    }
    let busy = World::new(Condition::C, 2 * MS).judge();
    assert_eq!(busy.gate_state(&Gate::Overload), Some(Passed), "half load is no overload");
}

#[test]
fn requests_that_never_ended_count_in_the_tail() {
    let mut world = World::new(Condition::N, MS);
    let lost = world.victim(Phase::Open).skip(100).step_by(120).map(|row| {
        (row.t_done_ns, row.status) = (MISSING, SampleStatus::Unfinished);
    });
    assert_eq!(lost.count(), 4);
    let before = World::new(Condition::N, MS).judge();
    let result = world.judge();
    assert!(result.outcome.is_measured(), "{:?}", result.outcome);
    let p99 = |result: &CellResult| result.figures.open_latency_p99_ns.unwrap();
    assert!(p99(&result) > p99(&before), "four requests became slower than all others");
    world.victim(Phase::Open).skip(1).step_by(40).for_each(|row| {
        (row.t_done_ns, row.status) = (MISSING, SampleStatus::Unfinished);
    });
    let result = world.judge();
    assert!(result.figures.open_latency_p99_ns.is_none(), "{:?}", result.figures);
}

#[test]
fn lateness_and_steal_do_not_apply_in_virtual_time() {
    let mut world = World::new(Condition::N, MS);
    world.clock = ClockKind::Virtual;
    world.steal = None;
    late(&mut world, 5 * MS / 10);
    let result = world.judge();
    assert_eq!(
        [Gate::Lateness, Gate::CpuSteal, Gate::CpuGap].map(|gate| result.gate_state(&gate)),
        [Some(NotApplicable); 3]
    );
    assert_eq!(
        result.figures.lateness_idle_p99_ns.unwrap(),
        500_000.0,
        "the figure is reported all the same"
    );
    assert!(result.figures.lateness_busy_p99_ns.is_none(), "no issuer was busy");
}

#[test]
fn tenants_that_were_not_planned_are_refused() {
    let world = World::new(Condition::N, MS);
    let planned =
        CellTenant { tenant: "neighbour-1".to_owned(), role: Role::Aggressor, workload: None };
    let results = [&world.cell.tenants[0], &planned].map(|one| TenantResult::ready(one, None));
    let [victim, other] =
        [&results[0], &results[1]].map(|result| Tenant { result, rows: &[], answering_codes: &[] });
    let observed = |tenants: &[Tenant<'_>]| {
        judge(&CellObservation {
            cell: &world.cell,
            durations: &world.durations,
            thresholds: &world.thresholds,
            clock: ClockKind::Virtual,
            tenants,
            offered_per_s: None,
            bursts: None,
            slo_ns: None,
            aggressor_peak_per_s: None,
            calibrated_service_ns: None,
            is_user_victim: false,
            failure: None,
            host: world.host(),
        })
    };
    assert!(matches!(observed(&[]), Err(GateError::NoVictim { .. })));
    assert!(matches!(observed(&[other]), Err(GateError::NoVictim { .. })));
    assert!(matches!(observed(&[victim, other]), Err(GateError::Tenants { .. })));
    let silent = observed(&[victim]).expect("the planned tenants");
    assert_eq!(
        silent.outcome.outcome,
        OutcomeKind::Inconclusive,
        "a victim without rows measures nothing"
    );
    assert!(silent.figures.is_empty(), "{:?}", silent.figures);
}

#[test]
fn the_order_of_rows_does_not_matter() {
    let mut world = World::new(Condition::C, 2 * MS);
    let before = world.judge();
    let mut rng = ScheduleRng::new(5);
    world.rows.iter_mut().for_each(|rows| rng.shuffle(rows));
    assert_eq!(world.judge(), before);
}

#[test]
fn the_gates_follow_the_thresholds_of_the_profile() {
    let mut world = World::new(Condition::C, MS);
    stop_aggressor(&mut world, 2_720);
    world.thresholds.overlap_min = 0.97;
    assert_eq!(world.judge().gate_state(&Gate::CoResidencyOpen), Some(Failed));
}
