//! Every output prints the same number for the same figure of a record: report, CSV, OpenMetrics,
//! claims, comparison and history read what the one engine makes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gpubench_record::{Ends, Json, MatrixRow, RunRecord};
use serde_json::Value;

use crate::support::{Error, TestResult, finish, gpubench};

/// Published records of real GPUs, and the records of format versions that have cells.
fn records() -> Result<Vec<PathBuf>, Error> {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/examples");
    let entries: Result<Vec<_>, _> = std::fs::read_dir(examples)?.collect();
    let folders = entries?.into_iter().map(|entry| entry.path());
    Ok(folders.filter(|path| path.join("record.json").is_file()).collect())
}

fn printed(arguments: &[&str], record: &Path) -> Result<String, Error> {
    let mut command = gpubench(arguments.iter().copied());
    command.arg(record);
    Ok(finish(command)?.stdout)
}

/// What names a row in every output.
type Name = [String; 5];

fn name(row: &MatrixRow) -> Name {
    let text = |of: &Option<String>| of.clone().unwrap_or_default();
    [
        row.variant.clone(),
        row.axis.clone(),
        text(&row.sub_axis),
        text(&row.victim),
        text(&row.aggressor),
    ]
}

/// Value and ends of each figure of each row, as a program reads them.
type Figures = BTreeMap<(Name, &'static str), [f64; 3]>;

fn of_report(run: &RunRecord) -> Figures {
    let rows = run.matrix.iter().flat_map(|row| {
        let figures = MatrixRow::FIGURES.into_iter().zip(row.figures());
        figures.filter_map(move |(figure, of)| {
            // A bound has no value.
            let of = of.filter(|of| of.ends != Ends::AtMost)?;
            Some(((name(row), figure), [of.value, of.lo, of.hi]))
        })
    });
    rows.collect()
}

fn of_csv(text: &str) -> Result<Figures, Error> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let columns = reader.headers()?.clone();
    let place = |name: &str| columns.iter().position(|one| one == name).ok_or("no such column");
    let mut figures = Figures::new();
    for line in reader.records() {
        let line = line?;
        let text = |name: &str| Ok::<_, Error>(line[place(name)?].to_owned());
        let key = [
            text("variant")?,
            text("axis")?,
            text("sub_axis")?,
            text("victim")?,
            text("aggressor")?,
        ];
        for figure in MatrixRow::FIGURES {
            if !text(figure)?.is_empty() {
                let end =
                    |suffix: &str| Ok::<_, Error>(text(&format!("{figure}{suffix}"))?.parse()?);
                figures.insert((key.clone(), figure), [end("")?, end("_lo")?, end("_hi")?]);
            }
        }
    }
    Ok(figures)
}

/// The value of a gauge with these labels.
fn gauge(
    text: &str,
    metric: &str,
    [variant, axis, sub_axis, victim, aggressor]: &Name,
) -> Option<f64> {
    let labels = [
        ("variant", variant),
        ("axis", axis),
        ("sub_axis", sub_axis),
        ("victim", victim),
        ("aggressor", aggressor),
    ];
    let has = |line: &&str| {
        line.strip_prefix(metric).is_some_and(|rest| rest.starts_with('{'))
            && labels.iter().all(|(label, value)| match value.as_str() {
                "" => !line.contains(&format!(",{label}=\"")),
                value => line.contains(&format!(",{label}=\"{value}\"")),
            })
    };
    text.lines().find(has)?.rsplit(' ').next()?.parse().ok()
}

const GAUGES: [(&str, &str); 4] = [
    ("retention", "gpubench_retention_ratio"),
    ("guarantee", "gpubench_guarantee_ratio"),
    ("efficiency", "gpubench_efficiency_ratio"),
    ("jitter", "gpubench_jitter_native_medians"),
];

#[test]
fn csv_and_openmetrics_have_the_figures_of_the_report() -> TestResult {
    let mut compared = 0;
    for record in records()? {
        let run = RunRecord::from_json(printed(&["report", "--format=json"], &record)?.as_bytes())?;
        let report = of_report(&run);
        assert_eq!(of_csv(&printed(&["report", "--format=csv"], &record)?)?, report, "{record:?}");
        let metrics = printed(&["report", "--format=openmetrics"], &record)?;
        for ((name, figure), [value, ..]) in &report {
            if let Some((_, metric)) = GAUGES.iter().find(|(known, _)| known == figure) {
                assert_eq!(gauge(&metrics, metric, name), Some(*value), "{name:?} {figure}");
                compared += 1;
            }
        }
    }
    assert!(compared > 80, "{compared} figures");
    Ok(())
}

#[test]
fn claims_have_the_figures_of_the_report() -> TestResult {
    let mut compared = 0;
    for record in records()? {
        let run = RunRecord::from_json(printed(&["report", "--format=json"], &record)?.as_bytes())?;
        for claim in &run.claims {
            let quantity = claim.test.split([' ', ',']).next().unwrap_or_default();
            let Some(at) = MatrixRow::FIGURES.iter().position(|figure| *figure == quantity) else {
                continue;
            };
            for figure in claim.figures.iter().filter(|one| !one.of.contains(", over ")) {
                let Some(found) = &figure.estimate else { continue };
                let mut rows = run.matrix.iter().filter_map(|row| row.figures()[at]);
                assert!(rows.any(|own| own == found), "{}: {figure:?}", claim.id);
                compared += 1;
            }
        }
    }
    assert!(compared > 5, "{compared} figures");
    Ok(())
}

/// A comparison of a record with itself shows its figures on both sides, and no change.
#[test]
fn a_comparison_has_the_figures_of_the_report() -> TestResult {
    let mut compared = 0;
    for record in records()? {
        let run = RunRecord::from_json(printed(&["report", "--format=json"], &record)?.as_bytes())?;
        let path = record.display().to_string();
        let diff = printed(&["diff", "--format=json", &path, "--"], &record)?;
        let diff: Value = serde_json::from_str(&diff)?;
        for ((name, figure), [value, ..]) in of_report(&run) {
            let [variant, axis, sub_axis, victim, aggressor] = &name;
            let is_jitter = figure == "jitter";
            let place = if is_jitter { axis.clone() } else { format!("{axis}/{sub_axis}") };
            let mut rows = diff["rows"].as_array().ok_or("no rows")?.iter();
            let row = rows.find(|row| {
                row["metric"] == figure
                    && row["variant"] == **variant
                    && row["axis"] == place
                    && (is_jitter || row["victim"] == **victim)
                    && (figure == "efficiency" || row["aggressor"].as_str() == Some(aggressor))
            });
            // The rows of the reference repeat it, and are no comparison.
            let Some(figures) = row.map(|row| &row["figures"]).filter(|of| of.is_object()) else {
                continue;
            };
            // A bound has no value.
            if row.is_some_and(|row| row["bounds"] == true) {
                continue;
            }
            for side in ["before", "after"] {
                let shown = figures[side].as_f64().ok_or("no figure")?;
                let error = (shown - value).abs() / value.abs().max(1.0);
                assert!(error < 1e-12, "{name:?} {figure}: {shown} in diff, {value} in report");
                compared += 1;
            }
            assert_eq!(figures["change"], 0.0, "{name:?} {figure}");
        }
    }
    assert!(compared > 100, "{compared} figures");
    Ok(())
}

#[test]
fn a_history_has_the_figures_of_the_report() -> TestResult {
    let mut compared = 0;
    for record in records()? {
        let run = RunRecord::from_json(printed(&["report", "--format=json"], &record)?.as_bytes())?;
        // A history keeps an index beside its records.
        let folder = tempfile::tempdir()?;
        let night = folder.path().join("night");
        std::fs::create_dir(&night)?;
        for file in std::fs::read_dir(&record)? {
            let file = file?;
            std::fs::copy(file.path(), night.join(file.file_name()))?;
        }
        let history = printed(&["history", "--format=json"], folder.path())?;
        let history: Value = serde_json::from_str(&history)?;
        for series in history["series"].as_array().ok_or("no series")? {
            let figure = series["metric"].as_str().ok_or("no metric")?;
            let mut rows = run.matrix.iter().filter(|row| {
                series["variant"] == row.variant
                    && series["axis"] == row.axis_path()
                    && (figure == "jitter" || series["victim"].as_str() == row.victim.as_deref())
                    && series["aggressor"].as_str() == row.aggressor.as_deref()
            });
            let own = match figure {
                "retention" => rows.find_map(|row| row.retention.as_ref()),
                "jitter" => rows.find_map(|row| row.jitter.as_ref()),
                _ => continue,
            };
            let night = &series["nights"][0];
            let (Some(own), Some(value), false) =
                (own, night["value"].as_f64(), night["bound"] == true)
            else {
                continue;
            };
            let error = (value - own.value).abs() / own.value.abs().max(1.0);
            assert!(error < 1e-12, "{series}: {value} in history, {own:?} in report");
            compared += 1;
        }
    }
    assert!(compared > 20, "{compared} figures");
    Ok(())
}

// What a pipe gets.

#[test]
fn a_flag_is_stronger_than_no_color() -> TestResult {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/examples");
    let mut report = gpubench(["report", "--color", "always"]);
    report.arg(examples.join("h100_580.159.04_matrix")).env("NO_COLOR", "1");
    let colored = finish(report)?.ended_with(0)?.stdout;
    assert!(colored.contains("\u{1b}[31m"), "{colored}");
    Ok(())
}

#[test]
fn a_refused_command_prints_nothing_on_stdout() -> TestResult {
    let folder = tempfile::tempdir()?;
    let record = "reports/examples/h100_580.159.04_matrix";
    let record = format!("{}/../{record}", env!("CARGO_MANIFEST_DIR"));
    let out = folder.path().join("out").display().to_string();
    for (args, reason) in [
        (vec!["report", &record, "--why", "nvlink"], "unknown mechanism or axis of this record"),
        (vec!["report", &record, "--why", "mps/drm"], "a similar name exists: dram"),
        (vec!["report", "--why", &record], "no record: --why took"),
        (vec!["report", &record, "--why", "mps/colour"], "unknown axis"),
        (vec!["report", &record, "--full", "--format", "csv"], "--format text"),
        (vec!["matrix", "--device", "virtual:none", "--out", &out], "none"),
        (vec!["matrix", "--device", "virtual", "--out", &record], "record"),
    ] {
        let done = finish(gpubench(&args))?;
        assert_eq!(done.stdout, "", "{args:?}");
        assert!(done.stderr.contains(reason), "{args:?}: {}", done.stderr);
    }
    Ok(())
}

#[test]
fn why_takes_the_names_that_screens_print() -> TestResult {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/examples");
    let (matrix, faults) = ("h100_580.159.04_matrix", "h200_580.159.04_faults");
    for (record, place, wanted) in [
        (matrix, "dram", "dram of green-context: none (L0)"),
        (matrix, "DRAM", "dram of mps: none (L0)"),
        (matrix, "dram of mps", "dram of mps: none (L0)"),
        (matrix, "mps/dram", "dram of mps: none (L0)"),
        (matrix, "jitter", "jitter/sm of mps: "),
        (matrix, "overall", "overall of mps: L0"),
        (matrix, "exclusive", "exclusive: the reference"),
        (matrix, "mps/launch", "compute/launch of mps: not run"),
        (matrix, "0000-b00-exclusive-compute-N", "gates passed"),
        (faults, "faults", "faults of mps: "),
        (faults, "faults of mps", "faults of mps: "),
        (faults, "mps/oom", "fault/oom of mps: "),
        (faults, "mps/fault/oom", "fault/oom of mps: "),
        (faults, "fault/oom of mps", "fault/oom of mps: "),
    ] {
        let mut report = gpubench(["report", "--why", place]);
        report.arg(examples.join(record));
        let text = finish(report)?.ended_with(0)?.stdout;
        assert!(text.contains(wanted) && !text.contains("No doubt"), "{place}: {text}");
    }
    Ok(())
}
