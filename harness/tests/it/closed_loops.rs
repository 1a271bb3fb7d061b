//! Rates of closed loops against what is planted: the periods of a limiter, and an SM clock that
//! the neighbour's power lowers.

use gpubench_plan::phase_ns;
use gpubench_record::{CeilingKind, Condition, MatrixRow, RunRecord, TopUpDecision};
use serde_json::Value;

use crate::support::{Error, Lab, SHORT, TestResult, finish};

/// Six blocks of one resource. The closed loop is no multiple of the limiter's 120 ms.
const PROFILE: &str = r#"
version = 1
soak = { limit = "0s", keep_warm = "0s", check = "0s" }
summary = "closed loops of 200 ms"
decides = false
mechanisms = ["exclusive", "MECHANISM"]
axes = ["compute/sm"]
device_time = "60s"
blocks = { min = 6, max = 6 }
cell = { warmup = "30ms", closed = "200ms", gap = "5ms", open = "20ms" }
cell_min = { warmup = "30ms", closed = "120ms", gap = "5ms", open = "20ms" }
"#;

/// A `hopper` without noise, with these changes, and a profile of this mechanism.
fn lab(changes: &[(&str, &str)], end: &str, mechanism: &str) -> Result<Lab, Error> {
    let quiet = [
        ("request = 0.004", "request = 0.0"),
        ("epoch = 0.003", "epoch = 0.0"),
        ("session = 0.002", "session = 0.0"),
    ];
    let changes = [&quiet, changes].concat();
    let profile = PROFILE.replace("MECHANISM", mechanism);
    Lab::changed("hopper", &changes, end)?.profile(&profile)
}

#[test]
fn every_window_sees_the_same_rate_of_a_limiter() -> TestResult {
    // Launches pass in the first half of each 120 ms.
    let lab = lab(&[], "\n[defects]\nhami_limiter_paced = true\n", "hami")?;
    finish(lab.matrix("out", &[]))?.ended_with(0)?;
    let record = lab.record("out")?;
    assert_eq!(record.plan.durations.closed_ns, 120_000_000);
    let of = |conditions: &[Condition]| {
        let cells = record.cells.iter();
        let cells = cells.filter(|cell| conditions.contains(&cell.cell.condition));
        let rates: Vec<f64> = cells.filter_map(|cell| cell.figures.closed_rate_per_s).collect();
        rates
    };
    let native = of(&[Condition::N]);
    let native = native.iter().sum::<f64>() / native.len() as f64;
    let solo = of(&[Condition::S, Condition::SAgain]);
    assert_eq!(solo.len(), 12);
    // A request that starts at the end of an open half lasts beyond it.
    for rate in solo {
        let share = rate / native;
        assert!((0.495..=0.515).contains(&share), "{share}");
    }
    // Cells of the limiter wait for a random instant of its period.
    let events = std::fs::read_to_string(lab.path("out/events.jsonl"))?;
    let (mut quarters, mut ended_ns) = (Vec::new(), 0);
    for line in events.lines() {
        let event: Value = serde_json::from_str(line)?;
        let span = &event["surroundings"]["span"];
        let ends = [&span["start_ns"], &span["end_ns"]].map(Value::as_u64);
        let [Some(start_ns), Some(end_ns)] = ends else { continue };
        let mut cells = record.plan.cells.iter();
        let cell = cells.find(|cell| event["id"] == cell.id);
        let cell = cell.ok_or("an event of no cell")?;
        let phase_ns = phase_ns(&record.plan, cell);
        let waited_ns = start_ns - ended_ns;
        assert!(waited_ns >= phase_ns, "{}: {waited_ns} of {phase_ns} ns", cell.id);
        if cell.mechanism == "hami" {
            quarters.push(phase_ns / 30_000_000);
        }
        ended_ns = end_ns;
    }
    assert_eq!(quarters.len(), 18);
    for quarter in 0..4 {
        assert!(quarters.contains(&quarter), "{quarters:?}");
    }
    Ok(())
}

fn beside_a_hog(cap_w: &str) -> Result<MatrixRow, Error> {
    let lab = lab(&[("cap_w = 700.0", &format!("cap_w = {cap_w}"))], "", "mps")?;
    finish(lab.matrix("out", &[]))?.ended_with(0)?;
    let rows = lab.record("out")?.matrix;
    let row = rows.into_iter().find(|row| row.mechanism == "mps");
    Ok(row.ok_or("no row")?)
}

#[test]
fn the_part_that_the_clock_took_is_named_in_the_row() -> TestResult {
    let (free, capped) = (beside_a_hog("700.0")?, beside_a_hog("250.0")?);
    let ratio =
        |row: &MatrixRow| Some((row.retention.as_ref()?.value, row.clock_part.as_ref()?.value));
    let (uncapped, none) = ratio(&free).ok_or("figures without a cap")?;
    let (time, clock) = ratio(&capped).ok_or("figures under a cap")?;
    assert_eq!(none, 1.0);
    assert!(time < 0.95 * uncapped && clock < 0.95, "{time} {clock}");
    // In cycles the neighbour takes as much as without the cap.
    assert!((time / clock / uncapped - 1.0).abs() < 0.01, "{time} {clock} {uncapped}");
    let named = |row: &MatrixRow| row.warnings.iter().any(|text| text.starts_with("clock: "));
    assert!(named(&capped) && !named(&free), "{:?}", capped.warnings);
    Ok(())
}

// The rate of an aggressor alone under a mechanism: measured, and a row of comparisons.

const ALONE: &str = r#"
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
    let lab = Lab::on("hopper")?.profile(ALONE)?;
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

// An aggressor is held against what the hardware can do, not against a longer run of itself.

#[test]
fn an_aggressor_far_below_the_ceiling_of_the_hardware_leaves_no_level() -> TestResult {
    let profile = SHORT.replace("compute/sm", "bandwidth/dram");
    let whole = "dram_gb_per_s = 320.0";
    for (rate, is_weak) in [(whole, false), ("dram_gb_per_s = 150.0", true)] {
        let lab = Lab::changed("turing", &[(whole, rate)], "")?.profile(&profile)?;
        let more = ["--mechanism=exclusive,time-slicing"];
        finish(lab.matrix("out", &more))?.ended_with(0)?;
        let record = lab.record("out")?;
        // NVML reports the clock and the width of the machine file in both cases.
        let peak = &record.calibration.peaks["dram-copy"];
        let rated = 2.0 * 5001e6 * 256.0 / 8.0;
        assert_eq!((peak.ceiling, peak.peak_per_s), (CeilingKind::Hardware, rated));
        assert_eq!(peak.alone_per_s < 0.6 * rated, is_weak, "{peak:?}");
        let mut rows = record.matrix.iter();
        let row = rows.find(|row| row.mechanism == "time-slicing").ok_or("no row")?;
        let reason = row.outcome.reason.clone().unwrap_or_default();
        let says = "of its resource's peak (hardware: 3.201e11 bytes per s, memory clock 5001 MHz \
                    x 256 bits x 2), 0.6 are needed";
        assert_eq!(reason.contains(says), is_weak, "{reason}");
        assert_eq!(row.level.is_none(), is_weak, "{row:?}");
        let report = lab.gpubench(["report", "out", "--format", "md", "--full"]);
        let text = finish(report)?.ended_with(0)?.stdout;
        assert!(text.contains("| dram-copy | ") && text.contains(" | hardware | "), "{text}");
    }
    Ok(())
}

// Doses of the aggressor, and the rotation of doses over runs, on the virtual GPU.

/// One mechanism in space; without noise the aggressor takes from the victim in proportion to its
/// dose.
const DOSES: &str = r#"
version = 1
soak = { limit = "0s", keep_warm = "0s", check = "0s" }
decides = false
mechanisms = ["mps"]
axes = ["compute/sm", "bandwidth/dram"]
doses = [0.5, 1.0]
device_time = "60s"
blocks = { min = 6, max = 6 }
cell = { warmup = "10ms", closed = "100ms", gap = "5ms", open = "60ms" }
cell_min = { warmup = "10ms", closed = "100ms", gap = "5ms", open = "60ms" }
"#;

fn run_doses(rotation: &str, more: &[&str]) -> Result<(RunRecord, String), crate::support::Error> {
    let lab = Lab::on("hopper")?.profile(&format!("{DOSES}{rotation}"))?;
    let printed = finish(lab.matrix("out", more))?.ended_with(0)?.text();
    Ok((lab.record("out")?, printed))
}

#[test]
fn retention_falls_with_the_dose_and_the_area_lies_between() -> TestResult {
    let (record, printed) = run_doses("", &[])?;
    assert_eq!(record.dose_curves.len(), 2, "{printed}");
    assert!(printed.contains("Doses: retention"), "{printed}");
    for curve in &record.dose_curves {
        assert!(curve.outcome.is_measured(), "{curve:?}");
        assert_eq!(curve.rises, []);
        let [half, full] = &curve.points[..] else { return Err(format!("{curve:?}").into()) };
        let value = |figure: &Option<gpubench_record::Estimate>| {
            figure.as_ref().map_or(f64::NAN, |figure| figure.value)
        };
        let (at_half, at_full) = (value(&half.retention), value(&full.retention));
        let area = value(&curve.area);
        let trapezoid = (1.0 + 2.0 * at_half + at_full) / 4.0;
        assert!((area - trapezoid).abs() < 0.002, "{area} and {trapezoid}");
        // Half the dose costs about half, within a duty cycle of 10 ms in a window of 100 ms.
        let halved = (1.0 - at_half) / (1.0 - at_full);
        assert!((0.4..0.6).contains(&halved), "{at_half} {at_full}");
        assert!(value(&half.achieved) < 0.6 * value(&full.achieved) + 0.05);
        let row = record.matrix.iter().find(|row| {
            row.aggressor.as_deref() == Some(&curve.aggressor) && row.variant == curve.variant
        });
        let of_row = row.and_then(|row| row.retention.as_ref());
        assert_eq!(of_row, full.retention.as_ref(), "the row is that of dose 1");
    }
    Ok(())
}

#[test]
fn a_run_of_a_rotation_has_the_doses_of_its_pairs_and_says_what_it_leaves_out() -> TestResult {
    let (record, printed) = run_doses("[rotation]\nruns = 2\n", &["--rotation", "3"])?;
    let rotation = record.plan.rotation.as_ref().ok_or("no rotation")?;
    assert_eq!((rotation.run, rotation.runs), (3, 2));
    let [curve] = &record.dose_curves[..] else {
        return Err(format!("{:?}", record.dose_curves).into());
    };
    assert_eq!(curve.victim, "stream");
    let said = "not planned: dose 0.5 of compute beside fma-hog";
    assert!(printed.contains(said), "{printed}");
    Ok(())
}

// The one look at undecided rows, on the virtual GPU.

/// A boundary so near to the retention that 8 blocks do not decide.
const TOP_UP: &str = r#"
version = 1
soak = { limit = "0s", keep_warm = "0s", check = "0s" }
mechanisms = ["mps"]
axes = ["compute/sm"]
device_time = "DEVICE_TIME"
blocks = { min = 8, max = 8, top_up = TOP_UP }
cell = { warmup = "10ms", closed = "60ms", gap = "5ms", open = "60ms" }
cell_min = { warmup = "10ms", closed = "60ms", gap = "5ms", open = "60ms" }
[thresholds]
retention_l1 = BOUNDARY
"#;

fn run_top_up(
    time: &str,
    top_up: &str,
    boundary: &str,
) -> Result<(Lab, RunRecord), crate::support::Error> {
    let profile =
        TOP_UP.replace("DEVICE_TIME", time).replace("TOP_UP", top_up).replace("BOUNDARY", boundary);
    let lab = Lab::on("hopper")?.profile(&profile)?;
    finish(lab.matrix("out", &[]))?.ended_with(0)?;
    let record = lab.record("out")?;
    Ok((lab, record))
}

/// The retention of a run without more blocks, and a boundary inside its interval.
fn near_boundary() -> Result<String, crate::support::Error> {
    let (_, record) = run_top_up("60s", "false", "0.79")?;
    let row = record.matrix.iter().find(|row| row.aggressor.is_some());
    let retention = row.and_then(|row| row.retention.clone()).ok_or("no row")?;
    assert!(retention.hi - retention.value > 2e-4, "{retention:?}");
    Ok(format!("{:.6}", retention.value + 0.8 * (retention.hi - retention.value)))
}

#[test]
fn an_undecided_row_gets_blocks_once_and_one_seed_gives_the_same_bytes() -> TestResult {
    let boundary = near_boundary()?;
    let (_, without) = run_top_up("60s", "false", &boundary)?;
    assert!(without.plan.top_up.is_none());
    assert!(without.cells.iter().all(|cell| cell.cell.block < 8));
    let (lab, record) = run_top_up("60s", "true", &boundary)?;
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
    let (again, _) = run_top_up("60s", "true", &boundary)?;
    for file in ["samples.parquet", "latencies.hlog"] {
        let read = |lab: &Lab| std::fs::read(lab.path("out").join(file));
        assert_eq!(read(&lab)?, read(&again)?, "{file}");
    }

    // 8 blocks of 5 cells of 135 ms take 5.4 s and the aggressor alone 0.3 s: one more block fits
    // into what is left, and the row wants several.
    let (lab, record) = run_top_up("6.48s", "true", &boundary)?;
    let top_up = record.plan.top_up.as_ref().ok_or("no top-up")?;
    assert_eq!(top_up.rows[0].decision, TopUpDecision::TooLong);
    assert!(top_up.rows[0].needs_ns > top_up.left_ns);
    assert!(record.plan.cells.iter().all(|cell| cell.block < 8));
    let report = lab.gpubench(["report", "out", "--full"]);
    let printed = finish(report)?.ended_with(0)?.text();
    assert!(printed.contains("too long"), "{printed}");
    Ok(())
}

/// Boards whose power limit holds the SM clock far below the highest one: the aggressor is held
/// against the clock that it ran at, so the axis has a level, and the screen names power.
#[test]
fn boards_under_their_power_limit_have_levels_and_the_screen_names_power() -> TestResult {
    for machine in ["t4", "l4", "a10"] {
        let lab = Lab::on(machine)?.profile(SHORT)?;
        finish(lab.matrix("out", &["--mechanism=exclusive,mps"]))?.ended_with(0)?;
        let record = lab.record("out")?;
        let peak = &record.calibration.peaks["fma-hog"];
        assert!(peak.source.contains(" MHz under load, of "), "{machine}: {peak:?}");
        let share = peak.alone_per_s / peak.peak_per_s;
        assert!((0.8..1.0).contains(&share), "{machine}: {share}");
        let row = record.matrix.iter().find(|row| row.mechanism == "mps").ok_or("no row")?;
        assert!(row.level.is_some() && row.outcome.is_measured(), "{machine}: {row:?}");
        let clock = row.clock_part.as_ref().ok_or("no clock")?.value;
        assert!(clock < 0.95, "{machine}: {clock}");
        let screen = finish(lab.gpubench(["report", "out"]))?.ended_with(0)?.stdout;
        let screen = screen.split_whitespace().collect::<Vec<_>>().join(" ");
        let says = "Power: the limit of the board lowers the SM clock beside a neighbour";
        assert!(screen.contains(says), "{machine}: {screen}");
        assert!(screen.contains("GUESSED, by no document"), "{machine}: {screen}");
    }
    Ok(())
}

/// Where the tenants are threads of one process, the first that fails does not hide the errors of
/// the others behind the signal that ends the process.
#[test]
fn each_thread_prints_its_own_error_of_a_refused_context() -> TestResult {
    let lab = Lab::changed("hopper", &[], "[defects]\ncontexts_of_one_thread = true\n")?;
    lab.write("short.toml", SHORT)?;
    let done = finish(lab.matrix("out", &["--mechanism=green-context", "--no-faults"]))?;
    let all = format!("{}{}", done.stdout, done.stderr);
    assert!(all.contains("201 (CUDA_ERROR_INVALID_CONTEXT)"), "{all}");
    assert!(all.contains("a green context can be current to only one thread"), "{all}");
    let record = lab.record("out")?;
    let of_green = record.cells.iter().filter(|one| one.cell.mechanism == "green-context");
    let deaths = of_green.flat_map(|one| &one.tenant_results).filter_map(|one| one.death.as_ref());
    let deaths: Vec<&String> = deaths.collect();
    assert!(!deaths.is_empty(), "{all}");
    assert!(deaths.iter().all(|death| death.contains("returned 201")), "{deaths:?}");
    Ok(())
}
