//! Verdicts on the records of a real GPU in `reports/examples`, and on figures that a test plants.

use std::collections::BTreeMap;
use std::path::Path;

use gpubench_record::Verdict::{Refuted, Supported, Untested};
use gpubench_record::{ClaimRow, Condition, Outcome, RunRecord, Verdict};
use gpubench_reports::Record;

use super::evaluate;
use crate::figures::latency::{Latency, Quantile, estimate};
use crate::figures::{Cells, Reading};
use crate::plan::ledger;

type Error = Box<dyn std::error::Error>;

/// An id, its verdict, and a part of its evidence.
type Wanted<'a> = (&'a str, Verdict, &'a str);

/// What the records of one H100 say of claims.
const WANTED: [(&str, &[Wanted<'_>]); 4] = [
    (
        "probes",
        &[
            ("TS-1a", Supported, "overlap: 0.000 [0.000, 0.000] ratio, n = 6"),
            ("TS-4", Supported, "capacity probe: 1.000 [0.9"),
            // 0 of 59: a claim of "never" rests on the one-sided bound.
            (
                "TS-6a",
                Supported,
                "visibility probe: 0.000 [0.000, 0.050] reads not kept out, n = 59",
            ),
            ("TS-6b", Supported, "residue probe: 0.000 [0.000, 0.000] pages found"),
            ("TS-8a", Refuted, "time slice: 2.091 [2.091, 2.091] ms, n = 252"),
            ("TS-8b", Supported, "time slice: 2.091"),
            ("TS-9a", Refuted, "kernels of the time-slice trace: "),
            ("MPS-5b", Untested, "no mps, mps-quota, mps-static, mps-memory in the record"),
            ("TS-12", Untested, "no record decides it: needs a reset"),
        ],
    ),
    (
        "faults-time-slicing",
        &[("TS-5", Refuted, "sigkill: 0.000 [0.000, 0.950] of the victims, n = 1")],
    ),
    (
        "faults-mps",
        &[
            ("MPS-4a", Refuted, "assert: 0.000 [0.000, 0.950] of the victims, n = 1"),
            ("MPS-4b", Supported, "trap: 1.000 [0.050, 1.000] of the victims, n = 1"),
        ],
    ),
    (
        "matrix",
        &[
            ("MPS-7a", Supported, "mps dram stream beside dram-copy: 0.160 [0.158, 0.162]"),
            ("MPS-3c", Supported, "0.297 [0.29"),
            ("MIG-2a", Untested, "mig[3g+3g] waived: "),
            ("TS-7d", Untested, "needs the profile batch-training, not "),
            (
                "MIG-5a",
                Untested,
                "no record decides it: needs a victim that demands more than an instance has",
            ),
            (
                "HAMI-1",
                Untested,
                "no overshoot of hami[memory=50,sm=50] in the record; needs matrix",
            ),
        ],
    ),
];

fn example(name: &str) -> Result<RunRecord, Error> {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/examples");
    let path = examples.join(format!("h100_580.159.04_{name}"));
    Ok(Record::open(&path)?.run().clone())
}

fn judged(run: &RunRecord) -> Result<BTreeMap<String, ClaimRow>, Error> {
    let rows = evaluate(&ledger()?.claims, run);
    Ok(rows.into_iter().map(|row| (row.id.clone(), row)).collect())
}

#[test]
fn the_records_of_an_h100_decide_claims_and_name_their_figures() -> Result<(), Error> {
    for (name, claims) in WANTED {
        let rows = judged(&example(name)?)?;
        for (id, verdict, evidence) in claims {
            let row = &rows[*id];
            assert_eq!(row.verdict, *verdict, "{name} {id}: {}", row.evidence);
            assert!(row.evidence.contains(evidence), "{name} {id}: {}", row.evidence);
        }
    }
    Ok(())
}

#[test]
fn a_claim_that_no_record_decides_says_what_it_would_take() -> Result<(), Error> {
    let rows = judged(&example("matrix")?)?;
    let mut none = 0;
    for claim in ledger()?.claims {
        let evidence = &rows[&claim.id].evidence;
        let says = evidence.strip_prefix("no record decides it: needs ");
        assert_eq!(says, claim.needs.as_deref(), "{}: {evidence}", claim.id);
        // One short sentence.
        let is_short = says.is_none_or(|text| text.len() <= 80 && !text.contains(". "));
        assert!(is_short, "{}: {evidence}", claim.id);
        none += usize::from(says.is_some());
    }
    assert_eq!(none, 9);
    Ok(())
}

#[test]
fn a_wide_interval_and_a_doubtful_row_decide_nothing() -> Result<(), Error> {
    let known = example("matrix")?;
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
    let mut run = example("matrix")?;
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
    let mut run = example("faults-mps")?;
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
    // With 59 dead victims of 59 for every fault, each supports the claim of each.
    for tally in &mut run.fault_tallies {
        tally.victims = [(gpubench_record::fault::Harm::Dead, 59)].into();
        tally.doubt = None;
    }
    assert_eq!(judged(&run)?["MPS-4a"].verdict, Verdict::Supported);
    Ok(())
}

#[test]
fn the_ledger_that_counts_is_the_given_one() -> Result<(), Error> {
    let run = example("probes")?;
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
    let punctual = example("matrix")?;
    let late_in = |condition: Condition| -> Result<RunRecord, Error> {
        let mut run = example("matrix")?;
        let cells = run.cells.iter_mut().filter(|one| one.cell.condition == condition);
        for cell in cells {
            let p99_ns = cell.figures.open_latency_p99_ns;
            cell.figures.open_latency_p99_lower_ns = p99_ns.map(|ns| 0.9 * ns);
        }
        Ok(run)
    };
    let beside = late_in(Condition::C)?;
    let [value, lo, hi] = of(&punctual, Latency::P99)?;
    let late = of(&beside, Latency::P99)?;
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
