//! Figures and gates of cells that the tests construct.

use GateState::{Failed, NotApplicable, NotEvaluated, Passed};
use gpubench_record::Condition::{C, N, S, U};
use gpubench_record::sample::MISSING;
use gpubench_record::{
    CellResult, CellTenant, Condition, Gate, GateScope, GateState, OutcomeKind, OutputCheck, Phase,
    Proof, ProofTime, Role, SampleStatus, TenantResult, Unobserved,
};
use gpubench_stats::ScheduleRng;

use super::fixture::{MS, World, late, stop_aggressor, *};
use super::{CellObservation, ClockKind, GateError, Tenant, judge};
use crate::gate::CellXid;
use crate::gate::fixture::{ecc, row};

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

// A table of changes to a valid cell: the gate that each change decides, and the outcome.

/// A change to a valid cell of one condition, and what must follow.
struct Case {
    condition: Condition,
    gate: Gate,
    change: fn(&mut World),
    state: GateState,
    outcome: OutcomeKind,
}

const fn case(condition: Condition, gate: Gate, change: fn(&mut World), state: GateState) -> Case {
    Case {
        condition,
        gate,
        change,
        state,
        outcome: match state {
            Failed => OutcomeKind::Inconclusive,
            _ => OutcomeKind::Measured,
        },
    }
}

const fn passes(condition: Condition, gate: Gate, change: fn(&mut World)) -> Case {
    case(condition, gate, change, Passed)
}

const fn not_evaluated(condition: Condition, gate: Gate, change: fn(&mut World)) -> Case {
    case(condition, gate, change, NotEvaluated)
}

const fn fails(condition: Condition, gate: Gate, change: fn(&mut World)) -> Case {
    case(condition, gate, change, Failed)
}

/// The gate fails, and the cell failed.
const fn breaks(condition: Condition, gate: Gate, change: fn(&mut World)) -> Case {
    with_outcome(condition, gate, change, OutcomeKind::Failed)
}

/// The gate fails, and the cell is measured.
const fn spoils_no_cell(condition: Condition, gate: Gate, change: fn(&mut World)) -> Case {
    with_outcome(condition, gate, change, OutcomeKind::Measured)
}

const fn with_outcome(
    condition: Condition,
    gate: Gate,
    change: fn(&mut World),
    outcome: OutcomeKind,
) -> Case {
    Case { condition, gate, change, state: Failed, outcome }
}

fn proof(holds: bool) -> Proof {
    Proof {
        when: ProofTime::During,
        t_ns: Some(1),
        check: "processes".to_owned(),
        holds,
        evidence: "two".to_owned(),
        hardware: false,
        limiter: false,
    }
}

/// An output with this digest, of which `1` is right.
fn output(digest: &str) -> OutputCheck {
    OutputCheck {
        digest: Some(digest.to_owned()),
        alone: Some("1".to_owned()),
        bytes: 4096,
        cycle: 1,
        ..OutputCheck::default()
    }
}

fn unread_output() -> OutputCheck {
    OutputCheck { unread: Some("CUresult 719".to_owned()), ..OutputCheck::default() }
}

fn xid() -> CellXid {
    CellXid { number: 13, note: None }
}

fn unobserved(world: &mut World, what: Unobserved) {
    world.unobserved.insert(what, "NVML: unknown".to_owned());
}

fn early_proof() -> Proof {
    Proof { when: ProofTime::Once, ..proof(true) }
}

const CASES: &[Case] = &[
    breaks(C, Gate::TenantsAlive, |w| w.deaths[0] = Some("SIGKILL")),
    fails(C, Gate::TenantsAlive, |w| w.deaths[1] = Some("SIGKILL")),
    fails(C, Gate::AggressorAlive, |w| w.deaths[1] = Some("SIGKILL")),
    fails(S, Gate::TenantsAlive, |w| w.deaths[1] = Some("exit 1")),
    breaks(N, Gate::Completed, |w| w.failure = Some("no answer")),
    fails(N, Gate::LogComplete, |w| w.unlogged = 1),
    fails(N, Gate::LogComplete, |w| lose_row(w, 40)),
    fails(N, Gate::LogComplete, |w| w.rows[0][5].seq = 4),
    // Twice the requests in the same time would be twice the rate.
    fails(C, Gate::LogComplete, |w| w.rows[0].extend_from_within(..)),
    breaks(N, Gate::Results, |w| w.rows[0][200].status = SampleStatus::WrongResult),
    fails(C, Gate::Results, |w| w.rows[1][3].status = SampleStatus::Error),
    passes(C, Gate::Results, |w| w.outputs = vec![output("1"), output("1")]),
    breaks(C, Gate::Results, |w| w.outputs = vec![output("2"), output("1")]),
    breaks(C, Gate::Results, |w| w.outputs = vec![output("1"), output("2")]),
    fails(N, Gate::Results, |w| w.outputs = vec![unread_output()]),
    fails(S, Gate::NeighboursIdle, |w| w.rows[1].push(row(0, Phase::Closed, 1, 2))),
    passes(N, Gate::Schedule, |w| move_arrival(w, 900)),
    fails(N, Gate::Schedule, |w| move_arrival(w, 1_100)),
    not_evaluated(N, Gate::Schedule, |w| w.offered_per_s = None),
    fails(N, Gate::Schedule, |w| w.cell.schedule_seed += 1),
    fails(N, Gate::Schedule, |w| lose_row(w, w.rows[0].len() - 1)),
    fails(N, Gate::Overload, |w| w.overloaded = true),
    not_evaluated(C, Gate::Overload, |w| w.overloaded = true),
    not_evaluated(U, Gate::VictimInEveryTenth, |w| w.overloaded = true),
    // A tenth of the tail, which is 1.33 ms here.
    passes(N, Gate::Lateness, |w| late(w, 0)),
    passes(N, Gate::Lateness, |w| late(w, 100_000)),
    // The rate of the closed loop stands.
    spoils_no_cell(N, Gate::Lateness, |w| late(w, 250_000)),
    not_evaluated(N, Gate::Lateness, late_but_busy),
    fails(C, Gate::CoResidencyClosed, |w| stop_aggressor(w, 900)),
    // It begins when the closed loop has ended.
    fails(C, Gate::CoResidencyClosed, |w| start_aggressor(w, 951)),
    fails(C, Gate::CoResidencyOpen, |w| stop_aggressor(w, 2_700)),
    passes(C, Gate::CoResidencyOpen, |w| stop_aggressor(w, 2_720)),
    fails(C, Gate::CoResidencyOpen, |w| {
        w.thresholds.overlap_min = 0.97;
        stop_aggressor(w, 2_720);
    }),
    fails(C, Gate::AggressorAlive, |w| w.rows[1].clear()),
    fails(C, Gate::VictimInEveryTenth, block_issuer),
    passes(C, Gate::Dose, |w| duty(w, 5)),
    fails(C, Gate::Dose, |w| duty(w, 6)),
    fails(C, Gate::Dose, |w| duty(w, 4)),
    passes(N, Gate::MechanismInForce, |w| w.proofs = vec![proof(true)]),
    fails(N, Gate::MechanismInForce, |w| w.proofs = vec![proof(true), proof(false)]),
    // No proof was taken while the samples were.
    fails(N, Gate::MechanismInForce, |w| w.proofs = vec![early_proof()]),
    fails(N, Gate::ForeignProcess, |w| w.other_pids = Some(vec![7])),
    not_evaluated(N, Gate::ForeignProcess, |w| w.other_pids = None),
    fails(N, Gate::Xid, |w| w.xids = Some(vec![xid()])),
    not_evaluated(N, Gate::Xid, |w| w.xids = None),
    fails(C, Gate::Ecc, |w| w.ecc = Some(ecc(0, 1))),
    passes(C, Gate::Ecc, |w| w.ecc = Some(ecc(2, 0))),
    not_evaluated(C, Gate::Ecc, |w| w.ecc = None),
    spoils_no_cell(C, Gate::EccCorrected, |w| w.ecc = Some(ecc(2, 0))),
    fails(S, Gate::TimeNamespace, |w| w.other_clocks = Some(vec!["victim".to_owned()])),
    not_evaluated(S, Gate::TimeNamespace, |w| w.other_clocks = None),
    passes(N, Gate::ServiceDrift, |w| w.calibrated_service_ns = Some(925_000)),
    spoils_no_cell(N, Gate::ServiceDrift, |w| w.calibrated_service_ns = Some(900_000)),
    spoils_no_cell(N, Gate::ServiceDrift, |w| w.calibrated_service_ns = Some(1_120_000)),
    not_evaluated(N, Gate::ServiceDrift, |w| w.calibrated_service_ns = None),
    // One sample without an answer.
    not_evaluated(N, Gate::Throttle, |w| unobserved(w, Unobserved::Throttle)),
    fails(N, Gate::Throttle, |w| w.throttle_reasons = Some(0x08)),
    fails(N, Gate::Throttle, |w| w.throttle_reasons = Some(0x40)),
    fails(N, Gate::Throttle, |w| w.throttle_reasons = Some(0x80)),
    passes(N, Gate::Throttle, |w| w.throttle_reasons = Some(0x125)),
    not_evaluated(N, Gate::Throttle, |w| w.throttle_reasons = None),
    passes(N, Gate::CpuSteal, |w| w.steal = Some(0.004)),
    spoils_no_cell(N, Gate::CpuSteal, |w| w.steal = Some(0.006)),
    not_evaluated(N, Gate::CpuSteal, |w| w.steal = None),
    passes(C, Gate::DeviceDrift, |w| w.speed_ln = Some([0.02, -0.02])),
    spoils_no_cell(C, Gate::DeviceDrift, |w| w.speed_ln = Some([0.03, -0.03])),
    not_evaluated(C, Gate::DeviceDrift, |w| w.speed_ln = None),
    // As a logarithm 80 ms of 850 are 0.099, and 85 ms are 0.105.
    passes(N, Gate::CpuGap, |w| lose_core(w, 80)),
    fails(N, Gate::CpuGap, |w| lose_core(w, 85)),
    fails(C, Gate::CpuGap, |w| lose_core(w, 900)),
    not_evaluated(N, Gate::CpuGap, |w| w.cpu_gaps = None),
    passes(N, Gate::WarmUp, |w| ramp(w, 850)),
    // 500 of 850 requests are 10 % slower: the parts differ by 0.095, the halves by less.
    passes(N, Gate::WarmUp, |w| ramp(w, 500)),
    passes(N, Gate::Drift, |w| ramp(w, 500)),
    fails(N, Gate::WarmUp, |w| step(w, 500, 30)),
    fails(N, Gate::Drift, |w| step(w, 500, 30)),
    not_evaluated(N, Gate::WarmUp, |w| few_closed(w, 12)),
    passes(N, Gate::ClosedRate, |w| few_closed(w, 10)),
    fails(N, Gate::ClosedRate, |w| few_closed(w, 9)),
    fails(C, Gate::ClosedRate, |w| few_closed(w, 4)),
    not_evaluated(C, Gate::ClosedRate, |w| long_closed(w, 4)),
    fails(S, Gate::ClosedRate, |w| long_closed(w, 4)),
];

#[test]
fn each_gate_detects_its_violation() {
    for (number, case) in CASES.iter().enumerate() {
        let mut world = World::new(case.condition, MS);
        (case.change)(&mut world);
        let result = world.judge();
        let text = format!("case {number}: {:#?}", result.gates);
        assert_eq!(result.gate_state(&case.gate), Some(case.state), "{text}");
        assert_eq!(result.outcome.outcome, case.outcome, "{text}");
        let mut gates = result.gates.iter();
        let spoilt = gates.any(|one| one.state == Failed && one.scope == GateScope::Cell);
        assert_eq!(spoilt, case.outcome != OutcomeKind::Measured, "{text}");
        if case.outcome == OutcomeKind::Inconclusive {
            let reason = result.outcome.reason.unwrap_or_default();
            assert!(reason.contains(&format!("{}: ", case.gate)), "{reason}");
        }
    }
}

/// A gate that never fails, or that nothing evaluates, checks nothing.
#[test]
fn each_gate_fails_in_a_case_and_passes_in_a_valid_cell() {
    let mut valid: Vec<World> = Condition::ALL.map(|one| World::new(one, MS)).into();
    for world in &mut valid {
        world.proofs = vec![proof(true)];
    }
    // Only a dose below 1 is compared with the planned one.
    let mut half_dose = World::new(C, MS);
    duty(&mut half_dose, 5);
    valid.push(half_dose);
    let valid: Vec<_> = valid.iter().map(World::judge).collect();
    for gate in Gate::ALL {
        let mut of_gate = CASES.iter().filter(|case| case.gate == *gate);
        assert!(of_gate.any(|case| case.state == Failed), "{gate}: no case");
        let states: Vec<_> = valid.iter().filter_map(|one| one.gate_state(gate)).collect();
        // A gate that only a failure adds to a cell is in no valid one.
        assert!(states.is_empty() || states.contains(&Passed), "{gate}: {states:?}");
        assert!(!states.contains(&Failed), "{gate}: {states:?}");
    }
}
