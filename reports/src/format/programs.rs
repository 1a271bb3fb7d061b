//! The record as JSON: the contract for programs.

use gpubench_record::{Condition, Ends, Estimate, MatrixRow, OutcomeKind, RunRecord, Skip, json};
use gpubench_show::clean;

use super::document::{calibration, notices, title};
use super::figures::one_line;
use super::{Format, RenderError, RenderOptions, Rendered};
use quick_junit::{NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestSuite};
use std::fmt::Write as _;
use std::io::Write;
use std::time::Duration;

pub(super) static JSON: Format = Format {
    name: "json",
    extension: "json",
    summary: "the whole record, for programs; its schema is published and versioned",
    is_for_people: false,
    draws_charts: false,
    render: render_json,
};

fn render_json(record: &RunRecord, _options: &RenderOptions, out: &mut dyn Write) -> Rendered {
    json::check_scored(record).map_err(|reason| RenderError::NotJson { reason })?;
    Ok(json::write(record, out)?)
}

/// The metric of each figure of [`MatrixRow::FIGURES`], with its help text.
const METRICS: [(&str, &str); MatrixRow::FIGURES.len()] = [
    ("retention_ratio", "Rate beside the aggressor over solo rate under the mechanism."),
    ("guarantee_ratio", "Rate beside the aggressor over native rate."),
    ("efficiency_ratio", "Solo rate under the mechanism over native rate."),
    ("effectiveness_ratio", "Unprotected rate over native rate."),
    ("isolation_index", "1 is unaffected by the aggressor, 0 is as unprotected."),
    ("jitter_native_medians", "Spread of single requests that the aggressor adds."),
    ("tail_at_load_native_medians", "Growth of the latency tail at the offered load."),
    ("survival_ratio", "Share of trials or requests with the promised result."),
    ("overshoot_ratio", "Memory beyond the limit over the limit."),
];

pub(super) static OPEN_METRICS: Format = Format {
    name: "openmetrics",
    extension: "prom",
    summary: "gauges of every row with the ends of its interval, for Prometheus",
    is_for_people: false,
    draws_charts: false,
    render: render_open_metrics,
};

fn render_open_metrics(
    record: &RunRecord,
    _options: &RenderOptions,
    out: &mut dyn Write,
) -> Rendered {
    let mut text = Gauges::of(DeviceLabels::of(record));
    of_record(record, &mut text);
    let rows: Vec<(Labels<'_>, &MatrixRow)> =
        record.matrix.iter().map(|row| (labels_of(row), row)).collect();
    for (at, (name, help)) in METRICS.iter().enumerate() {
        for (suffix, what, end) in ENDS {
            let values = rows.iter().filter_map(|(labels, row)| {
                let of = row.figures()[at]?;
                // Of a bound only the upper end is known.
                let known = of.ends != Ends::AtMost || suffix == "_upper";
                known.then(|| (labels.clone(), end([of.lo, of.value, of.hi])))
            });
            text.add(&format!("{name}{suffix}"), &format!("{help}{what}"), values);
        }
    }
    let levels = rows.iter().filter_map(|(labels, row)| {
        let level = row.level.as_deref()?.strip_prefix('L')?;
        Some((labels.clone(), level.parse().ok()?))
    });
    text.add("level", "Level of isolation, 0 none to 3 strong; undecided rows have none.", levels);
    Ok(writeln!(out, "{}# EOF", text.text)?)
}

/// Suffix of a metric, addition to its help, and which of lower end, value and upper end it is.
type End = (&'static str, &'static str, fn([f64; 3]) -> f64);

const ENDS: [End; 3] = [
    ("", "", |[_, value, _]| value),
    ("_lower", " Lower end of its interval.", |[lower, _, _]| lower),
    ("_upper", " Upper end of its interval.", |[_, _, upper]| upper),
];

fn of_record(record: &RunRecord, text: &mut Gauges) {
    let about = vec![
        ("device", record.device.name.as_str()),
        ("device_kind", record.device.kind.as_str()),
        ("driver", &record.device.driver),
        ("profile", &record.profile.name),
        ("scoring", &record.scoring),
    ];
    text.add("record", "What was measured, as labels.", [(about, 1.0)]);
    text.add(
        "measured_timestamp_seconds",
        "When the measurement began, in seconds since 1970.",
        seconds(&record.provenance.started_at).map(|at| (Vec::new(), at)),
    );
    for (name, help, is) in [
        ("complete", "1 if the run did everything it planned.", record.complete),
        ("decides", "1 if the profile's results may be relied upon.", record.plan.decides),
        (
            "virtual",
            "1 for a virtual GPU: predictions of a model, not measurements of NVIDIA hardware.",
            record.device.kind == gpubench_record::DeviceKind::Virtual,
        ),
    ] {
        text.add(name, help, [(Vec::new(), f64::from(u8::from(is)))]);
    }
    text.add(
        "record_problems",
        "Damaged files of the record, and scores that do not follow from its cells.",
        [(Vec::new(), record.problems.len() as f64)],
    );
    text.add(
        "thresholds_changed",
        "Thresholds of levels that the profile set to other values than the built-in ones.",
        [(Vec::new(), record.plan.thresholds.changed().len() as f64)],
    );
    let outcomes = [
        OutcomeKind::Measured,
        OutcomeKind::Waived,
        OutcomeKind::Failed,
        OutcomeKind::Inconclusive,
    ];
    let counts = outcomes.map(|outcome| {
        let rows = record.matrix.iter();
        let count = rows.filter(|row| row.outcome.outcome == outcome).count();
        (vec![("outcome", outcome.as_str())], count as f64)
    });
    text.add("rows", "Rows of the matrix by outcome.", counts);
}

fn labels_of(row: &MatrixRow) -> Labels<'_> {
    let or_empty = Option::unwrap_or_default;
    vec![
        ("mechanism", row.mechanism.as_str()),
        ("variant", &row.variant),
        ("axis", &row.axis),
        ("sub_axis", or_empty(row.sub_axis.as_deref())),
        ("victim", or_empty(row.victim.as_deref())),
        ("aggressor", or_empty(row.aggressor.as_deref())),
    ]
}

/// A time of a record in seconds since 1970, read by the library of JUnit; `None` for no time.
fn seconds(time: &str) -> Option<f64> {
    let mut suite = TestSuite::new(SUITE);
    suite.timestamp = time.parse().ok();
    Some(suite.timestamp?.timestamp() as f64)
}

/// Names and values of labels; empty ones are left out, which means the same.
pub type Labels<'a> = Vec<(&'a str, &'a str)>;

/// The labels of a GPU, by the names that the DCGM exporter has: `on(UUID)` joins their series.
#[derive(Debug, Clone, Default)]
pub struct DeviceLabels {
    pub uuid: String,
    /// Its index; empty in a record that lacks it.
    pub gpu: String,
    /// The node by its label (`--label node=...`), else the name of the host.
    pub hostname: String,
}

impl DeviceLabels {
    pub fn of(record: &RunRecord) -> Self {
        let (of_run, device) = (&record.provenance, &record.device);
        let hostname = of_run.labels.get("node").or_else(|| of_run.host.get("hostname"));
        Self {
            uuid: device.uuid.clone(),
            gpu: device.facts.get("index").cloned().unwrap_or_default(),
            hostname: hostname.cloned().unwrap_or_default(),
        }
    }
}

/// Gauges of one GPU as text for Prometheus.
#[derive(Debug)]
pub struct Gauges {
    device: DeviceLabels,
    pub text: String,
}

impl Gauges {
    pub const fn of(device: DeviceLabels) -> Self {
        Self { device, text: String::new() }
    }

    /// A gauge with its values by labels; none without values.
    pub fn add<'a>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels<'a>, f64)>,
    ) {
        let mut values = values.into_iter().peekable();
        let text = &mut self.text;
        if values.peek().is_some() {
            let _ = writeln!(text, "# HELP gpubench_{name} {help}\n# TYPE gpubench_{name} gauge");
        }
        let DeviceLabels { uuid, gpu, hostname } = &self.device;
        let device = [("UUID", uuid.as_str()), ("gpu", gpu), ("Hostname", hostname)];
        for (labels, value) in values {
            let all = device.into_iter().chain(labels).filter(|(_, value)| !value.is_empty());
            let all = all.map(|(name, value)| {
                let value = clean(value).replace('\\', "\\\\").replace('"', "\\\"");
                format!("{name}=\"{value}\"")
            });
            let all = all.collect::<Vec<_>>().join(",");
            let _ = writeln!(text, "gpubench_{name}{{{all}}} {value}");
        }
    }
}

/// Name of the suite: the same for every record, since CI systems follow a case by suite, class and
/// name.
const SUITE: &str = "gpubench matrix";

pub(super) static JUNIT: Format = Format {
    name: "junit",
    extension: "xml",
    summary: "JUnit XML for CI: one case per row; waived and inconclusive are skipped, not passed",
    is_for_people: false,
    draws_charts: false,
    render: render_junit,
};

fn render_junit(record: &RunRecord, options: &RenderOptions, out: &mut dyn Write) -> Rendered {
    let title = title(record);
    let mut suite = TestSuite::new(SUITE);
    set_times(&mut suite, record);
    suite.add_properties(properties(record));
    suite.add_test_case(record_case(record, options));
    suite.add_test_cases(record.matrix.iter().map(|row| row_case(record, row)));
    suite.add_test_cases(record.plan.skips.iter().map(skip_case));
    let mut report = Report::new(&title);
    report.add_test_suite(suite);
    let text = gpubench_show::junit(&report).map_err(|reason| RenderError::NotJunit { reason })?;
    Ok(out.write_all(text.as_bytes())?)
}

/// When the run began, and how long it took.
fn set_times(suite: &mut TestSuite, record: &RunRecord) {
    let ended_at = record.provenance.ended_at.as_deref();
    suite.timestamp = ended_at.and_then(|text| text.parse().ok());
    let end = suite.timestamp;
    suite.timestamp = record.provenance.started_at.parse().ok();
    let span = end.zip(suite.timestamp);
    suite.time = span.and_then(|(end, start)| (end - start).to_std().ok());
}

/// Device time of the cells of a row beside its aggressor; rows of probes and faults have none.
fn device_time(record: &RunRecord, row: &MatrixRow) -> Option<Duration> {
    let cells = record.cells.iter().map(|one| &one.cell).filter(|cell| {
        cell.variant == row.variant
            && Some(&cell.victim) == row.victim.as_ref()
            && cell.aggressor == row.aggressor
            && cell.condition == Condition::C
    });
    let ns: u64 = cells.map(|cell| record.plan.durations_of(cell).cell_ns()).sum();
    (ns > 0).then(|| Duration::from_nanos(ns))
}

fn case(class: &str, name: &str, status: TestCaseStatus, output: &[String]) -> TestCase {
    let mut case = TestCase::new(clean(name), status);
    case.set_classname(clean(class));
    if !output.is_empty() {
        let lines: Vec<String> = output.iter().map(|line| clean(line)).collect();
        case.set_system_out(lines.join("\n"));
    }
    case
}

fn with_message(mut status: TestCaseStatus, message: &str) -> TestCaseStatus {
    status.set_message(clean(message));
    status
}

/// Whether the record as a whole is complete and carries verdicts.
fn record_case(record: &RunRecord, options: &RenderOptions) -> TestCase {
    let notices = notices(record, options);
    let measured = record.matrix.iter().any(|row| row.outcome.is_measured());
    let complete = record.complete && record.fault_trials_stopped.is_none();
    let first = notices.first().map_or("", String::as_str);
    let problem = record.problems.first();
    let status = match (complete && problem.is_none(), measured && record.plan.decides) {
        (false, _) => {
            let message = problem.map_or(first, String::as_str);
            with_message(TestCaseStatus::non_success(NonSuccessKind::Error), message)
        }
        (true, false) => with_message(TestCaseStatus::skipped(), first),
        (true, true) => TestCaseStatus::success(),
    };
    case("record", "complete and decisive", status, &notices)
}

fn row_case(record: &RunRecord, row: &MatrixRow) -> TestCase {
    let mut name = row.axis.clone();
    if let Some(sub_axis) = &row.sub_axis {
        name = format!("{name}/{sub_axis}");
    }
    if let Some(victim) = &row.victim {
        name = format!("{name} {victim}");
    }
    if let Some(aggressor) = &row.aggressor {
        name = format!("{name} beside {aggressor}");
    }
    let outcome = &row.outcome;
    let message =
        format!("{}: {}", outcome.outcome.as_str(), outcome.reason.as_deref().unwrap_or("-"));
    let status = match outcome.outcome {
        OutcomeKind::Measured => TestCaseStatus::success(),
        OutcomeKind::Failed => {
            with_message(TestCaseStatus::non_success(NonSuccessKind::Failure), &message)
        }
        OutcomeKind::Waived | OutcomeKind::Inconclusive => {
            with_message(TestCaseStatus::skipped(), &message)
        }
    };
    let or_missing = |text: &Option<String>| text.as_deref().unwrap_or("-").to_owned();
    let mut output = vec![
        format!("level {}", or_missing(&row.level)),
        format!("word {}", or_missing(&row.word)),
        format!("requests {}", row.requests),
    ];
    output.extend(row.claimed.iter().map(|claim| format!("claimed {claim}")));
    let figures = MatrixRow::FIGURES.into_iter().zip(row.figures());
    output.extend(figures.filter_map(|(name, e)| Some(figure(&name.replace('_', " "), e?))));
    let warnings = row.warnings.iter();
    output.extend(warnings.map(|warning| format!("warning: {warning}")));
    let mut case = case(&row.variant, &name, status, &output);
    case.time = device_time(record, row);
    case
}

fn figure(name: &str, estimate: &Estimate) -> String {
    format!("{name} {} n={}", one_line(estimate, Some(&estimate.unit)), estimate.n)
}

fn skip_case(skip: &Skip) -> TestCase {
    let remedy =
        skip.remedy.as_ref().map(|remedy| format!(" (remedy: {remedy})")).unwrap_or_default();
    let message = format!("waived: {}{remedy}", skip.reason);
    let axis = skip.axis.as_deref().unwrap_or("every axis");
    let status = with_message(TestCaseStatus::skipped(), &message);
    let mut case = case(&skip.variant, axis, status, &[]);
    case.set_time(Duration::ZERO);
    case
}

fn properties(record: &RunRecord) -> [Property; 6] {
    let kind = record.device.kind.as_str();
    [
        ("device.kind", kind.to_owned()),
        ("device.uuid", record.device.uuid.clone()),
        ("driver", record.device.driver.clone()),
        ("profile", record.profile.name.clone()),
        ("seed", record.seed.to_string()),
        ("calibration", calibration(record)),
    ]
    .map(|(name, value)| Property::new(name, clean(&value)))
}
