//! Intervals of proportions in records of format 1.0, which were one-sided bounds: of fault
//! trials at both ends, of other counts where every trial came out as promised.

use gpubench_stats::{Confidence, proportion};
use serde_json::{Map, Value, json};

use super::objects;

/// The unit of the proportions of fault trials.
const OF_FAULTS: &str = "proportion";

/// Replaces them by the two-sided intervals of the same counts, and adds the one-sided bound of
/// fault trials.
pub(super) fn upgrade(record: &mut Map<String, Value>) {
    for row in objects(record, "matrix") {
        two_sided(row);
    }
    for tally in objects(record, "fault_tallies") {
        let at_least = two_sided(tally);
        if let Some(at_least) = at_least {
            tally.entry("at_least").or_insert_with(|| json!(at_least));
        }
    }
}

/// Replaces the ends of `survival`; returns the one-sided lower bound.
fn two_sided(of: &mut Map<String, Value>) -> Option<f64> {
    let survival = of.get_mut("survival")?.as_object_mut()?;
    let value = survival.get("value")?.as_f64()?;
    let trials = u32::try_from(survival.get("n")?.as_u64()?).ok()?;
    if survival.get("unit")?.as_str()? != OF_FAULTS && value < 1.0 {
        return None;
    }
    // A proportion of n trials times n is whole up to rounding, and at most n.
    let good = (value * f64::from(trials)).round() as u32;
    let found = proportion::clopper_pearson(good, trials, Confidence::P95).ok()?;
    survival.insert("lo".to_owned(), json!(found.lo));
    survival.insert("hi".to_owned(), json!(found.hi));
    Some(proportion::lower_bound(good, trials, Confidence::P95).ok()?.lo)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::upgrade;

    #[test]
    fn one_sided_bounds_become_two_sided_intervals() {
        let survival = |value: f64, n: u32, unit: &str| {
            let figure = json!({"value": value, "lo": 0.5, "hi": 1.0, "n": n, "unit": unit});
            json!({ "survival": figure })
        };
        let mut record = json!({
            "matrix": [
                survival(40.0 / 59.0, 59, "proportion"),
                survival(1.0, 59, "clean pages"),
                survival(0.5, 59, "clean pages"),
                {"survival": null},
            ],
            "fault_tallies": [survival(1.0, 59, "proportion")],
        });
        upgrade(record.as_object_mut().expect("an object"));
        let end = |path: &str| record.pointer(path).and_then(|end| end.as_f64()).expect("a number");
        let near = |path: &str, expected: f64| {
            assert!((end(path) - expected).abs() < 5e-4, "{path}: {}", end(path));
        };
        // SciPy 1.17.1: binomtest(40, 59).proportion_ci(.95, 'exact').
        near("/matrix/0/survival/lo", 0.544);
        near("/matrix/0/survival/hi", 0.794);
        near("/matrix/1/survival/lo", 0.939);
        // Two-sided already.
        near("/matrix/2/survival/lo", 0.5);
        near("/fault_tallies/0/survival/lo", 0.939);
        near("/fault_tallies/0/at_least", 0.950);
    }
}
