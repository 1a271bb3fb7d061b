//! Changes to a valid cell, for the tests of the gates.

use gpubench_record::{CpuGaps, Gaps, Phase, PhaseGaps};
use gpubench_stats::ScheduleRng;

use super::fixture::{MS, World, back_to_back, row};

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
