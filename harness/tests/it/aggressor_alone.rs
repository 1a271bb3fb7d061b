//! The rate of an aggressor alone under a mechanism: measured, and a row of comparisons.

use gpubench_record::Condition;
use serde_json::Value;

use crate::support::{Lab, TestResult, finish};

const PROFILE: &str = r#"
version = 1
soak = { limit = "0s", keep_warm = "0s", check = "0s" }
mechanisms = ["mps"]
axes = ["bandwidth/dram"]
aggressors = ["dram-copy"]
blocks = { min = 8, max = 8, top_up = false }
cell = { warmup = "10ms", closed = "60ms", gap = "5ms", open = "60ms" }
cell_min = { warmup = "10ms", closed = "60ms", gap = "5ms", open = "60ms" }
"#;

#[test]
fn an_aggressor_runs_alone_under_each_mechanism_and_diff_compares_its_rate() -> TestResult {
    let lab = Lab::on("hopper")?.profile(PROFILE)?;
    finish(lab.matrix("out", &[]))?.ended_with(0)?;
    let record = lab.record("out")?;
    let cells = record.cells.iter().filter(|one| one.cell.victim == "dram-copy");
    let alone: Vec<_> = cells.collect();
    assert_eq!(alone.len(), 4);
    // It does the work that it does beside a victim, and the victims are calibrated without it.
    let native = record.calibration.entries["dram-copy"].native_rate_per_s;
    for one in &alone {
        assert!(one.outcome.is_measured() && one.cell.block < 4, "{:?}", one.outcome);
        assert_eq!((one.cell.condition, one.cell.closed_only), (Condition::S, true));
        let rate = one.figures.closed_rate_per_s.ok_or("no rate")?;
        assert!((rate / native - 1.0).abs() < 0.05, "{rate} alone, {native} by the calibration");
    }
    let basis = record.calibration.basis.as_ref().ok_or("no basis")?;
    assert_eq!(basis.victims, ["stream"]);
    let victims = record.matrix.iter().filter_map(|row| row.victim.as_deref());
    assert!(victims.into_iter().all(|victim| victim == "stream"));

    let diff = finish(lab.gpubench(["diff", "--format=json", "out", "--", "out"]))?.stdout;
    let diff: Value = serde_json::from_str(&diff)?;
    let rows = diff["rows"].as_array().ok_or("no rows")?;
    let own: Vec<_> = rows.iter().filter(|row| row["metric"] == "aggressor-rate").collect();
    assert_eq!(own.len(), 1, "{own:?}");
    assert_eq!((&own[0]["variant"], &own[0]["victim"]), (&"mps".into(), &"dram-copy".into()));
    assert_eq!((&own[0]["blocks"], &own[0]["primary"]), (&vec![4, 4].into(), &false.into()));
    Ok(())
}
