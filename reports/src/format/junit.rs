//! The matrix as a JUnit report for CI systems, one test case per row.
//!
//! A failed row is a failure. A waived or inconclusive row is skipped with its reason, and never a
//! pass. The first case stands for the record: it is an error for an incomplete record and skipped
//! for one without a trusted figure, so a report without rows does not look like success.

use std::io::Write;
use std::time::Duration;

use gpubench_record::{Condition, Estimate, MatrixRow, OutcomeKind, RunRecord, Skip};
use quick_junit::{NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestSuite};

use super::document::{calibration, notices, title};
use super::figures::one_line;
use super::parts::clean;
use super::{Format, RenderError, RenderOptions};

/// The JUnit format.
pub(super) struct Junit;

/// Name of the suite: the same for every record, since CI systems follow a case by suite, class and
/// name.
const SUITE: &str = "gpubench matrix";

impl Format for Junit {
    fn name(&self) -> &'static str {
        "junit"
    }

    fn extension(&self) -> &'static str {
        "xml"
    }

    fn summary(&self) -> &'static str {
        "JUnit XML for CI: one case per row; waived and inconclusive are skipped, not passed"
    }

    fn render(
        &self,
        record: &RunRecord,
        options: &RenderOptions,
        out: &mut dyn Write,
    ) -> Result<(), RenderError> {
        let title = title(record);
        let mut suite = TestSuite::new(SUITE);
        set_times(&mut suite, record);
        suite.add_properties(properties(record));
        suite.add_test_case(record_case(record, options));
        suite.add_test_cases(record.matrix.iter().map(|row| row_case(record, row)));
        suite.add_test_cases(record.plan.skips.iter().map(skip_case));
        let mut report = Report::new(&title);
        report.add_test_suite(suite);
        let text = report
            .to_string()
            .map_err(|error| RenderError::NotJunit { reason: error.to_string() })?;
        Ok(out.write_all(without_skips_of_root(&text).as_bytes())?)
    }
}

/// The schema of Jenkins has no count of skipped cases at the root, where the library writes one.
fn without_skips_of_root(text: &str) -> String {
    let parts = text.split_once(" skipped=\"");
    let parts = parts.and_then(|(head, tail)| Some((head, tail.split_once('"')?.1)));
    parts.map_or_else(|| text.to_owned(), |(head, tail)| format!("{head}{tail}"))
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

/// A test case with its status and the lines of its output.
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
