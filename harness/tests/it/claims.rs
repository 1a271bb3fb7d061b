//! `gpubench claims`: the ledger, and verdicts on records of a real and of a virtual GPU.

use std::path::{Path, PathBuf};

use crate::support::{Error, Lab, TestResult, finish, gpubench};
use serde_json::Value;

fn example(name: &str) -> PathBuf {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/examples");
    examples.join(format!("h100_580.159.04_{name}"))
}

fn claims(records: &[PathBuf], flags: &[&str]) -> Result<String, Error> {
    let mut command = gpubench(["claims"]);
    command.args(flags).args(records);
    Ok(finish(command)?.ended_with(0)?.stdout)
}

fn verdict<'a>(of: &'a Value, id: &str) -> &'a str {
    let rows = of.as_array().map_or(&[][..], Vec::as_slice);
    let row = rows.iter().find(|row| row["id"] == id);
    row.and_then(|row| row["verdict"].as_str()).unwrap_or("absent")
}

#[test]
fn the_ledger_and_its_recipes_are_listed_in_every_format() -> TestResult {
    let json: Value = serde_json::from_str(&claims(&[], &["--format", "json"])?)?;
    let all = json.as_array().ok_or("an array")?;
    assert!(all.len() > 40);
    for format in ["table", "md", "csv"] {
        let ledger = claims(&[], &["--format", format])?;
        let listed = all.iter().filter_map(|one| one["id"].as_str());
        assert!(listed.clone().count() == all.len());
        for id in listed {
            assert!(ledger.contains(id), "{format}: {id}");
        }
        let recipes = claims(&[], &["--recipes", "--format", format])?;
        for text in ["echo get", "DCGM", "true of SMs"] {
            assert!(recipes.contains(text), "{format}: {text} in {recipes}");
        }
    }
    Ok(())
}

/// One host's records together: probes, faults and the matrix of an H100.
#[test]
fn several_records_decide_together() -> TestResult {
    let records = ["matrix", "probes", "faults-time-slicing", "faults-mps"].map(example);
    let json: Value = serde_json::from_str(&claims(&records, &["--format", "json"])?)?;
    for (id, wanted) in [
        ("TS-1a", "supported"),
        ("TS-1b", "supported"),
        ("TS-5", "refuted"),
        ("TS-8a", "refuted"),
        ("MPS-1b", "supported"),
        ("MPS-4a", "refuted"),
        ("MPS-9a", "supported"),
        ("MIG-2a", "untested"),
        ("ECON-2", "untested"),
    ] {
        assert_eq!(verdict(&json["together"], id), wanted, "{id}");
    }
    assert_eq!(json["records"][0]["own_ledger"], false);
    let lines = claims(&records, &["--format", "csv"])?;
    let of_ts_1a = lines.lines().filter(|line| line.contains(",TS-1a,"));
    assert_eq!(of_ts_1a.count(), records.len(), "{lines}");
    let text = claims(&records, &[])?;
    for said in ["compared with the ledger of this version", "untested (9 that"] {
        assert!(text.contains(said), "{text}");
    }
    Ok(())
}

#[test]
fn a_page_of_verdicts_fits_80_columns() -> TestResult {
    let mut command = gpubench(["claims", "reports/examples/h100_580.159.04_matrix"]);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    command.current_dir(root).env("COLUMNS", "80");
    let text = finish(command)?.ended_with(0)?.stdout;
    let wide = text.lines().find(|line| line.chars().count() > 80);
    assert_eq!(wide, None);
    Ok(())
}

const PROFILE: &str = r#"
version = 1
soak = { limit = "0s", keep_warm = "0s", check = "0s" }
decides = false
mechanisms = ["exclusive", "time-slicing", "mps"]
axes = ["compute/sm"]
doses = [0.25, 1.0]
service = "200us"
device_time = "60s"
blocks = { min = 6, max = 6 }
cell = { warmup = "10ms", closed = "100ms", gap = "5ms", open = "500ms" }
cell_min = { warmup = "10ms", closed = "100ms", gap = "5ms", open = "500ms" }
"#;

#[test]
fn a_new_record_has_its_ledger_its_verdicts_and_the_operators_view() -> TestResult {
    let lab = Lab::on("hopper")?.profile(PROFILE)?;
    finish(lab.matrix("out", &[]))?.ended_with(0)?;
    let record = lab.record("out")?;
    assert_eq!(record.plan.claims.len(), record.claims.len());
    assert!(record.claims.len() > 40);
    let json = serde_json::to_value(&record.claims)?;
    // The machine keeps 0.2 / (0.2 + 2) of the victim's rate in time slices, and more under MPS.
    // Open loops at both doses hold a p99, so that the order of percentiles is a figure.
    for (id, wanted) in [
        ("SELL-TS", "refuted"),
        ("TS-1b", "supported"),
        ("MPS-2a", "supported"),
        ("MPS-8", "supported"),
        ("TS-4", "untested"),
    ] {
        assert_eq!(verdict(&json, id), wanted, "{id}: {:#?}", record.claims);
    }
    let view = record.operator.iter();
    let view: Vec<(&str, u32)> = view.map(|row| (row.variant.as_str(), row.tenants)).collect();
    assert_eq!(view, [("time-slicing[slice=default]", 2), ("mps", 2)]);
    for row in &record.operator {
        let shares: f64 = row.gpu_time.iter().map(|one| one.share).sum();
        assert_eq!(row.gpu_time.len(), 2, "{row:?}");
        assert!((shares - 1.0).abs() < 1e-9 && row.stp.value < 2.0, "{row:?}");
    }
    let own = claims(&[lab.path("out")], &["--format", "json"])?;
    let own: Value = serde_json::from_str(&own)?;
    assert_eq!(own["records"][0]["own_ledger"], true);
    assert_eq!(own["records"][0]["claims"], json);
    Ok(())
}
