//! The matrix as OpenMetrics text, for a node exporter's text file collector or a push gateway.
//!
//! Every figure is a gauge with the ends of its interval beside it. A missing figure has no line.

use std::fmt::Write as _;
use std::io::Write;

use gpubench_record::{MatrixRow, OutcomeKind, RunRecord};

use super::{Format, RenderError, RenderOptions};

/// The OpenMetrics format.
pub(super) struct OpenMetrics;

/// The metric of each figure of [`MatrixRow::FIGURES`], with its help text.
const METRICS: [(&str, &str); MatrixRow::FIGURES.len()] = [
    ("retention_ratio", "Rate beside the aggressor over solo rate under the mechanism."),
    ("guarantee_ratio", "Rate beside the aggressor over native rate."),
    ("efficiency_ratio", "Solo rate under the mechanism over native rate."),
    ("effectiveness_ratio", "Unprotected rate over native rate."),
    ("isolation_index", "1 is unaffected by the aggressor, 0 is as unprotected."),
    ("jitter_native_medians", "Growth of the latency tail beside the aggressor."),
    ("survival_ratio", "Share of trials or requests with the promised result."),
    ("overshoot_ratio", "Memory beyond the limit over the limit."),
];

impl Format for OpenMetrics {
    fn name(&self) -> &'static str {
        "openmetrics"
    }

    fn extension(&self) -> &'static str {
        "prom"
    }

    fn summary(&self) -> &'static str {
        "gauges of every row with the ends of its interval, for Prometheus"
    }

    fn render(
        &self,
        record: &RunRecord,
        _options: &RenderOptions,
        out: &mut dyn Write,
    ) -> Result<(), RenderError> {
        let mut text = Lines::default();
        of_record(record, &mut text);
        let rows: Vec<(String, &MatrixRow)> =
            record.matrix.iter().map(|row| (labels_of(row), row)).collect();
        for (at, (name, help)) in METRICS.iter().enumerate() {
            for (suffix, what, end) in ENDS {
                let values = rows.iter().filter_map(|(labels, row)| {
                    let estimate = row.figures()[at]?;
                    Some((labels.clone(), end([estimate.lo, estimate.value, estimate.hi])))
                });
                text.gauge(&format!("{name}{suffix}"), &format!("{help}{what}"), values);
            }
        }
        let levels = rows.iter().filter_map(|(labels, row)| {
            let level = row.level.as_deref()?.strip_prefix('L')?;
            Some((labels.clone(), level.parse().ok()?))
        });
        text.gauge(
            "level",
            "Level of isolation, 0 none to 3 strong; undecided rows have none.",
            levels,
        );
        Ok(writeln!(out, "{}# EOF", text.0)?)
    }
}

/// Suffix of a metric, addition to its help, and which of lower end, value and upper end it is.
type End = (&'static str, &'static str, fn([f64; 3]) -> f64);

const ENDS: [End; 3] = [
    ("", "", |[_, value, _]| value),
    ("_lower", " Lower end of its interval.", |[lower, _, _]| lower),
    ("_upper", " Upper end of its interval.", |[_, _, upper]| upper),
];

fn of_record(record: &RunRecord, text: &mut Lines) {
    let seed = record.seed.to_string();
    let about = labels(&[
        ("device", &record.device.name),
        ("device_kind", record.device.kind.as_str()),
        ("driver", &record.device.driver),
        ("profile", &record.profile.name),
        ("scoring", &record.scoring),
        ("seed", &seed),
        ("started_at", &record.provenance.started_at),
        ("uuid", &record.device.uuid),
    ]);
    text.gauge("record", "What was measured, as labels.", [(about, 1.0)]);
    for (name, help, is) in [
        ("complete", "1 if the run did everything it planned.", record.complete),
        ("decides", "1 if the profile's results may be relied upon.", record.plan.decides),
        (
            "virtual",
            "1 for a virtual GPU: predictions of a model, not measurements of NVIDIA hardware.",
            record.device.kind == gpubench_record::DeviceKind::Virtual,
        ),
    ] {
        text.gauge(name, help, [(String::new(), f64::from(u8::from(is)))]);
    }
    text.gauge(
        "record_problems",
        "Damaged files of the record, and scores that do not follow from its cells.",
        [(String::new(), record.problems.len() as f64)],
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
        (labels(&[("outcome", outcome.as_str())]), count as f64)
    });
    text.gauge("rows", "Rows of the matrix by outcome.", counts);
}

fn labels_of(row: &MatrixRow) -> String {
    let or_empty = |text: &Option<String>| text.clone().unwrap_or_default();
    labels(&[
        ("mechanism", &row.mechanism),
        ("variant", &row.variant),
        ("axis", &row.axis),
        ("sub_axis", &or_empty(&row.sub_axis)),
        ("victim", &or_empty(&row.victim)),
        ("aggressor", &or_empty(&row.aggressor)),
    ])
}

/// Labels in braces; empty ones are left out, which means the same.
fn labels(pairs: &[(&str, &str)]) -> String {
    let pairs = pairs.iter().filter(|(_, value)| !value.is_empty());
    let pairs: Vec<String> = pairs
        .map(|(name, value)| {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"");
            format!("{name}=\"{}\"", value.replace('\n', "\\n"))
        })
        .collect();
    format!("{{{}}}", pairs.join(","))
}

/// The text so far.
#[derive(Default)]
struct Lines(String);

impl Lines {
    /// A gauge with its values by labels; none without values.
    fn gauge(&mut self, name: &str, help: &str, values: impl IntoIterator<Item = (String, f64)>) {
        let mut values = values.into_iter().peekable();
        if values.peek().is_some() {
            let _ = writeln!(self.0, "# HELP gpubench_{name} {help}\n# TYPE gpubench_{name} gauge");
        }
        for (labels, value) in values {
            let _ = writeln!(self.0, "gpubench_{name}{labels} {value}");
        }
    }
}
