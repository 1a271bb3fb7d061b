//! Lone requests of the victim: those that found no earlier request of its own outstanding.
//!
//! Their latencies are those of the device and of the neighbours, without the queue that the
//! victim's own load makes.

use gpubench_record::sample::MISSING;
use gpubench_record::{Condition, Phase, SampleRow, SampleStatus};

use super::samples::of_phase;
use super::spans::Windows;
use super::{CellObservation, Tenant};

/// From issue to completion, in order of issue: of the sparse phase, or of the open loop where the
/// cell has none. A request that never completed counts until the end of the cell, which is too
/// short.
pub(super) fn latencies_ns(
    observation: &CellObservation<'_>,
    victim: &Tenant<'_>,
    windows: &Windows,
) -> Vec<u64> {
    // Nothing compares the solo cells.
    if matches!(observation.cell.condition, Condition::S | Condition::SAgain) {
        return Vec::new();
    }
    let phase = if observation.durations.sparse_ns > 0 { Phase::Sparse } else { Phase::Open };
    let of_phase = of_phase(victim.rows, phase);
    let mut rows: Vec<&SampleRow> =
        of_phase.iter().filter(|row| row.status != SampleStatus::Error).collect();
    rows.sort_unstable_by_key(|row| row.t_issue_ns);
    let end_ns = windows.open.end_ns;
    let (mut free_ns, mut latencies_ns) = (0, Vec::new());
    for row in rows {
        let done_ns = if row.t_done_ns == MISSING { end_ns } else { row.t_done_ns };
        // A request that came due while another was outstanding waited for it.
        if row.t_sched_ns.min(row.t_issue_ns) >= free_ns {
            latencies_ns.push(done_ns.saturating_sub(row.t_issue_ns));
        }
        free_ns = free_ns.max(done_ns);
    }
    latencies_ns
}

#[cfg(test)]
mod tests {
    use gpubench_record::sample::MISSING;
    use gpubench_record::{Condition, Phase, SampleStatus};

    use crate::gate::fixture::{MS, World, row};

    #[test]
    fn only_requests_that_find_no_other_count() {
        let mut world = World::new(Condition::N, MS);
        world.rows[0].retain(|row| row.phase != Phase::Open);
        let from_ns = world.durations.cell_ns() - world.durations.open_ns;
        let at = |ms: u64| from_ns + ms * MS;
        // The third comes due while the second is outstanding.
        let due = [(0, 1), (5, 9), (8, 10), (20, 22)];
        for (seq, (due_ms, done_ms)) in (1_000..).zip(due) {
            world.rows[0].push(row(seq, Phase::Open, at(due_ms), at(done_ms)));
        }
        assert_eq!(world.judge().lone_ns, [MS, 4 * MS, 2 * MS]);
        let last = world.rows[0].last_mut().expect("a row");
        (last.t_done_ns, last.status) = (MISSING, SampleStatus::Unfinished);
        let until_end_ns = world.durations.cell_ns() - at(20);
        assert_eq!(world.judge().lone_ns, [MS, 4 * MS, until_end_ns]);
    }

    #[test]
    fn a_sparse_phase_replaces_the_open_loop() {
        let mut world = World::new(Condition::N, MS);
        world.durations.sparse_ns = 50 * MS;
        let mut sparse = row(9_000, Phase::Sparse, 3 * MS, 7 * MS);
        sparse.t_sched_ns = 3 * MS;
        world.rows[0].push(sparse);
        assert_eq!(world.judge().lone_ns, [4 * MS]);
    }
}
