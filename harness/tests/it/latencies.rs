//! Latencies on display come from `latencies.hlog` and agree with the samples.

use std::path::Path;

use gpubench_record::{CellResult, Phase, SampleRow, SampleStatus};
use gpubench_store::Record;
use gpubench_store::latency::PERCENTILES;
use gpubench_store::latency::{CurveOf, LatencyCurve};
use gpubench_store::seal;

use crate::support::{Error, TestResult, finish};

fn gpubench(args: &[&str]) -> Result<String, Error> {
    let done = finish(crate::support::gpubench(args))?;
    Ok(done.ended_with(0)?.stdout)
}

/// The reports of a record in every readable format.
fn reports(dir: &Path) -> Result<Vec<String>, Error> {
    let dir = dir.display().to_string();
    [
        vec!["report", &dir, "--full"],
        vec!["report", &dir, "--format", "md", "--full"],
        vec!["report", &dir, "--format", "html"],
    ]
    .into_iter()
    .map(|args| gpubench(&args))
    .collect()
}

/// Exact latencies of the completed open-loop requests, sorted.
fn exact_ns(rows: &[SampleRow]) -> Vec<u64> {
    let completed = |row: &&SampleRow| (row.phase, row.status) == (Phase::Open, SampleStatus::Ok);
    let rows = rows.iter().filter(completed);
    let mut latencies_ns: Vec<u64> = rows.filter_map(SampleRow::latency_ns).collect();
    latencies_ns.sort_unstable();
    latencies_ns
}

/// Compares the percentiles of a cell's victim and returns how many there are.
fn compare(record: &Record, cell: &CellResult) -> Result<usize, Error> {
    let (id, victim) = (&cell.cell.id, &cell.cell.tenants[0].tenant);
    let exact = exact_ns(&record.samples(id, victim)?);
    let latencies = record.latencies(id, victim)?;
    assert_eq!(latencies.count(), exact.len() as u64, "{id}");
    let requests = exact.len() as u64;
    let Some(curve) = LatencyCurve::new(CurveOf::cell(&cell.cell), &[(requests, latencies)]) else {
        return Ok(0);
    };
    let mut compared = 0;
    for ((permille, name), found) in PERCENTILES.into_iter().zip(curve.percentiles_ns) {
        let Some(found) = found else { continue };
        let rank = usize::try_from((requests * permille).div_ceil(1_000))?;
        let exact = exact[rank - 1];
        let found = found.ns;
        let error_ns = found.abs_diff(exact);
        assert!(error_ns <= exact / 1_000, "{id} {name}: {found}, exactly {exact}");
        compared += 1;
    }
    Ok(compared)
}

#[test]
fn reports_show_the_same_percentiles_without_samples() -> TestResult {
    let dir = tempfile::tempdir()?;
    let out = dir.path().join("out");
    let folder = out.display().to_string();
    gpubench(&[
        "matrix",
        "--device",
        "virtual:turing",
        "--profile",
        "smoke",
        "--mechanism",
        "time-slicing",
        "--out",
        &folder,
    ])?;
    let record = Record::open(&out)?;
    let mut compared = 0;
    for cell in record.run().cells.iter().filter(|cell| cell.outcome.is_measured()) {
        compared += compare(&record, cell)?;
    }
    assert!(compared > 100, "{compared} percentiles");
    let with_both = reports(&out)?;
    for (text, heading) in with_both.iter().zip(["Latency percentiles"; 3]) {
        assert!(text.contains(heading) && text.contains("p99.9"), "{text}");
    }
    let page = std::fs::read_to_string(out.join("report.html"))?;
    assert!(page == with_both[2], "the page of the run is another one");
    let (samples, log) = (out.join("samples.parquet"), out.join("latencies.hlog"));
    let aside = dir.path().join("samples.parquet");
    std::fs::rename(&samples, &aside)?;
    // A listed file that is gone would be named.
    seal(&out)?;
    assert!(reports(&out)? == with_both, "without the samples");
    std::fs::rename(&aside, &samples)?;
    std::fs::remove_file(&log)?;
    seal(&out)?;
    assert!(reports(&out)? == with_both, "from the samples");
    std::fs::remove_file(&samples)?;
    seal(&out)?;
    let without_both = gpubench(&["report", &folder, "--format", "md", "--full"])?;
    assert!(without_both.contains("the record keeps no latencies"), "{without_both}");
    Ok(())
}
