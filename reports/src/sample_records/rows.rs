//! Rows of the sample records: mechanisms, matrix, overall levels, fault tallies, claims.

use gpubench_record::tally::Times;
use gpubench_record::{
    Axis, ClaimFigure, ClaimRow, Ends, Estimate, FaultTally, Harm, MatrixRow, MechanismRow,
    OperatorRow, Outcome, OverallRow, Proof, ProofTime, SubAxis, TenantTime, Verdict,
};

pub(super) fn mechanism(
    name: &str,
    variant: &str,
    outcome: Outcome,
    hardware: bool,
) -> MechanismRow {
    let proof = |when, holds| Proof {
        when,
        t_ns: Some(425_000_000),
        check: "compute processes listed by NVML".to_owned(),
        holds,
        evidence: "pids 812, 813 on one device".to_owned(),
        hardware,
        limiter: name == "mig",
    };
    let proof = vec![proof(ProofTime::AtOpen, true), proof(ProofTime::During, true)];
    MechanismRow {
        name: name.to_owned(),
        variant: variant.to_owned(),
        outcome,
        remedy: None,
        proof,
    }
}

pub(super) fn estimate(value: f64, lo: f64, hi: f64, n: u32, unit: &str) -> Option<Estimate> {
    Some(Estimate { value, lo, hi, ends: Ends::Interval, parts: None, n, unit: unit.to_owned() })
}

pub(super) fn empty_row(
    mechanism: &str,
    variant: &str,
    axis: &str,
    sub_axis: Option<&str>,
) -> MatrixRow {
    MatrixRow {
        mechanism: mechanism.to_owned(),
        variant: variant.to_owned(),
        axis: axis.to_owned(),
        sub_axis: sub_axis.map(str::to_owned),
        victim: None,
        aggressor: None,
        outcome: Outcome::measured(),
        warnings: Vec::new(),
        level: None,
        word: None,
        claimed: Vec::new(),
        u_kind: None,
        retention: None,
        guarantee: None,
        efficiency: None,
        effectiveness: None,
        isolation_index: None,
        jitter: None,
        survival: None,
        clock_part: None,
        overshoot: None,
        requests: 0,
        blocks_lost: None,
    }
}

pub(super) fn reference_row() -> MatrixRow {
    MatrixRow {
        word: Some("reference".to_owned()),
        retention: estimate(0.999_8, 0.996_1, 1.003_5, 8, "ratio"),
        requests: 15_980,
        ..empty_row("exclusive", "exclusive", "compute", Some("sm"))
    }
}

pub(super) fn slicing_row(
    axis: &str,
    sub_axis: Option<&str>,
    aggressor: &str,
    retention: f64,
) -> MatrixRow {
    let ratio = |value: f64| estimate(value, value - 0.004_2, value + 0.004_2, 8, "ratio");
    MatrixRow {
        aggressor: Some(aggressor.to_owned()),
        level: Some("L0".to_owned()),
        word: Some("None".to_owned()),
        claimed: vec!["survey-2024: None".to_owned(), "vendor: Partial".to_owned()],
        u_kind: Some("time-slicing".to_owned()),
        retention: ratio(retention),
        guarantee: ratio(retention - 0.012),
        efficiency: ratio(0.976),
        effectiveness: ratio(0.485),
        isolation_index: estimate(0.003, -0.011_2, 0.017_4, 8, "index"),
        requests: 24_112,
        ..empty_row("time-slicing", "time-slicing[slice=default]", axis, sub_axis)
    }
}

pub(super) fn jitter_row() -> MatrixRow {
    MatrixRow {
        aggressor: Some("fma".to_owned()),
        level: Some("L0".to_owned()),
        word: Some("High".to_owned()),
        warnings: vec!["the p99 of one block rests on 371 requests".to_owned()],
        jitter: estimate(2.31, 2.174, 2.451, 7, "native medians"),
        requests: 3_391,
        ..empty_row("time-slicing", "time-slicing[slice=default]", "jitter", None)
    }
}

pub(super) fn mig_row() -> MatrixRow {
    let why = "interval straddles 0.95: L2 or L3, 14 blocks would decide";
    MatrixRow {
        aggressor: Some("stream-copy".to_owned()),
        outcome: Outcome::inconclusive(why),
        level: Some("L2..L3".to_owned()),
        word: Some("Hardware".to_owned()),
        claimed: vec!["vendor: Hardware".to_owned()],
        retention: estimate(0.957, 0.949_96, 0.964, 8, "ratio"),
        guarantee: estimate(0.951, 0.94, 0.962, 6, "ratio"),
        requests: 22_004,
        ..empty_row("mig", "mig[3g+3g]", "bandwidth", Some("dram"))
    }
}

/// The bound of Clopper and Pearson for 59 of 59 trials, with this error in the lower tail.
fn all_of_59(tail: f64) -> f64 {
    tail.powf(1.0 / 59.0)
}

pub(super) fn fault_row() -> MatrixRow {
    MatrixRow {
        aggressor: Some("illegal-address".to_owned()),
        level: Some("L3".to_owned()),
        word: Some("Hardware".to_owned()),
        survival: estimate(1.0, all_of_59(0.025), 1.0, 59, "proportion"),
        ..empty_row("mig", "mig[3g+3g]", "fault", None)
    }
}

/// The trials of five records.
pub(super) fn fault_tally() -> FaultTally {
    FaultTally {
        mechanism: "mig".to_owned(),
        variant: "mig[3g+3g]".to_owned(),
        fault: "illegal-address".to_owned(),
        class: "mmu".to_owned(),
        records: 5,
        trials: 59,
        left_out: 1,
        contained: 59,
        survival: estimate(1.0, all_of_59(0.025), 1.0, 59, "proportion"),
        at_least: Some(all_of_59(0.05)),
        more_for_l2: Some(0),
        more_for_l3: Some(0),
        victims: [(Harm::Unharmed, 59)].into(),
        own_codes: [(700, 59)].into(),
        xids: [(31, 58), (45, 1)].into(),
        detected: Times::of([90_000, 110_000, 1_200_000]),
        next_good: Times::of([800_000, 2_100_000]),
        new_client: Times::of([120_000_000, 124_000_000]),
        recovery_before: [(0, 59)].into(),
        recovery_after: [(0, 59)].into(),
        left_as_found: 59,
        ..FaultTally::default()
    }
}

pub(super) fn overall(
    mechanism: &str,
    variant: &str,
    level: Option<&str>,
    weakest: Option<&str>,
    [axes, unmeasured]: [&[&str]; 2],
) -> OverallRow {
    OverallRow {
        mechanism: mechanism.to_owned(),
        variant: variant.to_owned(),
        level: level.map(str::to_owned),
        weakest_axis: weakest.map(str::to_owned),
        axes: axes.iter().map(|&axis| axis.to_owned()).collect(),
        unmeasured_axes: unmeasured.iter().map(|&axis| axis.to_owned()).collect(),
    }
}

fn ratio(value: f64) -> Estimate {
    Estimate {
        value,
        lo: value - 0.01,
        hi: value + 0.01,
        ends: Ends::Interval,
        parts: None,
        n: 8,
        unit: "ratio".to_owned(),
    }
}

/// A victim that keeps half of its rate beside a neighbour that keeps 0.45 of its own.
pub(super) fn operator_row(variant: &str) -> OperatorRow {
    let time = |tenant: &str, gpu_time_ns, share| TenantTime {
        tenant: tenant.to_owned(),
        workload: "fma".to_owned(),
        gpu_time_ns,
        share,
    };
    OperatorRow {
        mechanism: "time-slicing".to_owned(),
        variant: variant.to_owned(),
        sub_axis: SubAxis::Sm,
        victim: "fma".to_owned(),
        aggressor: "fma".to_owned(),
        tenants: 2,
        antt: ratio(2.111),
        stp: ratio(0.95),
        progress_min: ratio(0.45),
        progress_max: ratio(0.5),
        jain: ratio(0.997),
        utilisation: ratio(0.664),
        gpu_time: vec![
            time("victim", 12_000_000_000, 0.25),
            time("neighbour-1", 36_000_000_000, 0.75),
        ],
    }
}

/// A claim that the record refutes, and one that it does not test.
pub(super) fn claims(variant: &str) -> Vec<ClaimRow> {
    let claim = |id: &str, mechanism: &str, verdict, statement: &str, evidence: &str| ClaimRow {
        id: id.to_owned(),
        verdict,
        evidence: evidence.to_owned(),
        mechanisms: vec![mechanism.to_owned()],
        axis: Some(Axis::Compute),
        statement: statement.to_owned(),
        source: "S0".to_owned(),
        test: String::new(),
        figures: Vec::new(),
    };
    let refuted = ClaimRow {
        test: "retention on sm: at least 0.95".to_owned(),
        figures: vec![ClaimFigure {
            of: format!("{variant} sm fma beside fma"),
            verdict: Verdict::Refuted,
            estimate: Some(ratio(0.497)),
            reason: None,
        }],
        ..claim(
            "SELL-TS",
            "time-slicing",
            Verdict::Refuted,
            "a tenant beside another is as fast as alone",
            "0.497 [0.487, 0.507] ratio, n = 8",
        )
    };
    let untested = claim(
        "MIG-6",
        "mig",
        Verdict::Untested,
        "instances must be idle to change the layout",
        "needs an attempt to destroy a busy instance",
    );
    vec![refuted, untested]
}
