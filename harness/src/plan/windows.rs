//! Closed loops against the periods of mechanisms that let a tenant run and then wait.
//!
//! A window that is no multiple of such a period, and always begins in the same part of it,
//! measures a rate that no other window has. Closed loops therefore last whole periods, and each
//! cell begins at a random instant of a period, equal for equal seeds.

use gpubench_record::{Cell, Durations, Plan};

use super::capability::Capability;
use super::seed::derive;

/// The same durations with a closed loop of whole periods of the runnable mechanism with the
/// longest. It is unchanged where that would be shorter than `closed_min_ns`.
pub(super) fn whole_periods(
    durations: Durations,
    runnable: &[&Capability],
    closed_min_ns: u64,
) -> Durations {
    let periods = runnable.iter().map(|one| one.properties.period_ns);
    rounded(durations, periods.max().unwrap_or(0), closed_min_ns)
}

fn rounded(durations: Durations, period_ns: u64, closed_min_ns: u64) -> Durations {
    let closed_ns = match durations.closed_ns.checked_rem(period_ns) {
        Some(rest_ns) => durations.closed_ns - rest_ns,
        None => durations.closed_ns,
    };
    if closed_ns == 0 || closed_ns < closed_min_ns {
        return durations;
    }
    Durations {
        closed_ns,
        ..durations
    }
}

/// The longest period of a planned mechanism; 0 where none has one.
pub(super) fn longest_period_ns(plan: &Plan) -> u64 {
    let periods = plan.mechanisms.iter().map(|one| one.properties.period_ns);
    periods.max().unwrap_or(0)
}

/// Time by which the start of a cell is delayed: a random part of its mechanism's period.
#[must_use]
pub fn phase_ns(plan: &Plan, cell: &Cell) -> u64 {
    let mut mechanisms = plan.mechanisms.iter();
    let own = mechanisms.find(|one| one.variant == cell.variant);
    let period_ns = own.map_or(0, |one| one.properties.period_ns);
    let drawn = derive(plan.seed, &format!("phase {}", cell.id), cell.block);
    drawn.checked_rem(period_ns).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use gpubench_record::Durations;

    use super::rounded;

    #[test]
    fn closed_loops_last_whole_periods_where_they_are_long_enough() {
        const MS: u64 = 1_000_000;
        for (closed_ms, period_ms, min_ms, expected_ms) in [
            (850, 120, 120, 840),
            (840, 120, 120, 840),
            (200, 120, 120, 120),
            (200, 120, 125, 200),
            (25, 120, 25, 25),
            (850, 0, 125, 850),
        ] {
            let full = Durations {
                warmup_ns: 1,
                closed_ns: closed_ms * MS,
                gap_ns: 2,
                open_ns: 3,
            };
            let found = rounded(full, period_ms * MS, min_ms * MS);
            let expected = Durations {
                closed_ns: expected_ms * MS,
                ..full
            };
            assert_eq!(found, expected);
        }
    }
}
