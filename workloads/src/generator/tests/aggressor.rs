//! Aggressors, idle tenants, and impossible loads.

use super::*;

#[test]
fn an_aggressor_at_full_dose_keeps_the_device_busy() -> Checked {
    let load = LoadSpec::Aggressor { end_ns: 20 * MS, dose: 1.0, period_ns: 0, depth: 2 };
    let played = play_with(load, vec![], Script::PLAIN, 2)?;
    let rows = &played.rows;
    assert!(rows.windows(2).all(|pair| pair[1].t_done_ns == pair[0].t_done_ns + MS));
    assert!(rows.windows(2).all(|pair| pair[1].t_issue_ns < pair[0].t_done_ns));
    assert!(rows.iter().all(|row| row.t_issue_ns < 20 * MS && row.phase == Phase::Closed));
    assert!(rows.last().is_some_and(|row| row.t_done_ns >= 20 * MS));
    Ok(())
}

#[test]
fn a_duty_cycle_covers_its_fraction_of_the_time() -> Checked {
    for (dose, depth) in [(0.25, 2), (0.5, 2), (0.75, 3), (0.5, 1)] {
        let load = LoadSpec::Aggressor { end_ns: 400 * MS, dose, period_ns: 20 * MS, depth };
        let played = play_with(load, vec![], Script::PLAIN, 4)?;
        // Time with outstanding work: the union of [issue, done), with rows in order.
        let (mut busy_ns, mut until_ns) = (0, 0);
        for row in &played.rows {
            busy_ns += row.t_done_ns - row.t_issue_ns.max(until_ns).min(row.t_done_ns);
            until_ns = row.t_done_ns;
        }
        let covered = busy_ns as f64 / (400 * MS) as f64;
        assert!((covered / dose - 1.0).abs() < 0.03, "dose {dose}: covered {covered}");
    }
    Ok(())
}

#[test]
fn a_dose_of_zero_issues_nothing_and_an_idle_tenant_joins_and_leaves() -> Checked {
    let load = LoadSpec::Aggressor { end_ns: 20 * MS, dose: 0.0, period_ns: MS, depth: 2 };
    assert_eq!(play_with(load, vec![], Script::PLAIN, 2)?.submitted, 0);
    let idle = play_with(LoadSpec::Idle { end_ns: 20 * MS }, vec![], Script::PLAIN, 2)?;
    assert_eq!((idle.submitted, idle.rows.len()), (0, 0));
    Ok(())
}

#[test]
fn impossible_loads_are_refused_before_they_start() {
    let aggressor =
        |dose, period_ns, depth| LoadSpec::Aggressor { end_ns: MS, dose, period_ns, depth };
    for load in [
        victim(0),
        victim(9),
        aggressor(1.0, 0, 0),
        aggressor(1.0, 0, 9),
        aggressor(1.5, MS, 1),
        aggressor(f64::NAN, MS, 1),
        aggressor(0.5, 0, 1),
    ] {
        let text = format!("{load:?}");
        let refused = play_with(load, vec![], Script::PLAIN, 8);
        assert!(refused.is_err(), "{text} was accepted");
    }
}
