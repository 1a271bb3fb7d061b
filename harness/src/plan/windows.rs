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
    Durations { closed_ns, ..durations }
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
    use gpubench_record::{Cell, Durations, Plan};

    use super::super::plan;
    use super::super::tests::{TestResult, built_in, host};
    use super::{phase_ns, rounded};

    const PERIOD_NS: u64 = 120_000_000;
    /// Every cell of the plan, under so many seeds.
    const SEEDS: u64 = 50;

    /// A plan of the default profile with one mechanism under test, which has a period.
    fn limited() -> Result<Plan, Box<dyn std::error::Error>> {
        let mut host = host(&[0]);
        for capability in &mut host.mechanisms[1..] {
            capability.properties.period_ns = PERIOD_NS;
        }
        Ok(plan(&built_in("default")?, &host, "ptx")?)
    }

    /// The plan under each seed, with the phase of each cell of its limiter.
    fn phases(mut plan: Plan) -> Vec<u64> {
        let mut phases = Vec::new();
        for seed in 1..=SEEDS {
            plan.seed = seed;
            let limited = plan.cells.iter().filter(|cell| cell.variant == "m1");
            phases.extend(limited.map(|cell| phase_ns(&plan, cell)));
        }
        phases
    }

    #[test]
    fn phases_are_even_over_the_period_and_follow_from_the_seed() -> TestResult {
        const PARTS: u64 = 10;
        let plan = limited()?;
        let found = phases(plan.clone());
        assert_eq!(found, phases(plan.clone()));
        let mut counts = [0_u32; PARTS as usize];
        for phase in &found {
            counts[usize::try_from(phase * PARTS / PERIOD_NS)?] += 1;
        }
        let expected = found.len() as f64 / PARTS as f64;
        for count in counts {
            let off = (f64::from(count) - expected).abs();
            assert!(off < 4.0 * expected.sqrt(), "{counts:?}, not {expected}");
        }
        // Cells of one block and equal cells of other blocks differ, and another seed moves all.
        let of = |plan: &Plan, cell: &Cell| phase_ns(plan, cell);
        let cells: Vec<&Cell> = plan.cells.iter().filter(|one| one.variant == "m1").collect();
        let mut one: Vec<u64> = cells.iter().map(|cell| of(&plan, cell)).collect();
        let mut other = plan.clone();
        other.seed += 1;
        assert!(cells.iter().zip(&one).all(|(cell, phase)| of(&other, cell) != *phase));
        one.sort_unstable();
        one.dedup();
        assert_eq!(one.len(), cells.len());
        let mut native = plan.cells.iter().filter(|cell| cell.variant == "exclusive");
        assert!(native.all(|cell| phase_ns(&plan, cell) == 0), "it has no period");
        Ok(())
    }

    /// The share of a window from `start_ns` in which a limiter passes launches, that is open for
    /// the first `open_ns` of each period.
    fn seen(start_ns: u64, window_ns: u64, open_ns: u64) -> f64 {
        let open_until = |ns: u64| ns / PERIOD_NS * open_ns + (ns % PERIOD_NS).min(open_ns);
        let open = open_until(start_ns + window_ns) - open_until(start_ns);
        open as f64 / window_ns as f64
    }

    #[test]
    fn windows_measure_the_duty_of_a_limiter_without_bias() -> TestResult {
        const MS: u64 = 1_000_000;
        let plan = limited()?;
        let planned_ns = plan.durations.closed_ns;
        assert!(planned_ns >= PERIOD_NS);
        let phases = phases(plan);
        for percent in [10, 50, 90] {
            let (duty, open_ns) = (percent as f64 / 100.0, PERIOD_NS / 100 * percent);
            let of = |window_ns: u64| phases.iter().map(move |at| seen(*at, window_ns, open_ns));
            // Whole periods: every window sees it.
            assert!(of(planned_ns).all(|share| (share - duty).abs() < 1e-12));
            // A window that is too short for that sees it on average, and from phase 0 never.
            let short_ns = 200 * MS;
            let count = phases.len() as f64;
            let mean = of(short_ns).sum::<f64>() / count;
            let squares: f64 = of(short_ns).map(|share| (share - mean).powi(2)).sum();
            let error = (squares / count / count).sqrt();
            assert!((mean - duty).abs() < 4.0 * error, "{mean} +- {error}, not {duty}");
            assert!((seen(0, short_ns, open_ns) - duty).abs() > 10.0 * error);
        }
        Ok(())
    }

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
            let full = Durations { warmup_ns: 1, closed_ns: closed_ms * MS, gap_ns: 2, open_ns: 3 };
            let found = rounded(full, period_ms * MS, min_ms * MS);
            let expected = Durations { closed_ns: expected_ms * MS, ..full };
            assert_eq!(found, expected);
        }
    }
}
