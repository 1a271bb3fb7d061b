//! Accuracy: the harness measures the values that a machine file plants.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::{Error, TestResult, record, run_matrix, whole};
use gpubench_record::{MatrixRow, OutcomeKind, RunRecord};

const PROFILE: &str = r#"
version = 1
soak = { limit = "0s", keep_warm = "0s", check = "0s" }
summary = "eight short blocks, for many seeds"
decides = false
mechanisms = ["exclusive", "time-slicing"]
axes = ["compute/sm"]
device_time = "20s"
blocks = { min = 8, max = 8 }
cell = { warmup = "10ms", closed = "40ms", gap = "5ms", open = "40ms" }
cell_min = { warmup = "10ms", closed = "40ms", gap = "5ms", open = "40ms" }
"#;

const TURING: &str = gpubench_profiles::TURING;

fn machine(noise: [f64; 3], slice_us: u64, gap_us: u64) -> Result<String, Error> {
    let mut machine: toml::Table = TURING.parse()?;
    let mut set = |table: &str, key: &str, value: toml::Value| {
        if let Some(table) = machine.get_mut(table).and_then(toml::Value::as_table_mut) {
            table.insert(key.to_owned(), value);
        }
    };
    for (key, sd) in ["request", "epoch", "session"].into_iter().zip(noise) {
        set("noise", key, sd.into());
    }
    // Each noise epoch is shorter than a cell. One that spans two blocks would correlate them, and
    // an interval over blocks assumes that they are independent.
    set("noise", "epoch_ms", 50.into());
    set("scheduler", "slice_us", i64::try_from(slice_us)?.into());
    set("scheduler", "switch_gap_us", i64::try_from(gap_us)?.into());
    Ok(machine.to_string())
}

fn measure(
    dir: &Path,
    name: &str,
    machine: &str,
    seed: u64,
    calibration: Option<&Path>,
) -> Result<RunRecord, Error> {
    let seed = seed.to_string();
    let calibration = calibration.map(|path| path.display().to_string());
    let mut more = vec!["--seed", &seed];
    if let Some(path) = &calibration {
        more.extend(["--calibration", path.as_str()]);
    }
    run_matrix(dir, name, machine, PROFILE, &more)?.ended_with(0)?;
    let out = dir.join(name);
    let record = record(&out)?;
    std::fs::remove_dir_all(&out)?;
    Ok(record)
}

fn row<'a>(record: &'a RunRecord, mechanism: &str) -> Result<&'a MatrixRow, Error> {
    let found = record
        .matrix
        .iter()
        .find(|row| row.mechanism == mechanism && row.sub_axis.as_deref() == Some("sm"));
    found.ok_or_else(|| format!("no row for {mechanism}").into())
}

/// Retention of a closed loop at depth 1 under time slices of `slice_ms` with a gap, beside one
/// neighbour that always has work. The victim's request runs, the engine serves the neighbour for
/// one time slice and returns. The host's time passes while the neighbour runs.
fn planted(period_ms: f64, gpu_ms: f64, slice_ms: f64, gap_ms: f64) -> f64 {
    period_ms / (gpu_ms + slice_ms + 2.0 * gap_ms)
}

#[test]
fn without_noise_the_planted_slice_and_gap_are_measured() -> TestResult {
    let dir = tempfile::tempdir()?;
    for (slice_us, gap_us) in [(2000, 50), (1500, 200), (2500, 0)] {
        let machine = machine([0.0; 3], slice_us, gap_us)?;
        let record = measure(dir.path(), &format!("m{slice_us}"), &machine, 1, None)?;
        let row = row(&record, "time-slicing")?;
        let retention = row.retention.as_ref().ok_or("no retention")?;
        let solo = record
            .cells
            .iter()
            .find(|cell| cell.cell.condition.as_str() == "S")
            .ok_or("no solo cell")?;
        let period_ms = 1e3 / solo.figures.closed_rate_per_s.unwrap();
        let gpu_ms = solo.figures.gpu_p50_ns.unwrap() / 1e6;
        let expected = planted(period_ms, gpu_ms, slice_us as f64 / 1e3, gap_us as f64 / 1e3);
        assert!(
            (retention.value / expected - 1.0).abs() < 0.01,
            "slice {slice_us} us, gap {gap_us} us: {} is not {expected}",
            retention.value
        );
        assert_eq!(row.word.as_deref(), Some("None"));
    }
    Ok(())
}

#[test]
fn a_machine_without_contention_gives_retention_one() -> TestResult {
    let dir = tempfile::tempdir()?;
    let machine =
        machine([0.004, 0.003, 0.002], 2000, 50)?.replace("isolated = false", "isolated = true");
    assert!(machine.contains("isolated = true"));
    let record = measure(dir.path(), "isolated", &machine, 3, None)?;
    let row = row(&record, "time-slicing")?;
    let retention = row.retention.as_ref().ok_or("no retention")?;
    // Twice the interval holds the value in 99.8 % of runs.
    let half = (retention.hi - retention.lo) / 2.0;
    assert!((retention.value - 1.0).abs() <= 2.0 * half && retention.lo > 0.99, "{retention:?}");
    // An ineffective aggressor is no evidence of isolation: the row must not have the best level.
    assert_ne!(row.level.as_deref(), Some("L3"), "{row:?}");
    Ok(())
}

#[test]
fn the_planted_value_lies_in_the_interval_as_often_as_the_interval_says() -> TestResult {
    let (seeds, bounds) = if whole() { (200, 0.90..=0.99) } else { (50, 0.86..=1.0) };
    let dir = tempfile::tempdir()?;
    let quiet = measure(dir.path(), "quiet", &machine([0.0; 3], 2000, 50)?, 1, None)?;
    let planted = row(&quiet, "time-slicing")?.retention.as_ref().ok_or("no retention")?.value;
    let calibration = dir.path().join("calibration.json");
    std::fs::write(&calibration, serde_json::to_string(&quiet.calibration)?)?;
    // No noise between sessions: an interval from one session does not cover others.
    let noisy = machine([0.004, 0.003, 0.0], 2000, 50)?;
    let (next, inside) = (AtomicU64::new(0), AtomicU64::new(0));
    let work = || -> TestResult {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds {
                return Ok(());
            }
            let name = format!("seed{seed}");
            let record = measure(dir.path(), &name, &noisy, seed, Some(&calibration))?;
            let row = row(&record, "time-slicing")?;
            assert_eq!(row.outcome.outcome, OutcomeKind::Measured, "seed {seed}: {row:?}");
            let retention = row.retention.as_ref().ok_or("no retention")?;
            assert!(retention.hi > retention.lo, "noise must widen the interval");
            if (retention.lo..=retention.hi).contains(&planted) {
                inside.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        let joined = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err("a worker panicked".into())));
        joined.collect::<Result<Vec<()>, Error>>()
    })?;
    let inside = inside.load(Ordering::Relaxed);
    let share = inside as f64 / seeds as f64;
    // Counts beyond have a probability below 0.2 % where 95 % of intervals hold the value.
    assert!(bounds.contains(&share), "{inside} of {seeds} intervals hold {planted}");
    Ok(())
}
