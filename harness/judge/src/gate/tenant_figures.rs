//! Figures of each tenant of a contended cell, for the operator's view: the rate of each aggressor
//! and the GPU time of every tenant.

use gpubench_record::Role;
use gpubench_record::sample::MISSING;

use super::beside::completions_per_s;
use super::catalogue::finite;
use super::spans::Windows;
use super::{CellObservation, Findings};

pub(super) fn measure(observation: &CellObservation<'_>, windows: &Windows, found: &mut Findings) {
    if !observation.cell.condition.has_aggressor() {
        return;
    }
    for tenant in observation.tenants {
        let name = tenant.name();
        // A victim has the rate of the cell. A peer follows a schedule, so its rate is no speed.
        if tenant.role() == Role::Aggressor {
            let rate = completions_per_s(tenant, windows.closed);
            if let Some(rate) = rate.and_then(finite) {
                found.figures.tenant(name).rate_per_s = Some(rate);
            }
        }
        // After a cell without an open loop the neighbours go on until the victim's last request
        // has ended; that time counts for no tenant.
        let of_cell = tenant.rows.iter();
        let of_cell = of_cell.filter(|row| row.t_issue_ns < windows.open.end_ns);
        let measured = of_cell.map(|row| row.gpu_ns);
        let measured: Vec<u64> = measured.filter(|ns| *ns != MISSING).collect();
        if !measured.is_empty() {
            let sum_ns = measured.into_iter().fold(0, u64::saturating_add);
            found.figures.tenant(name).gpu_time_ns = Some(sum_ns as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use gpubench_record::Condition;
    use gpubench_record::sample::MISSING;

    use crate::gate::fixture::{MS, World};

    #[test]
    fn each_tenant_has_its_gpu_time_and_each_neighbour_its_rate() {
        let mut world = World::new(Condition::C, MS);
        let count = world.rows[0].len();
        assert!(count > 10 && world.rows.len() == 2);
        for row in world.rows.iter_mut().flatten() {
            row.gpu_ns = 1_000;
        }
        world.rows[0][0].gpu_ns = MISSING;
        let mut late = world.rows[1][0];
        late.t_issue_ns = world.durations.cell_ns();
        world.rows[1].push(late);
        let (figures, tenants) = (world.judge().figures, &world.cell.tenants);
        let of = |slot: usize| figures.tenants[&tenants[slot].tenant];
        let time = |slot: usize| of(slot).gpu_time_ns;
        assert_eq!(time(0), Some((count - 1) as f64 * 1_000.0));
        assert_eq!(time(1), Some((world.rows[1].len() - 1) as f64 * 1_000.0));
        let rate = |slot: usize| of(slot).rate_per_s;
        assert_eq!(rate(0), None, "the victim has the rate of the cell");
        assert!(rate(1).is_some_and(|rate| (rate - 1e9 / (3.0 * MS as f64)).abs() < 1.0));
    }

    /// A record reads back as it was written.
    #[test]
    fn a_tenant_without_a_figure_has_no_entry() {
        let mut world = World::new(Condition::C, MS);
        world.rows[1].truncate(1);
        world.rows.iter_mut().flatten().for_each(|row| row.gpu_ns = MISSING);
        assert!(world.judge().figures.tenants.is_empty());
    }
}
