//! Verdicts on the records of a real GPU in `reports/examples`, and on figures that a test plants.

use std::collections::BTreeMap;

use gpubench_plan::ledger;
use gpubench_record::claim::{Need, VictimKind};
use gpubench_record::{ClaimRow, Condition, Outcome, Role, RunRecord, Verdict};

use super::evaluate;
use crate::figures::latency::{Latency, Quantile, estimate};
use crate::figures::{Cells, Reading};
use crate::gate::fixture::example;

pub(super) type Error = Box<dyn std::error::Error>;

fn of_h100(what: &str) -> Result<RunRecord, Error> {
    example(&format!("h100_580.159.04_{what}"))
}

fn judged(run: &RunRecord) -> Result<BTreeMap<String, ClaimRow>, Error> {
    let rows = evaluate(&ledger()?.claims, run);
    Ok(rows.into_iter().map(|row| (row.id.clone(), row)).collect())
}

#[test]
fn a_claim_that_no_record_decides_says_what_it_would_take() -> Result<(), Error> {
    let rows = judged(&of_h100("matrix")?)?;
    let mut none = 0;
    for claim in ledger()?.claims {
        let evidence = &rows[&claim.id].evidence;
        let says = evidence.strip_prefix("no record decides it: needs ");
        assert_eq!(says, claim.lacks.as_deref(), "{}: {evidence}", claim.id);
        // One short sentence.
        let is_short = says.is_none_or(|text| text.len() <= 80 && !text.contains(". "));
        assert!(is_short, "{}: {evidence}", claim.id);
        none += usize::from(says.is_some());
    }
    assert_eq!(none, 14);
    Ok(())
}

#[test]
fn a_claim_about_other_tenants_is_untested_and_says_what_tests_it() -> Result<(), Error> {
    let abiding = of_h100("matrix")?;
    let of = |run: &RunRecord, id: &str| -> Result<(Verdict, Vec<Need>, String), Error> {
        let row = judged(run)?.remove(id).ok_or("a claim")?;
        Ok((row.verdict, row.needs, row.evidence))
    };
    let (verdict, needs, evidence) = of(&abiding, "USER-2")?;
    assert_eq!((verdict, &needs[..]), (Verdict::Untested, &[Need::EqualTenants][..]));
    assert!(evidence.contains("run the victim's load: the profile equal"), "{evidence}");
    let mut equal = abiding.clone();
    for cell in &mut equal.plan.cells {
        cell.tenants.iter_mut().skip(1).for_each(|one| one.role = Role::Peer);
    }
    assert_eq!(of(&equal, "USER-2")?.0, Verdict::Refuted);
    assert_eq!(of(&equal, "MPS-7a")?.1, [Need::AbidingVictim]);
    // A share between an even one and the whole device is neither.
    for (share, wanted) in [
        (3.0 / 7.0, Verdict::Supported),
        (0.5, Verdict::Supported),
        (0.6, Verdict::Untested),
        (1.0, Verdict::Untested),
    ] {
        let mut run = abiding.clone();
        run.plan.share = share;
        assert_eq!(of(&run, "MPS-7a")?.0, wanted, "{share}");
    }
    let mut claims = ledger()?.claims;
    claims.retain(|one| one.id == "MPS-7a");
    let select = &mut claims[0].select;
    (select.victim, select.needs) = (Some(VictimKind::Saturating), Vec::new());
    let mut run = abiding.clone();
    run.plan.share = 1.0;
    assert_eq!(evaluate(&claims, &run)[0].verdict, Verdict::Supported);
    let evidence = &evaluate(&claims, &abiding)[0].evidence;
    assert!(evidence.ends_with("a profile with share = 1"), "{evidence}");
    claims[0].select.victim = None;
    claims[0].select.depth = Some(4);
    assert_eq!(evaluate(&claims, &run)[0].needs, [Need::Depth]);
    Ok(())
}

#[test]
fn quotas_are_oversubscribed_where_they_add_up_to_more_than_the_device() -> Result<(), Error> {
    let mut run = of_h100("matrix")?;
    assert_eq!(judged(&run)?["MPS-2b"].needs, [Need::OversubscribedQuotas]);
    let names = run.mechanisms.iter_mut().map(|row| &mut row.variant);
    for variant in names.chain(run.matrix.iter_mut().map(|row| &mut row.variant)) {
        *variant = variant.replace("pct=50", "pct=70");
    }
    assert_eq!(judged(&run)?["MPS-2b"].verdict, Verdict::Refuted);
    Ok(())
}

/// Where a resource was not measured, the worst one is unknown.
#[test]
fn a_claim_about_several_resources_needs_each_of_them() -> Result<(), Error> {
    let known = of_h100("matrix")?;
    let row = &judged(&known)?["MPS-3b"];
    assert_eq!(row.verdict, Verdict::Supported);
    assert!(row.evidence.contains("dram stream beside dram-copy"), "{}", row.evidence);
    let mut run = known;
    run.matrix.retain(|row| row.sub_axis.as_deref() != Some("dram"));
    run.matrix.retain(|row| row.sub_axis.as_deref() != Some("l2"));
    let row = &judged(&run)?["MPS-3b"];
    assert_eq!(row.verdict, Verdict::Inconclusive);
    assert!(row.evidence.contains("dram: the record has no such row"), "{}", row.evidence);
    Ok(())
}

#[test]
fn a_claim_beside_one_aggressor_leaves_out_the_others() -> Result<(), Error> {
    let run = of_h100("matrix")?;
    let mut claims = ledger()?.claims;
    claims.retain(|one| one.id == "MPS-7a");
    claims[0].select.sub_axes = Vec::new();
    assert_eq!(evaluate(&claims, &run)[0].figures.len(), 3);
    claims[0].select.aggressor = Some("l2-stream".to_owned());
    let row = &evaluate(&claims, &run)[0];
    let of: Vec<&str> = row.figures.iter().map(|one| one.of.as_str()).collect();
    assert_eq!(of, ["mps l2 l2 beside l2-stream"]);
    assert!(row.test.contains("beside l2-stream"), "{}", row.test);
    Ok(())
}

#[test]
fn a_wide_interval_and_a_doubtful_row_decide_nothing() -> Result<(), Error> {
    let known = of_h100("matrix")?;
    let is_row = |row: &&mut gpubench_record::MatrixRow| {
        row.variant == "mps" && row.sub_axis.as_deref() == Some("dram")
    };
    assert_eq!(judged(&known)?["MPS-7a"].verdict, Verdict::Supported);
    let mut wide = known.clone();
    let row = wide.matrix.iter_mut().find(is_row).ok_or("a row")?;
    row.retention.as_mut().ok_or("a figure")?.hi = 0.81;
    assert_eq!(judged(&wide)?["MPS-7a"].verdict, Verdict::Inconclusive);
    // Nothing is known of a row in doubt, whatever its interval is.
    let mut doubtful = known.clone();
    let row = doubtful.matrix.iter_mut().find(is_row).ok_or("a row")?;
    (row.outcome, row.level) = (Outcome::inconclusive("planted doubt"), None);
    let found = &judged(&doubtful)?["MPS-7a"];
    assert_eq!(found.verdict, Verdict::Inconclusive);
    assert!(found.evidence.contains("planted doubt"), "{}", found.evidence);
    // Two levels that stay open are no doubt.
    let row = doubtful.matrix.iter_mut().find(is_row).ok_or("a row")?;
    row.level = Some("L0..L1".to_owned());
    assert_eq!(judged(&doubtful)?["MPS-7a"].verdict, Verdict::Supported);
    Ok(())
}

#[test]
fn a_row_without_the_figure_gives_its_reason() -> Result<(), Error> {
    let mut run = of_h100("matrix")?;
    let is_jitter = |row: &&mut gpubench_record::MatrixRow| {
        row.axis == "jitter" && row.mechanism == "time-slicing"
    };
    let row = run.matrix.iter_mut().find(is_jitter).ok_or("a row")?;
    (row.outcome, row.level, row.jitter) = (Outcome::measured(), Some("L0".to_owned()), None);
    row.warnings = vec!["overloaded beside the aggressor".to_owned()];
    let found = &judged(&run)?["TS-2a"];
    assert_eq!(found.verdict, Verdict::Inconclusive);
    assert!(found.evidence.contains("overloaded beside"), "{}", found.evidence);
    Ok(())
}

#[test]
fn a_claim_of_each_figure_is_refuted_by_one_and_any_is_supported_by_one() -> Result<(), Error> {
    let mut run = of_h100("faults-mps")?;
    let rows = judged(&run)?;
    let verdicts = |id: &str, wanted: Verdict| {
        let figures = rows[id].figures.iter();
        figures.filter(|one| one.verdict == wanted).count()
    };
    assert!(verdicts("MPS-4a", Verdict::Refuted) > 0);
    assert!(verdicts("MPS-4a", Verdict::Inconclusive) > 0);
    // Faults of the class `sm` are no rows of the sub-axis `sm`.
    let [retention] = &rows["MPS-2a"].figures[..] else {
        return Err("one row".into());
    };
    assert!(retention.of.ends_with("compute beside fma-hog"), "{}", retention.of);
    // With 72 dead victims of 72 for every fault, each supports the claim of each.
    for tally in &mut run.fault_tallies {
        tally.victims = [(gpubench_record::fault::Harm::Dead, 72)].into();
        tally.doubt = None;
    }
    assert_eq!(judged(&run)?["MPS-4a"].verdict, Verdict::Supported);
    Ok(())
}

#[test]
fn the_ledger_that_counts_is_the_given_one() -> Result<(), Error> {
    let run = of_h100("probes")?;
    let mut claims = ledger()?.claims;
    claims.retain(|claim| claim.id == "TS-8b");
    let [claim] = &mut claims[..] else {
        return Err("one claim".into());
    };
    assert_eq!(evaluate(std::slice::from_ref(claim), &run)[0].verdict, Verdict::Supported);
    claim.threshold = Some(9e6);
    assert_eq!(evaluate(&claims, &run)[0].verdict, Verdict::Refuted);
    Ok(())
}

/// Late requests widen the end that they can have moved, as in comparisons.
#[test]
fn a_latency_has_the_bound_of_late_requests() -> Result<(), Error> {
    let of = |run: &RunRecord, latency| -> Result<[f64; 3], Error> {
        let cells = Cells::index(&run.plan, &run.cells, Reading::Printed)?;
        let mut keys = cells.of(Condition::C);
        let mps = keys.find(|key| key.variant == "mps" && key.pair.victim == "compute");
        let found = estimate(&cells, mps.ok_or("no cells")?, latency).ok_or("no blocks")??;
        Ok([found.value, found.lo, found.hi])
    };
    let punctual = of_h100("matrix")?;
    let late_in = |condition: Condition| -> Result<RunRecord, Error> {
        let mut run = of_h100("matrix")?;
        let cells = run.cells.iter_mut().filter(|one| one.cell.condition == condition);
        for cell in cells {
            let p99_ns = cell.figures.open_latency_p99_ns;
            cell.figures.open_latency_p99_lower_ns = p99_ns.map(|ns| 0.9 * ns);
        }
        Ok(run)
    };
    let beside = late_in(Condition::C)?;
    let [value, lo, hi] = of(&punctual, Latency::Of(Quantile::P99))?;
    let late = of(&beside, Latency::Of(Quantile::P99))?;
    assert!((late[1] - (lo - 0.1 * value)).abs() < 1e-6 * value, "{late:?}");
    assert_eq!((late[0], late[2]), (value, hi));
    for (latency, is_of_tail) in
        [(Latency::OverSolo(Quantile::P99), true), (Latency::OverSolo(Quantile::Median), false)]
    {
        let [value, lo, hi] = of(&punctual, latency)?;
        let factor = if is_of_tail { 0.9 } else { 1.0 };
        let late = of(&beside, latency)?;
        assert!((late[1] / lo - factor).abs() < 1e-9 && late[2] == hi, "{late:?}");
        let late = of(&late_in(Condition::S)?, latency)?;
        assert!((late[2] / hi - 1.0 / factor).abs() < 1e-9 && late[1] == lo, "{late:?}");
        assert_eq!(late[0], value);
    }
    Ok(())
}
