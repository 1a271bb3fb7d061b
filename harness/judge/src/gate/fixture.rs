//! A valid cell for tests, which change what they need.

use std::collections::BTreeMap;
use std::path::Path;

use gpubench_record::sample::MISSING;
use gpubench_record::{
    Cell, CellResult, CellTenant, Condition, Control, CpuGaps, Durations, EccCounts, EccSpan,
    EventObserved, ExpectedAnswer, FaultFacts, FaultTrial, Gaps, OutputCheck, Phase, PhaseGaps,
    Proof, RequiredProof, Role, RunRecord, SampleRow, SampleStatus, Shape, SubAxis, TenantResult,
    Thresholds, Unobserved,
};
use gpubench_stats::{ScheduleRng, poisson_schedule_ns};
use gpubench_store::Record;

use super::{CellObservation, CellXid, ClockKind, Host, Proofs, Tenant, judge};

/// The record of an example in this repository.
pub(crate) fn example(name: &str) -> Result<RunRecord, Box<dyn std::error::Error>> {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../reports/examples");
    Ok(Record::open(&examples.join(name))?.run().clone())
}

pub(crate) const MS: u64 = 1_000_000;
/// A workload with [`NO_MEMORY`] as its answering code.
pub(crate) const ANSWERED: &str = "requests-memory";
/// `CUDA_ERROR_OUT_OF_MEMORY`.
pub(crate) const NO_MEMORY: i32 = 2;
const SEED: u64 = 11;
const OFFERED_PER_S: f64 = 250.0;

/// A request that completed and was issued when it was due.
pub(crate) fn row(seq: u64, phase: Phase, t_sched_ns: u64, t_done_ns: u64) -> SampleRow {
    SampleRow {
        seq,
        t_sched_ns,
        t_issue_ns: t_sched_ns,
        t_ret_ns: t_sched_ns,
        t_done_ns,
        gpu_ns: if t_done_ns == MISSING { MISSING } else { t_done_ns - t_sched_ns },
        error: 0,
        phase,
        status: SampleStatus::Ok,
        issuer_idle: true,
    }
}

/// Owns what [`CellObservation`] borrows.
pub(crate) struct World {
    pub cell: Cell,
    pub durations: Durations,
    pub thresholds: Thresholds,
    pub clock: ClockKind,
    /// Rows of each tenant, the victim first.
    pub rows: Vec<Vec<SampleRow>>,
    pub deaths: Vec<Option<&'static str>>,
    pub unlogged: u64,
    pub overloaded: bool,
    pub offered_per_s: Option<f64>,
    pub slo_ns: Option<u64>,
    pub is_user_victim: bool,
    pub failure: Option<&'static str>,
    pub other_pids: Option<Vec<u32>>,
    pub throttle_reasons: Option<u64>,
    pub xids: Option<Vec<CellXid>>,
    pub ecc: Option<EccSpan>,
    pub other_clocks: Option<Vec<String>>,
    pub unobserved: BTreeMap<Unobserved, String>,
    pub calibrated_service_ns: Option<u64>,
    pub steal: Option<f64>,
    pub speed_ln: Option<[f64; 2]>,
    pub event: Option<EventObserved>,
    /// The victim's lost CPU time.
    pub cpu_gaps: Option<CpuGaps>,
    /// Output of each tenant; none for those that are missing.
    pub outputs: Vec<OutputCheck>,
    pub proofs: Vec<Proof>,
    pub required_proofs: Option<Vec<RequiredProof>>,
}

impl World {
    /// A victim with requests of `service_ns`, without a neighbour or beside one.
    pub(crate) fn new(condition: Condition, service_ns: u64) -> Self {
        let durations = Durations {
            warmup_ns: 100 * MS,
            closed_ns: 850 * MS,
            gap_ns: 50 * MS,
            open_ns: 1_800 * MS,
            sparse_ns: 0,
        };
        let cell = cell(condition);
        let mut rows = vec![victim_rows(&durations, service_ns)];
        if condition.has_aggressor() {
            rows.push(back_to_back(0, Phase::Closed, 0, durations.cell_ns(), 3 * MS));
        } else if !condition.is_native() {
            rows.push(Vec::new());
        }
        let deaths = vec![None; rows.len()];
        Self {
            cell,
            durations,
            thresholds: Thresholds::default(),
            clock: ClockKind::Wall,
            rows,
            deaths,
            unlogged: 0,
            overloaded: false,
            offered_per_s: Some(OFFERED_PER_S),
            slo_ns: None,
            is_user_victim: false,
            failure: None,
            other_pids: Some(Vec::new()),
            throttle_reasons: Some(0),
            xids: Some(Vec::new()),
            ecc: Some(ecc(0, 0)),
            other_clocks: Some(Vec::new()),
            unobserved: BTreeMap::new(),
            calibrated_service_ns: Some(service_ns),
            steal: Some(0.0),
            speed_ln: Some([0.0, 0.0]),
            event: None,
            cpu_gaps: Some(CpuGaps::default()),
            outputs: Vec::new(),
            proofs: Vec::new(),
            required_proofs: None,
        }
    }

    pub(crate) fn judge(&self) -> CellResult {
        let planned = self.cell.tenants.iter().enumerate();
        let results: Vec<TenantResult> = planned
            .map(|(number, planned)| TenantResult {
                death: self.deaths[number].map(str::to_owned),
                unlogged: if number == 0 { self.unlogged } else { 0 },
                overloaded: number == 0 && self.overloaded,
                sched: Some("fifo".to_owned()),
                cpu_gaps: self.cpu_gaps.filter(|_| number == 0),
                output: self.outputs.get(number).cloned(),
                ..TenantResult::ready(planned, None)
            })
            .collect();
        let tenants: Vec<Tenant<'_>> = results
            .iter()
            .zip(&self.rows)
            .map(|(result, rows)| Tenant {
                result,
                rows,
                answering_codes: match result.planned.workload.as_deref() {
                    Some(ANSWERED) => &[NO_MEMORY],
                    _ => &[],
                },
            })
            .collect();
        let observation = CellObservation {
            cell: &self.cell,
            durations: &self.durations,
            thresholds: &self.thresholds,
            clock: self.clock,
            tenants: &tenants,
            offered_per_s: self.offered_per_s,
            bursts: None,
            slo_ns: self.slo_ns,
            aggressor_peak_per_s: Some(400.0),
            calibrated_service_ns: self.calibrated_service_ns,
            is_user_victim: self.is_user_victim,
            failure: self.failure,
            host: self.host(),
        };
        judge(&observation).expect("the tenants are those of the cell")
    }

    pub(crate) fn host(&self) -> Host<'_> {
        Host {
            other_pids: self.other_pids.as_deref(),
            throttle_reasons: self.throttle_reasons,
            xids: self.xids.as_deref(),
            ecc: self.ecc,
            other_clocks: self.other_clocks.as_deref(),
            unobserved: &self.unobserved,
            sm_clock_khz: Some(1_980_000),
            event: self.event.as_ref(),
            meters: &[],
            steal: self.steal,
            speed_ln: self.speed_ln,
            proofs: Proofs::OfCell {
                taken: &self.proofs,
                required: self.required_proofs.as_deref(),
            },
        }
    }

    pub(crate) fn victim(&mut self, phase: Phase) -> impl Iterator<Item = &mut SampleRow> {
        self.rows[0].iter_mut().filter(move |row| row.phase == phase)
    }
}

/// Counters that moved by so many corrected and uncorrected errors.
pub(crate) fn ecc(corrected: u64, uncorrected: u64) -> EccSpan {
    let counts = |corrected, uncorrected| EccCounts {
        corrected_volatile: Some(corrected),
        uncorrected_volatile: Some(uncorrected),
        ..EccCounts::default()
    };
    EccSpan { before: counts(3, 1), after: counts(3 + corrected, 1 + uncorrected) }
}

pub(crate) fn cell(condition: Condition) -> Cell {
    let tenant = |tenant: &str, role, workload: Option<&str>| CellTenant {
        tenant: tenant.to_owned(),
        role,
        workload: workload.map(str::to_owned),
    };
    let mut tenants = vec![tenant("victim", Role::Victim, Some("compute"))];
    if condition.has_aggressor() {
        tenants.push(tenant("neighbour-1", Role::Aggressor, Some("fma-hog")));
    } else if !condition.is_native() {
        tenants.push(tenant("neighbour-1", Role::Idle, None));
    }
    let aggressor = condition.has_aggressor().then(|| "fma-hog".to_owned());
    Cell {
        id: format!("0001-b00-{}", condition.as_str()),
        block: 0,
        group: "plain".to_owned(),
        mechanism: "time-slicing".to_owned(),
        variant: "time-slicing[slice=default]".to_owned(),
        sub_axis: SubAxis::Sm,
        condition,
        victim: "compute".to_owned(),
        dose: if aggressor.is_some() { 1.0 } else { 0.0 },
        aggressor,
        tenants,
        schedule_seed: SEED,
        closed_only: false,
        sparse: None,
        shape: Shape::default(),
    }
}

/// Requests of one length, each issued when the one before completes.
pub(crate) fn back_to_back(
    first_seq: u64,
    phase: Phase,
    start_ns: u64,
    end_ns: u64,
    service_ns: u64,
) -> Vec<SampleRow> {
    let mut rows = Vec::new();
    let (mut seq, mut now_ns) = (first_seq, start_ns);
    while now_ns < end_ns {
        rows.push(row(seq, phase, now_ns, now_ns + service_ns));
        seq += 1;
        now_ns += service_ns;
    }
    rows
}

/// Warm-up, closed loop, and an open loop served first come, first served.
fn victim_rows(durations: &Durations, service_ns: u64) -> Vec<SampleRow> {
    let mut rows = back_to_back(0, Phase::Warmup, 0, durations.warmup_ns, service_ns);
    let closed_ns = rows.last().map_or(0, |row| row.t_done_ns);
    let closed_end_ns = durations.warmup_ns + durations.closed_ns;
    let seq = rows.len() as u64;
    rows.extend(back_to_back(seq, Phase::Closed, closed_ns, closed_end_ns, service_ns));
    let open_start_ns = closed_end_ns + durations.gap_ns;
    let arrivals = poisson_schedule_ns(OFFERED_PER_S, durations.open_ns, SEED);
    let mut free_ns = 0;
    for offset_ns in arrivals.expect("a legal rate") {
        let due_ns = open_start_ns + offset_ns;
        free_ns = due_ns.max(free_ns) + service_ns;
        rows.push(row(rows.len() as u64, Phase::Open, due_ns, free_ns));
    }
    rows
}

// Changes to a valid cell, for the tests of the gates.

/// Moves one arrival from the instant that the seed of the block gives.
pub(super) fn move_arrival(world: &mut World, by_ns: u64) {
    world.victim(Phase::Open).skip(77).take(1).for_each(|row| {
        row.t_sched_ns += by_ns;
        row.t_issue_ns += by_ns;
    });
}

pub(super) fn lose_row(world: &mut World, at: usize) {
    world.rows[0].remove(at);
}

/// Issues every open-loop request late; completions stay where they are.
pub(super) fn late(world: &mut World, by_ns: u64) {
    world.victim(Phase::Open).for_each(|row| row.t_issue_ns += by_ns);
}

pub(super) fn late_but_busy(world: &mut World) {
    late(world, 900_000);
    world.victim(Phase::Open).for_each(|row| row.issuer_idle = false);
}

/// The victim's issuer does not run for that long in the closed loop.
pub(super) fn lose_core(world: &mut World, lost_ms: u64) {
    let mut issuer = Gaps::default();
    issuer.add(lost_ms * MS);
    let closed = PhaseGaps { issuer, reaper: None, late_ends: None };
    world.cpu_gaps = Some(CpuGaps { closed, ..CpuGaps::default() });
}

pub(super) fn stop_aggressor(world: &mut World, at_ms: u64) {
    world.rows[1].retain(|row| row.t_sched_ns < at_ms * MS);
}

pub(super) fn start_aggressor(world: &mut World, at_ms: u64) {
    world.rows[1].retain(|row| row.t_sched_ns >= at_ms * MS);
    (0..).zip(&mut world.rows[1]).for_each(|(seq, row)| row.seq = seq);
}

/// The issuer blocks in a driver call for a fifth of the open loop.
pub(super) fn block_issuer(world: &mut World) {
    let (from_ns, to_ns) = (1_500 * MS, 1_900 * MS);
    world.victim(Phase::Open).for_each(|row| {
        if (from_ns..to_ns).contains(&row.t_sched_ns) {
            (row.t_issue_ns, row.issuer_idle) = (to_ns, false);
            row.t_done_ns = row.t_done_ns.max(to_ns);
        }
    });
}

/// Plans half a dose; the aggressor works `on_ms` of every 10 ms.
pub(super) fn duty(world: &mut World, on_ms: u64) {
    world.cell.dose = 0.5;
    world.rows[1].clear();
    for period in 0..world.durations.cell_ns() / (10 * MS) {
        let start_ns = period * 10 * MS;
        world.rows[1].push(row(period, Phase::Closed, start_ns, start_ns + on_ms * MS));
    }
}

/// The first `slow` requests of the closed loop take 10 % longer than the rest. With all 850 there
/// is no step.
pub(super) fn ramp(world: &mut World, slow: usize) {
    step(world, slow, 10);
}

/// The first `slow` requests of the closed loop take so much longer than the rest.
pub(super) fn step(world: &mut World, slow: usize, by_pct: u32) {
    let mut now_ns = 100 * MS;
    let mut noise = ScheduleRng::new(3);
    for (number, row) in world.victim(Phase::Closed).enumerate() {
        let slower = if number < slow { 10_000 * by_pct } else { 0 };
        let service_ns = 1_000_000 + slower + noise.below(10_000);
        row.t_sched_ns = now_ns;
        row.t_issue_ns = now_ns;
        row.t_done_ns = now_ns + u64::from(service_ns);
        now_ns = row.t_done_ns;
    }
}

pub(super) fn few_closed(world: &mut World, keep: usize) {
    let mut kept = 0;
    world.rows[0].retain(|row| {
        kept += usize::from(row.phase == Phase::Closed);
        row.phase != Phase::Closed || kept <= keep
    });
    (0..).zip(&mut world.rows[0]).for_each(|(seq, row)| row.seq = seq);
}

/// The closed loop holds `keep` long requests, one always outstanding.
pub(super) fn long_closed(world: &mut World, keep: u64) {
    let (start_ns, end_ns) = (100 * MS, 950 * MS);
    let rows = &mut world.rows[0];
    let at = rows.partition_point(|row| row.phase == Phase::Warmup);
    rows.retain(|row| row.phase != Phase::Closed);
    let long = back_to_back(0, Phase::Closed, start_ns, end_ns, (end_ns - start_ns) / keep);
    rows.splice(at..at, long);
    (0..).zip(rows).for_each(|(seq, row)| row.seq = seq);
}

/// A planned trial of a fault at the start of its window.
pub(crate) fn fault_trial(
    fault: &str,
    control: Option<Control>,
    answer: ExpectedAnswer,
) -> FaultTrial {
    FaultTrial {
        id: "f0000".to_owned(),
        group: "plain".to_owned(),
        mechanism: "time-slicing".to_owned(),
        variant: "time-slicing".to_owned(),
        fault: fault.to_owned(),
        class: "sm".to_owned(),
        facts: FaultFacts { control, answer, by_coordinator: false, leaves_waiting: false },
        trial: 1,
        victim: "compute".to_owned(),
        tenants: Vec::new(),
        schedule_seed: 1,
        at_ns: 0,
        until_ns: 0,
        from_ns: 0,
        window_ns: 0,
    }
}
