//! Running out of memory: how long the refusal takes, whether the context still works afterwards,
//! and whether the neighbour keeps launching.

use gpubench_record::ExhaustTrial;
use gpubench_stats::{Confidence, proportion};

use super::Out;
use crate::figures::printed;

const EXPLAINS: &str = "memory/capacity";

/// The time of a refusal, and three proportions of the trials.
pub(super) fn figures(out: &mut Out<'_>, trials: &[ExhaustTrial]) {
    let tenants = || trials.iter().filter_map(|trial| trial.tenant);
    let mut codes: Vec<i32> = tenants().filter_map(|tenant| tenant.refused_with).collect();
    let refused = tenants().filter(|tenant| tenant.refused_with.is_some());
    let refusals_ns: Vec<f64> = refused.map(|tenant| tenant.refusal_ns as f64).collect();
    codes.sort_unstable();
    codes.dedup();
    let codes: Vec<String> = codes.iter().map(i32::to_string).collect();
    let refusal = format!("out of memory: refused with {}, after", codes.join(" or "));
    out.median(EXPLAINS, &refusal, "ns", refusals_ns);
    let mut share = |what: &str, good: usize| {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let (good, all) = (count(good), count(trials.len()));
        if let Ok(found) = proportion::clopper_pearson(good, all, Confidence::P95) {
            let figure = format!("out of memory: {what}");
            out.put(EXPLAINS, &figure, printed(found, "of the trials"));
        }
    };
    let serves = tenants().filter(|tenant| tenant.serves_code == 0).count();
    let recovers = tenants().filter(|tenant| tenant.recovers_code == 0).count();
    let unharmed = trials.iter().filter(|t| t.neighbour_served.is_some_and(|n| n > 0));
    share("the context still launches and copies", serves);
    share("memory can be taken again", recovers);
    share("the neighbour goes on launching", unharmed.count());
}

#[cfg(test)]
mod tests {
    use gpubench_record::{ExhaustTrial, Exhausted};

    use super::super::Out;
    use super::figures;

    #[test]
    fn a_dead_tenant_and_a_silent_neighbour_count_as_failures() {
        let well = ExhaustTrial {
            tenant: Some(Exhausted {
                refused_with: Some(2),
                refusal_ns: 500,
                ..Exhausted::default()
            }),
            neighbour_served: Some(9),
        };
        let mut trials = vec![well; 6];
        trials.push(ExhaustTrial::default());
        let mut found = Vec::new();
        let mut out = Out { variant: "v", figures: &mut found };
        figures(&mut out, &trials);
        assert_eq!(found[0].figure, "out of memory: refused with 2, after");
        assert_eq!((found[0].estimate.value, found[0].estimate.n), (500.0, 6));
        assert_eq!(found.len(), 4);
        for one in &found[1..] {
            assert_eq!(one.estimate.value, 6.0 / 7.0, "{one:?}");
            assert!(one.estimate.lo < 0.6 && one.estimate.hi < 1.0, "{one:?}");
        }
    }
}
