//! Verdicts by table: one row for each case.

use super::*;

fn change(value: f64, se: f64) -> Change {
    Change {
        effect: Effect { value, se, df: 6.0, n: 8 },
        bounds: Bounds::default(),
        basis: Basis::Sessions,
        unattributable: None,
        session_sd: Some(se * 2.0_f64.sqrt()),
    }
}

fn judged(change: &Change, worse: f64) -> Judged {
    let rule = Rule { worse, margin: 0.03, family: Confidence::simultaneous(0.05, 25).unwrap() };
    Judged::of(change, rule).unwrap()
}

/// t of 6 degrees of freedom is 5.96 for the family of 25 and 1.943 for the 90 % interval.
#[test]
fn verdicts_follow_from_both_intervals_and_the_margin() {
    use Verdict::{Improved, Inconclusive, Regressed, Unchanged};
    for (value, se, worse, verdict, confirmed) in [
        (-0.10, 0.01, -1.0, Regressed, true),
        (-0.08, 0.01, -1.0, Regressed, false),
        (0.08, 0.01, -1.0, Improved, false),
        (0.08, 0.01, 1.0, Regressed, false),
        (-0.05, 0.01, -1.0, Inconclusive, false),
        // Excludes zero, below the margin, and equivalence is shown.
        (-0.02, 0.001, -1.0, Unchanged, false),
        (0.0, 0.015, -1.0, Unchanged, false),
        (0.0, 0.016, -1.0, Inconclusive, false),
        // Excludes zero, and neither reaches the margin nor lies inside it.
        (-0.029, 0.002, -1.0, Inconclusive, false),
        (-0.03, 0.002, -1.0, Regressed, false),
        (0.0, 0.0, 1.0, Unchanged, false),
    ] {
        let found = judged(&change(value, se), worse);
        assert_eq!(found.verdict, verdict, "{value} {se}: {found:?}");
        assert_eq!(found.confirmed, confirmed, "{value} {se}: {found:?}");
    }
    let real = judged(&change(-0.02, 0.001), -1.0);
    assert_eq!(real.reason.as_deref(), Some("real, and below the margin"));
}

#[test]
fn what_cannot_be_attributed_is_no_regression() {
    let single = Change {
        basis: Basis::Blocks,
        unattributable: Some("one session a side"),
        ..change(-0.5, 0.001)
    };
    let found = judged(&single, -1.0);
    assert_eq!(found.verdict, Verdict::Inconclusive);
    let reason = found.reason.unwrap();
    assert!(reason.starts_with("the sessions differ; not attributable"), "{reason}");
    // Nor is it shown to be unchanged.
    let equal = Change { effect: change(0.0, 0.001).effect, ..single };
    assert_eq!(judged(&equal, -1.0).verdict, Verdict::Inconclusive);
}

#[test]
fn bounds_widen_both_claims() {
    let with = |value, se| Change { bounds: Bounds { down: 0.02, up: 0.0 }, ..change(value, se) };
    assert_eq!(judged(&with(0.08, 0.01), 1.0).verdict, Verdict::Regressed);
    let wider = Change { bounds: Bounds { down: 0.03, up: 0.0 }, ..change(0.08, 0.01) };
    assert_eq!(judged(&wider, 1.0).verdict, Verdict::Inconclusive);
    assert_eq!(judged(&with(-0.012, 0.001), 1.0).verdict, Verdict::Inconclusive);
    let wide = judged(&with(0.0, 0.005), 1.0);
    assert!(wide.detectable > judged(&change(0.0, 0.005), 1.0).detectable);
}

#[test]
fn an_inconclusive_row_says_how_many_sessions_decide() {
    let found = judged(&change(0.05, 0.01), 1.0);
    let needed = found.sessions_needed.unwrap();
    // The sessions' deviation is sqrt(2) * 0.01 over 4 sessions a side.
    assert!((4..=6).contains(&needed), "{needed}");
    let mut exact = change(0.03, 0.01);
    exact.effect.value = 0.03 - 1e-9;
    assert_eq!(judged(&exact, 1.0).sessions_needed, None);
}
