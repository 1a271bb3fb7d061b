//! No record supports two claims that contradict each other, nor refutes what a supported claim
//! implies: on records of hardware, and on planted figures.

use std::collections::{BTreeMap, BTreeSet};

use gpubench_plan::ledger;
use gpubench_record::fault::Harm;
use gpubench_record::{
    Claim, Ends, Estimate, MatrixRow, Outcome, ProbeFigure, Role, RunRecord, SubAxis, TenantLimit,
    Verdict,
};

use super::evaluate;
use super::tests::Error;
use crate::gate::fixture::example;

const DRAWS: u64 = 400;

/// The examples of records of hardware.
const EXAMPLES: [&str; 8] = [
    "h100_580.159.04_matrix",
    "h100_580.159.04_faults-mps",
    "h100_580.159.04_faults-time-slicing",
    "h100_580.159.04_probes",
    "h200_580.159.04_day",
    "h200_580.159.04_faults",
    "h200_580.159.04_jitter",
    "h200_580.159.04_probes",
];

/// The pairs of claims with verdicts that cannot both hold, as text.
fn opposites(claims: &[Claim], run: &RunRecord) -> (BTreeMap<String, Verdict>, Vec<String>) {
    let rows = evaluate(claims, run).into_iter();
    let verdicts: BTreeMap<String, Verdict> = rows.map(|row| (row.id, row.verdict)).collect();
    let supported = claims.iter().filter(|one| verdicts[&one.id] == Verdict::Supported);
    let pairs = supported.flat_map(|one| {
        let has = |other: &&String, verdict| verdicts[*other] == verdict;
        let both = one.contradicts.iter().filter(move |other| has(other, Verdict::Supported));
        let broken = one.implies.iter().filter(move |other| has(other, Verdict::Refuted));
        let both = both.map(|other| format!("{} and {other} are both supported", one.id));
        both.chain(broken.map(|other| format!("{} is supported, {other} refuted", one.id)))
    });
    let found = pairs.collect();
    (verdicts, found)
}

#[test]
fn no_record_of_hardware_gives_opposite_verdicts() -> Result<(), Error> {
    let claims = ledger()?.claims;
    for name in EXAMPLES {
        let (_, found) = opposites(&claims, &example(name)?);
        assert_eq!(found, Vec::<String>::new(), "{name}");
    }
    Ok(())
}

#[test]
fn no_planted_record_gives_opposite_verdicts() -> Result<(), Error> {
    let claims = ledger()?.claims;
    let base = Base::new(&claims)?;
    let mut seen: BTreeSet<String> = BTreeSet::new();
    for seed in 0..DRAWS {
        let run = base.drawn(&mut Draw(seed));
        let (verdicts, found) = opposites(&claims, &run);
        assert_eq!(found, Vec::<String>::new(), "draw {seed}");
        let is_decided = |one: &Verdict| [Verdict::Supported, Verdict::Refuted].contains(one);
        seen.extend(verdicts.into_iter().filter(|(_, one)| is_decided(one)).map(|(id, _)| id));
    }
    // A pair of which one is never decided would hold for no reason.
    for claim in &claims {
        let is_of_pair = !claim.contradicts.is_empty() || !claim.implies.is_empty();
        assert!(!is_of_pair || seen.contains(&claim.id), "{} is never decided", claim.id);
    }
    Ok(())
}

/// The relations are no formality: a claim with another threshold breaks them.
#[test]
fn a_wrong_threshold_is_found() -> Result<(), Error> {
    let run = example("h100_580.159.04_matrix")?;
    for (id, threshold, pair) in [
        ("SELL-MPS", 0.5, "MPS-2a and SELL-MPS are both supported"),
        ("MPS-3b", 0.1, "MPS-3c is supported, MPS-3b refuted"),
    ] {
        let mut claims = ledger()?.claims;
        let wrong = claims.iter_mut().find(|one| one.id == id).ok_or("a claim")?;
        wrong.threshold = Some(threshold);
        let (_, found) = opposites(&claims, &run);
        assert!(found.iter().any(|one| one == pair), "{found:?}");
    }
    Ok(())
}

// Planted records: every mechanism of the ledger with every figure, at random.

/// What the draws have in common.
struct Base {
    run: RunRecord,
    row: MatrixRow,
    tally: gpubench_record::FaultTally,
}

/// A stream of numbers: splitmix64.
struct Draw(u64);

impl Draw {
    /// From 0 to 1.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[((self.next() * all.len() as f64) as usize).min(all.len() - 1)]
    }

    /// An interval up to `most`, often near its end, mostly narrow.
    fn figure(&mut self, most: f64, unit: &str) -> Estimate {
        let value = most * if self.next() < 0.4 { 0.94 + 0.06 * self.next() } else { self.next() };
        let half = most * self.of(&[0.001, 0.004, 0.05]) * self.next();
        let (lo, hi) = (value - half, value + half);
        let unit = unit.to_owned();
        Estimate { value, lo, hi, ends: Ends::Interval, parts: None, n: 59, unit }
    }

    /// A figure without a natural end.
    fn scaled(&mut self, unit: &str) -> Estimate {
        let most = self.of(&[0.1, 1.0, 8.0]);
        self.figure(most, unit)
    }

    /// A share of 59 or 1 trials, often none or all.
    fn share(&mut self) -> Estimate {
        let n = self.of(&[1, 59, 5000]);
        let value = self.of(&[0.0, 0.0, 1.0, 1.0, 0.5]);
        Estimate { value, lo: value, hi: value, n, ..self.figure(1.0, "share") }
    }
}

impl Base {
    fn new(claims: &[Claim]) -> Result<Self, Error> {
        let mut run = example("h100_580.159.04_matrix")?;
        let row = run.matrix.iter().find(|row| row.retention.is_some()).ok_or("a row")?.clone();
        let tallies = example("h100_580.159.04_faults-mps")?.fault_tallies;
        let tally = tallies.into_iter().next().ok_or("a tally")?;
        let mechanism = run.mechanisms.first().ok_or("a mechanism")?.clone();
        let mut names: Vec<String> = claims.iter().flat_map(|one| one.mechanisms.clone()).collect();
        names.sort_unstable();
        names.dedup();
        let of_name = |name: String| gpubench_record::MechanismRow {
            variant: name.clone(),
            name,
            outcome: Outcome::measured(),
            ..mechanism.clone()
        };
        run.mechanisms = names.into_iter().map(of_name).collect();
        Ok(Self { run, row, tally })
    }

    #[expect(clippy::too_many_lines, reason = "one draw after the other, for each figure")]
    fn drawn(&self, draw: &mut Draw) -> RunRecord {
        let mut run = self.run.clone();
        run.plan.profile = draw.of(&["claims", "oversubscription", "batch-training"]).to_owned();
        run.plan.share = draw.of(&[0.4, 0.4, 1.0]);
        run.device.compute_capability = draw.of(&["8.0", "9.0", "10.0"]).to_owned();
        let role = draw.of(&[Role::Aggressor, Role::Aggressor, Role::Peer]);
        for cell in &mut run.plan.cells {
            cell.tenants.iter_mut().skip(1).for_each(|one| one.role = role);
        }
        (run.matrix, run.probe_figures, run.fault_tallies) = (Vec::new(), Vec::new(), Vec::new());
        (run.service, run.tenant_limits) = (Vec::new(), Vec::new());
        let (rows, operators) = (&mut run.matrix, std::mem::take(&mut run.operator));
        for mechanism in &mut run.mechanisms {
            mechanism.variant = match mechanism.name.as_str() {
                "mps-quota" => draw.of(&["mps-quota[pct=50]", "mps-quota[pct=70]"]).to_owned(),
                "mig" => draw.of(&["mig[1g+1g]", "mig[3g+4g]"]).to_owned(),
                name => name.to_owned(),
            };
            let runs = mechanism.name != "mig" && mechanism.name != "mig-mps" || draw.next() < 0.8;
            if !runs {
                mechanism.outcome = Outcome::waived("planted");
                continue;
            }
            let variant = &mechanism.variant;
            for sub_axis in [
                SubAxis::Sm,
                SubAxis::Launch,
                SubAxis::Dram,
                SubAxis::L2,
                SubAxis::Pcie,
                SubAxis::Power,
                SubAxis::Capacity,
                SubAxis::Residue,
                SubAxis::Visibility,
                SubAxis::Cap,
            ] {
                if draw.next() < 0.1 {
                    continue;
                }
                rows.push(MatrixRow {
                    mechanism: mechanism.name.clone(),
                    variant: variant.clone(),
                    axis: sub_axis.axis().as_str().to_owned(),
                    sub_axis: Some(sub_axis.as_str().to_owned()),
                    outcome: Outcome::measured(),
                    level: draw.of(&[Some("L0"), None]).map(str::to_owned),
                    retention: Some(draw.figure(1.0, "ratio")),
                    efficiency: Some(draw.figure(1.0, "ratio")),
                    isolation_index: Some(draw.figure(1.0, "index")),
                    survival: Some(draw.share()),
                    overshoot: Some(draw.figure(0.02, "of the limit")),
                    ..self.row.clone()
                });
                if draw.next() < 0.1 {
                    let last = rows.last_mut().expect("a row");
                    (last.outcome, last.level) = (Outcome::inconclusive("planted doubt"), None);
                }
            }
            rows.push(MatrixRow {
                mechanism: mechanism.name.clone(),
                variant: variant.clone(),
                axis: "jitter".to_owned(),
                sub_axis: None,
                outcome: Outcome::measured(),
                jitter: Some(draw.scaled("native medians")),
                ..self.row.clone()
            });
            let slice_ns = draw.of(&[1.2e8, 2.0e6, 6.0e5]);
            let mut probe = |figure: &str, explains: &str, escaped: Option<bool>, estimate| {
                run.probe_figures.push(ProbeFigure {
                    variant: variant.clone(),
                    figure: figure.to_owned(),
                    explains: Some(explains.to_owned()),
                    verdict: escaped
                        .map(|yes| if yes { "escaped" } else { "contained" }.to_owned()),
                    estimate,
                });
            };
            probe("time slice", "compute/sm", None, draw.figure(slice_ns, "ns"));
            probe("overlap", "compute/sm", None, draw.figure(1.0, "ratio"));
            let escapes = draw.next() < 0.3;
            for route in 0..59 {
                let escaped = Some(escapes && route % 7 == 0);
                probe("route", "memory/cap", escaped, draw.figure(1.0, "ratio"));
                probe("route", "compute/sm", escaped, draw.figure(1.0, "ratio"));
            }
            for class in ["sm", "mmu"] {
                let hit = draw.of(&[Harm::Dead, Harm::Stalled, Harm::Unharmed]);
                let other = draw.of(&[hit, hit, Harm::Unharmed]);
                run.fault_tallies.push(gpubench_record::FaultTally {
                    mechanism: mechanism.name.clone(),
                    variant: variant.clone(),
                    fault: format!("a fault of {class}"),
                    class: class.to_owned(),
                    victims: [(hit, 58), (other, 59)].into(),
                    doubt: None,
                    ..self.tally.clone()
                });
            }
            run.tenant_limits.push(TenantLimit {
                mechanism: mechanism.name.clone(),
                variant: variant.clone(),
                sub_axis: SubAxis::Sm,
                victim: "compute".to_owned(),
                aggressor: "fma-hog".to_owned(),
                outcome: Outcome::measured(),
                tenants: Some(draw.scaled("tenants")),
                tried: vec![1, 2, 4, 8],
                share: 0.99,
            });
            if let Some(row) = operators.first() {
                run.operator.push(gpubench_record::OperatorRow {
                    progress: Vec::new(),
                    mechanism: mechanism.name.clone(),
                    variant: variant.clone(),
                    stp: draw.figure(1.5, "devices"),
                    utilisation: draw.figure(1.0, "of the device"),
                    ..row.clone()
                });
            }
        }
        run
    }
}
