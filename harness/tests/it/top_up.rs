//! The one look at undecided rows, on the virtual GPU.

use crate::support::{Lab, TestResult, finish};
use gpubench_record::{RunRecord, TopUpDecision};

/// A boundary so near to the retention that 8 blocks do not decide.
const PROFILE: &str = r#"
version = 1
soak = { limit = "0s", keep_warm = "0s", check = "0s" }
mechanisms = ["mps"]
axes = ["compute/sm"]
device_time = "DEVICE_TIME"
blocks = { min = 8, max = 8, top_up = TOP_UP }
cell = { warmup = "10ms", closed = "60ms", gap = "5ms", open = "60ms" }
cell_min = { warmup = "10ms", closed = "60ms", gap = "5ms", open = "60ms" }
[thresholds]
retention_l2 = BOUNDARY
"#;

fn run(
    time: &str,
    top_up: &str,
    boundary: &str,
) -> Result<(Lab, RunRecord), crate::support::Error> {
    let profile = PROFILE
        .replace("DEVICE_TIME", time)
        .replace("TOP_UP", top_up)
        .replace("BOUNDARY", boundary);
    let lab = Lab::on("hopper")?.profile(&profile)?;
    finish(lab.matrix("out", &[]))?.ended_with(0)?;
    let record = lab.record("out")?;
    Ok((lab, record))
}

/// The retention of a run without more blocks, and a boundary inside its interval.
fn near_boundary() -> Result<String, crate::support::Error> {
    let (_, record) = run("60s", "false", "0.8")?;
    let row = record.matrix.iter().find(|row| row.aggressor.is_some());
    let retention = row.and_then(|row| row.retention.clone()).ok_or("no row")?;
    assert!(retention.hi - retention.value > 2e-4, "{retention:?}");
    Ok(format!("{:.6}", retention.value + 0.8 * (retention.hi - retention.value)))
}

#[test]
fn an_undecided_row_gets_blocks_once_and_one_seed_gives_the_same_bytes() -> TestResult {
    let boundary = near_boundary()?;
    let (_, without) = run("60s", "false", &boundary)?;
    assert!(without.plan.top_up.is_none());
    assert!(without.cells.iter().all(|cell| cell.cell.block < 8));
    let (lab, record) = run("60s", "true", &boundary)?;
    let top_up = record.plan.top_up.as_ref().ok_or("no top-up")?;
    assert_eq!(top_up.rows.len(), 1, "{top_up:?}");
    let row = &top_up.rows[0];
    assert_eq!((row.decision, row.blocks), (TopUpDecision::Planned, 8));
    assert!(row.wanted > 8);
    let n = |record: &RunRecord| {
        let row = record.matrix.iter().find(|row| row.aggressor.is_some());
        row.and_then(|row| Some(row.retention.as_ref()?.n))
    };
    assert_eq!((n(&without), n(&record)), (Some(8), Some(row.wanted)));
    assert_eq!(record.cells.len(), record.plan.cells.len());
    // The planned blocks are those of the run without a top-up.
    let planned = record.cells.len() - without.cells.len();
    let more = record.plan.cells.iter().filter(|cell| cell.block >= 8);
    assert_eq!(more.count(), planned);
    let (again, _) = run("60s", "true", &boundary)?;
    for file in ["samples.parquet", "latencies.hlog"] {
        let read = |lab: &Lab| std::fs::read(lab.path("out").join(file));
        assert_eq!(read(&lab)?, read(&again)?, "{file}");
    }
    Ok(())
}

#[test]
fn a_row_that_does_not_fit_is_listed_with_its_blocks() -> TestResult {
    let boundary = near_boundary()?;
    // 8 blocks of 5 cells of 135 ms take 5.4 s and the aggressor alone 0.3 s: one more block fits
    // into what is left, and the row wants several.
    let (lab, record) = run("6.48s", "true", &boundary)?;
    let top_up = record.plan.top_up.as_ref().ok_or("no top-up")?;
    assert_eq!(top_up.rows[0].decision, TopUpDecision::TooLong);
    assert!(top_up.rows[0].needs_ns > top_up.left_ns);
    assert!(record.plan.cells.iter().all(|cell| cell.block < 8));
    let printed =
        finish(lab.gpubench(["report", &lab.arg("out"), "--full"]))?.ended_with(0)?.text();
    assert!(printed.contains("too long"), "{printed}");
    Ok(())
}
