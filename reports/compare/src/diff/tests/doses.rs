//! Rows of doses below 1: secondary, and planned by some runs of a rotation only.

use super::*;
use crate::session::Dose;

fn dose_key(dose: f64) -> RowKey {
    RowKey { dose: Some(Dose(dose)), ..key(0, Metric::DoseRetention) }
}

/// The sessions with these doses of the first mechanism too.
fn with_doses(mut side: Vec<Session>, doses: &[f64]) -> Vec<Session> {
    for session in &mut side {
        let row = session.rows[&key(0, Metric::Retention)].clone();
        let rows = doses.iter().map(|dose| (dose_key(*dose).into(), row.clone()));
        session.rows.extend(rows);
    }
    side
}

#[test]
fn a_dose_that_one_side_lacks_is_not_planned_and_fails_nothing() {
    let mut rng = ScheduleRng::new(23);
    let world = World { sd: 0.001, ..WORLD };
    let sides = [side("a", world, &mut rng), side("b", world, &mut rng)];
    let whole = compared(&sides[0], &sides[1]);
    let [before, after] = sides;
    let before = with_doses(before, &[0.25, 0.5]);
    let after = with_doses(after, &[0.5, 0.75]);
    let report = compared(&before, &after);
    let found = |dose: f64| {
        let wanted = dose_key(dose);
        report.rows.iter().find(|row| row.key == wanted).unwrap()
    };
    for (dose, reason) in [(0.25, "after: not planned"), (0.75, "before: not planned")] {
        let row = found(dose);
        assert_eq!((row.verdict, row.primary), (Verdict::NotMeasured, false));
        assert_eq!(row.reason.as_deref(), Some(reason));
    }
    assert_eq!(found(0.5).verdict, Verdict::Unchanged);
    assert_eq!(report.counts, whole.counts);
    assert_eq!((report.family, report.exit), (whole.family, whole.exit));
}
