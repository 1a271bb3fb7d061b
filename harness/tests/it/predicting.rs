//! `simulate`, `pack` and `advise` from outside: what `simulate --calibrate` says after `matrix` on
//! the virtual GPU, where the median of a shared victim must come within 15 % and the miss of the
//! p99 be told, and how wrong input ends.

use std::path::Path;
use std::process::Stdio;

use crate::support::{Error, TestResult, binary};
use serde_json::Value;

/// Open loops long enough for a p99, under the one mechanism whose tenants take turns.
const PROFILE: &str = r#"
version = 1
summary = "open loops that have a p99, for tests"
decides = false
mechanisms = ["exclusive", "time-slicing"]
axes = ["compute/sm", "bandwidth/dram", "bandwidth/pcie"]
device_time = "4min"
[blocks]
min = 6
max = 6
[cell]
warmup = "50ms"
closed = "150ms"
gap = "20ms"
open = "1.8s"
[cell_min]
warmup = "50ms"
closed = "150ms"
gap = "20ms"
open = "1.8s"
"#;

/// The victims of those axes.
const VICTIMS: [&str; 3] = ["compute", "stream", "pcie"];
const MOST_MISS_PERCENT: f64 = 15.0;

fn gpubench(dir: &Path, line: &str) -> Result<String, Error> {
    let done = binary()
        .args(line.split_whitespace())
        .current_dir(dir)
        .stdin(Stdio::null())
        .output()?;
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(0), "gpubench {line}: {said}");
    Ok(String::from_utf8(done.stdout)?)
}

#[test]
fn the_shared_median_is_predicted_and_the_miss_of_the_p99_is_told() -> TestResult {
    let dir = tempfile::tempdir()?;
    std::fs::write(dir.path().join("p99.toml"), PROFILE)?;
    gpubench(
        dir.path(),
        "matrix --device virtual --profile p99.toml --out out",
    )?;
    for victim in VICTIMS {
        let line = format!("simulate --calibrate out --victim {victim}");
        let found: Value =
            serde_json::from_str(&gpubench(dir.path(), &format!("{line} --format json"))?)?;
        let rows = found["calibrated"]["comparisons"].as_array();
        let rows = rows.ok_or("no comparisons")?;
        assert!(!rows.is_empty(), "nothing was measured beside {victim}");
        let table = gpubench(dir.path(), &line)?;
        for row in rows {
            check(row).map_err(|problem| format!("{victim}: {problem} in {row:#}"))?;
            // The table says both misses as well, with their signs.
            for figure in ["p50", "p99"] {
                let told = format!("{:+.1}", percent(&row[figure])?);
                assert!(table.contains(&told), "{told} is not in {table}");
            }
        }
    }
    Ok(())
}

/// A row is predicted from the closed loop and measured in the open one, with an interval.
fn check(row: &Value) -> Result<(), String> {
    for figure in ["p50", "p99"] {
        let miss = &row[figure];
        let told = percent(miss)?;
        let [predicted, measured, lo, hi] = [
            "predicted_ms",
            "measured_ms",
            "measured_lo_ms",
            "measured_hi_ms",
        ]
        .map(|key| miss[key].as_f64().unwrap_or(f64::NAN));
        let expected = 100.0 * (predicted / measured - 1.0);
        if !((told - expected).abs() < 1e-6 && lo < measured && measured < hi) {
            return Err(format!("the figures of the {figure} do not fit together"));
        }
        if miss["blocks"].as_u64() != Some(6) {
            return Err(format!("the {figure} was not measured in every block"));
        }
    }
    let miss = percent(&row["p50"])?;
    if miss.abs() > MOST_MISS_PERCENT {
        return Err(format!("the p50 is missed by {miss:.1} %"));
    }
    Ok(())
}

fn percent(miss: &Value) -> Result<f64, String> {
    let told = miss["miss_percent"].as_f64();
    told.ok_or_else(|| "no miss is told".to_owned())
}

#[test]
fn wrong_input_gets_its_one_line_and_status_two() -> TestResult {
    let pack = "pack --gpu A100-80 --tenant-memory-gb 6 --tenant-compute 0.1";
    for (line, told) in [
        ("simulate --tenants x", "tenants is \"x\""),
        ("simulate --rate -1", "rate_per_s is -1"),
        ("simulate --tenants 0", "tenants is 0"),
        ("simulate --service-ms nan", "service_ms is NaN"),
        ("simulate --rng mt", "(known: fast, numpy)"),
        (
            "simulate --format pdf",
            "(known: table, json, csv, svg, html)",
        ),
        ("simulate --confidence 1.5", "confidence is 1.5"),
        (
            "simulate --tenants 1 --gpu A30 --mig 1g.10gb",
            "on A30: 1g.6gb",
        ),
        ("simulate --calibrate no/such/folder", "no/such/folder"),
        (&format!("{pack} --tenants 0"), "count of tenant is 0"),
        (
            &format!("{pack} --tenants 2 --price-per-hour -2"),
            "price.per_hour is -2",
        ),
        (
            &format!("{pack} --gpu Q").replacen("--gpu A100-80 ", "", 1),
            "GPU \"Q\"",
        ),
        ("advise --isolation maybe", "one of single, hard, shared"),
        ("advise --isolation hard --mig yes --config", "--gpu"),
        ("advise", "give --isolation"),
    ] {
        let done = binary()
            .args(line.split_whitespace())
            .stdin(Stdio::null())
            .output()?;
        let said = String::from_utf8(done.stderr)?;
        assert_eq!(done.status.code(), Some(2), "{line}: {said}");
        assert!(done.stdout.is_empty(), "{line}");
        assert_eq!(said.lines().count(), 1, "{line}: {said}");
        assert!(
            said.starts_with("error: ") && said.contains(told),
            "{line}: {said}"
        );
    }
    Ok(())
}
