//! The matrix as a JUnit report, so that a CI system can show it: one test case for each row.
//!
//! Failed rows are failures, waived and inconclusive ones are skipped with their reason: neither
//! is ever a pass. An incomplete record, and one in which nothing was measured, has a case that
//! says so, since a report without cases would look like success.

use std::io::Write;

use gpubench_record::{DeviceKind, Estimate, MatrixRow, OutcomeKind, RunRecord};

use super::document::{calibration, notices, title};
use super::figures::one_line;
use super::markup::escape;
use super::{Format, RenderError, RenderOptions};

/// The JUnit format.
pub(super) struct Junit;

impl Format for Junit {
    fn name(&self) -> &'static str {
        "junit"
    }

    fn extension(&self) -> &'static str {
        "xml"
    }

    fn summary(&self) -> &'static str {
        "JUnit XML for CI systems: a case a row; waived and inconclusive are skipped, not passed"
    }

    fn render(
        &self,
        record: &RunRecord,
        options: &RenderOptions,
        out: &mut dyn Write,
    ) -> Result<(), RenderError> {
        let mut cases = vec![record_case(record, options)];
        cases.extend(record.matrix.iter().map(row_case));
        cases.extend(skip_cases(record));
        let count = |element: &str| {
            cases
                .iter()
                .filter(|case| matches!(&case.verdict, Some((e, _)) if *e == element))
                .count()
        };
        let counts = format!(
            "tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\"",
            cases.len(),
            count("failure"),
            count("error"),
            count("skipped")
        );
        let title = escape(&title(record));
        writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
        writeln!(out, "<testsuites name=\"{title}\" {counts}>")?;
        writeln!(out, "  <testsuite name=\"{title}\" {counts}>")?;
        writeln!(out, "    <properties>")?;
        for (name, value) in properties(record) {
            let value = escape(&value);
            writeln!(out, "      <property name=\"{name}\" value=\"{value}\"/>")?;
        }
        writeln!(out, "    </properties>")?;
        for case in &cases {
            case.write(out)?;
        }
        writeln!(out, "  </testsuite>\n</testsuites>")?;
        Ok(())
    }
}

/// One test case.
struct Case {
    class: String,
    name: String,
    /// Element and message of a case that did not pass.
    verdict: Option<(&'static str, String)>,
    output: Vec<String>,
}

impl Case {
    fn write(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let (class, name) = (escape(&self.class), escape(&self.name));
        writeln!(out, "    <testcase classname=\"{class}\" name=\"{name}\">")?;
        if let Some((element, message)) = &self.verdict {
            writeln!(out, "      <{element} message=\"{}\"/>", escape(message))?;
        }
        if !self.output.is_empty() {
            let lines: Vec<String> = self.output.iter().map(|line| escape(line)).collect();
            writeln!(out, "      <system-out>{}</system-out>", lines.join("\n"))?;
        }
        writeln!(out, "    </testcase>")
    }
}

/// Whether the record as a whole can be relied on.
fn record_case(record: &RunRecord, options: &RenderOptions) -> Case {
    let said = notices(record, options);
    let measured = record.matrix.iter().any(|row| row.outcome.is_measured());
    let whole = record.complete && record.fault_trials_stopped.is_none();
    let verdict = match (whole, measured && record.plan.decides) {
        (false, _) => Some(("error", said.first().cloned().unwrap_or_default())),
        (true, false) => Some(("skipped", said.first().cloned().unwrap_or_default())),
        (true, true) => None,
    };
    Case {
        class: "record".to_owned(),
        name: "complete and decisive".to_owned(),
        verdict,
        output: said,
    }
}

fn row_case(row: &MatrixRow) -> Case {
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
    let told = format!(
        "{}: {}",
        outcome.outcome.as_str(),
        outcome.reason.as_deref().unwrap_or("-")
    );
    let verdict = match outcome.outcome {
        OutcomeKind::Measured => None,
        OutcomeKind::Failed => Some(("failure", told)),
        OutcomeKind::Waived | OutcomeKind::Inconclusive => Some(("skipped", told)),
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
    output.extend(
        row.warnings
            .iter()
            .map(|warning| format!("warning: {warning}")),
    );
    Case {
        class: row.variant.clone(),
        name,
        verdict,
        output,
    }
}

fn figure(name: &str, estimate: &Estimate) -> String {
    format!(
        "{name} {} n={}",
        one_line(estimate, Some(&estimate.unit)),
        estimate.n
    )
}

fn skip_cases(record: &RunRecord) -> impl Iterator<Item = Case> {
    record.plan.skips.iter().map(|skip| {
        let remedy = skip
            .remedy
            .as_ref()
            .map(|r| format!(" (remedy: {r})"))
            .unwrap_or_default();
        Case {
            class: skip.variant.clone(),
            name: skip.axis.clone().unwrap_or_else(|| "every axis".to_owned()),
            verdict: Some(("skipped", format!("waived: {}{remedy}", skip.reason))),
            output: Vec::new(),
        }
    })
}

fn properties(record: &RunRecord) -> [(&'static str, String); 6] {
    let kind = match record.device.kind {
        DeviceKind::Real => "real",
        DeviceKind::Virtual => "virtual",
    };
    [
        ("device.kind", kind.to_owned()),
        ("device.uuid", record.device.uuid.clone()),
        ("driver", record.device.driver.clone()),
        ("profile", record.profile.name.clone()),
        ("seed", record.seed.to_string()),
        ("calibration", calibration(record)),
    ]
}
