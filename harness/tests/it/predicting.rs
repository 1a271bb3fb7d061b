//! `simulate`, `pack` and `advise`: the prediction of `simulate --calibrate` against a `matrix`
//! record of the virtual GPU, and the errors for wrong input.

use std::path::PathBuf;

use gpubench_predict::advise::NODES;
use serde_json::Value;

use crate::support::{Error, Lab, TestResult, finish, gpubench};

/// Open loops long enough for a p99, under time-slicing.
const PROFILE: &str = r#"
version = 1
soak = { limit = "0s", keep_warm = "0s", check = "0s" }
summary = "open loops that have a p99, for tests"
decides = false
mechanisms = ["exclusive", "time-slicing"]
axes = ["compute/sm", "bandwidth/dram", "bandwidth/pcie"]
device_time = "4min"
blocks = { min = 6, max = 6 }
cell = { warmup = "50ms", closed = "150ms", gap = "20ms", open = "1.8s" }
cell_min = { warmup = "50ms", closed = "150ms", gap = "20ms", open = "1.8s" }
"#;

/// The victims of those axes.
const VICTIMS: [&str; 3] = ["compute", "stream", "pcie"];
const MAX_MISS_PERCENT: f64 = 15.0;

fn output(lab: &Lab, line: &str) -> Result<String, Error> {
    let run = finish(lab.gpubench(line.split_whitespace()))?;
    Ok(run.ended_with(0)?.stdout)
}

#[test]
fn a_shared_median_is_predicted_within_15_percent_and_every_miss_is_printed() -> TestResult {
    let lab = Lab::on("hopper")?.profile(PROFILE)?;
    finish(lab.matrix("out", &[]))?.ended_with(0)?;
    for victim in VICTIMS {
        let line = format!("simulate --calibrate out --victim {victim}");
        let found: Value = serde_json::from_str(&output(&lab, &format!("{line} --format json"))?)?;
        let rows = found["calibrated"]["comparisons"].as_array();
        let rows = rows.ok_or("no comparisons")?;
        assert!(!rows.is_empty(), "no row of {victim}");
        let table = output(&lab, &line)?;
        for row in rows {
            check(row).map_err(|problem| format!("{victim}: {problem} in {row:#}"))?;
            // The table prints both misses, each with its sign.
            for figure in ["p50", "p99"] {
                let miss = format!("{:+.1}", percent(&row[figure])?);
                assert!(table.contains(&miss), "{miss} is not in {table}");
            }
        }
    }
    Ok(())
}

/// Checks the figures of a row: prediction from the closed loop, measurement in the open loop.
fn check(row: &Value) -> Result<(), String> {
    for figure in ["p50", "p99"] {
        let miss = &row[figure];
        let miss_percent = percent(miss)?;
        let [predicted, measured, lo, hi] =
            ["predicted_ms", "measured_ms", "measured_lo_ms", "measured_hi_ms"]
                .map(|key| miss[key].as_f64().unwrap_or(f64::NAN));
        let expected = 100.0 * (predicted / measured - 1.0);
        if !((miss_percent - expected).abs() < 1e-6 && lo < measured && measured < hi) {
            return Err(format!("the figures of the {figure} are inconsistent"));
        }
        if miss["blocks"].as_u64() != Some(6) {
            return Err(format!("the {figure} was not measured in every block"));
        }
    }
    let miss = percent(&row["p50"])?;
    if miss.abs() > MAX_MISS_PERCENT {
        return Err(format!("the p50 is missed by {miss:.1} %"));
    }
    Ok(())
}

fn percent(miss: &Value) -> Result<f64, String> {
    let percent = miss["miss_percent"].as_f64();
    percent.ok_or_else(|| "no miss_percent".to_owned())
}

#[test]
fn wrong_input_ends_with_two_and_names_what_is_accepted() -> TestResult {
    let pack = "pack --gpu A100-80 --tenant-memory-gb 6 --tenant-compute 0.1";
    for (line, printed) in [
        ("simulate --service-ms nan", "accepted: a number above 0"),
        ("simulate --rng mt", "[possible values: fast, numpy]"),
        ("simulate --format pdf", "[possible values: text, json, csv, svg, html]"),
        ("simulate --confidence 1.5", "above 0 and below 1"),
        ("simulate --bursts 5:0", "arrivals.off_ms is 0"),
        ("simulate --tenants 1 --gpu A30 --mig 1g.10gb", "on A30: 1g.6gb"),
        ("simulate --hostile-tenant 7", "hostile.tenant is 7: accepted is a tenant from 0 to 6"),
        ("simulate --calibrate no/such/folder", "no/such/folder"),
        (
            &format!("{pack} --tenants 0"),
            "'--tenants <N>': accepted: a whole number from 1 to 100000",
        ),
        (
            &format!("{pack} --price-per-hour -2"),
            "'--price-per-hour <MONEY>': accepted: a number of at least 0",
        ),
        (&format!("{pack} --price-per-hour 2 --years 4"), "cannot be used with"),
        ("advise --isolation hard --mig yes --config", "--gpu"),
        ("advise --isolation hard --gpu A30", "--config"),
    ] {
        let stderr = refused(line)?;
        assert!(stderr.contains(printed), "{line}: {stderr}");
    }
    Ok(())
}

#[test]
fn all_missing_flags_are_named_at_once() -> TestResult {
    let pack = ["--gpu", "--tenant-memory-gb", "--tenant-compute"];
    let advise = NODES.map(|node| format!("--{} <", node.flag));
    for (line, flags) in [
        ("pack", &pack[..]),
        ("pack", &["--memory-gb", "--from", "--config"]),
        ("pack --memory-gb 24", &["missing: --tenant-memory-gb; --tenant-compute or --from"]),
        ("pack --memory-gb 24 --purchase 9000", &["--price-per-year", "--years"]),
        ("pack --chargeback", &["--from"]),
        ("advise", &advise.each_ref().map(String::as_str)),
        ("advise --isolation hard", &["--mig <yes|no>"]),
    ] {
        let stderr = refused(line)?;
        for flag in flags {
            assert!(stderr.contains(flag), "{line}: {flag}: {stderr}");
        }
    }
    Ok(())
}

#[test]
fn needs_come_from_flags_and_a_file_and_the_record_answers() -> TestResult {
    let (folder, examples) = (tempfile::tempdir()?, "../reports/examples");
    let h100 = format!("{examples}/h100_580.159.04_matrix");
    let file = folder.path().join("needs.toml");
    std::fs::write(&file, "[needs]\nneed = [\"compute>=L2\"]\ntenants = 2\n")?;
    let file = file.display();
    for (flags, outcomes) in [
        (format!("--needs {file}"), ["meets", "fails"]),
        (format!("--needs {file} --tenants 3"), ["unknown", "fails"]),
        (format!("--needs {file} --need jitter<=0.5"), ["unknown", "fails"]),
        ("--need processes --memory 30GiB".to_owned(), ["unknown", "unknown"]),
        ("--memory 41GiB".to_owned(), ["fails", "fails"]),
    ] {
        let line = format!("choose {h100} --format json {flags}");
        let run = finish(gpubench(line.split_whitespace()))?;
        assert_eq!(run.code, Some(0), "{line}: {}", run.stderr);
        let found: Value = serde_json::from_str(&run.stdout)?;
        let all = found["mechanisms"].as_array().ok_or("mechanisms")?;
        for (variant, outcome) in ["mps-quota[pct=50]", "mps"].iter().zip(outcomes) {
            let one = all.iter().find(|one| one["variant"] == *variant).ok_or("a variant")?;
            assert_eq!(one["outcome"], outcome, "{flags}: {one}");
        }
    }
    // The published tree answers MPS, which the record contradicts.
    let line = format!("choose {h100} --need compute>=L2 --need jitter<=0.5 --accept-unknown");
    let text = finish(gpubench(line.split_whitespace()))?.ended_with(0)?.stdout;
    for part in [
        "use: mps-quota 50% fails no need (unknown and accepted: jitter<=0.5).",
        "jitter_pairs = \"all\"\\n' > jitter.toml && gpubench matrix",
        "the published tree: MPS (",
        "the record contradicts it here: mps fails compute>=L2: compute/sm L0, retention 0.540",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // A layout is named that holds what is needed, with a share that each instance has.
    for (flags, says) in [
        ("--tenants 7", "7 x 1g.10gb would fit this GPU, by printf 'version = 1\\ntenants = 7"),
        ("--tenants 7", "tenants = 7\\nshare = 0.1\\n' > tenants.toml"),
        ("--tenants 7 --memory 10GiB", "7 x 1g.10gb fit this GPU, but leave each tenant 8960 MiB"),
    ] {
        let line = format!("choose {h100} {flags}");
        let text = finish(gpubench(line.split_whitespace()))?.ended_with(0)?.stdout;
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(says), "{line}: {text}");
    }
    // What cannot be configured is answered nevertheless.
    let line = format!("choose {h100} --need jitter>=L3 --config");
    let run = finish(gpubench(line.split_whitespace()))?.ended_with(2)?;
    assert!(run.stderr.contains("no mechanism meets the needs"), "{}", run.stderr);
    assert!(run.stdout.contains("measures it:"), "{}", run.stdout);
    std::fs::write(folder.path().join("needs.toml"), "[needs]\ncolour = 1\n")?;
    for (line, printed) in [
        (format!("choose {h100} --needs {file}"), "unknown field `colour`"),
        (format!("choose {h100} --need dram>=L9"), "no such value (accepted: NAME>=L1"),
        (format!("choose {h100} --memory 10"), "a size with its unit, such as 10GiB"),
        (format!("choose {h100} {examples}/h200_580.159.04_day"), "of different devices"),
        ("choose".to_owned(), "<RECORD>"),
        (format!("advise --from {h100}"), "unexpected argument '--from'"),
    ] {
        let stderr = refused(&line)?;
        assert!(stderr.contains(printed), "{line}: {stderr}");
    }
    Ok(())
}

fn refused(line: &str) -> Result<String, Error> {
    let run = finish(gpubench(line.split_whitespace()))?;
    let stderr = run.stderr;
    assert_eq!(run.code, Some(2), "{line}: {stderr}");
    assert!(run.stdout.is_empty(), "{line}");
    assert!(stderr.starts_with("error: "), "{line}: {stderr}");
    Ok(stderr)
}

// `gpubench claims`: the ledger, and verdicts on a record of a virtual GPU.

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
    let all = json["rows"].as_array().ok_or("rows")?;
    assert!(all.len() > 40);
    for format in ["text", "md", "csv"] {
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

const CLAIMS_PROFILE: &str = r#"
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
    let lab = Lab::on("hopper")?.profile(CLAIMS_PROFILE)?;
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
