//! The comparison as JUnit XML: one case for each primary row. A regression is a failure, an
//! undecided row is skipped and never a pass. The first case stands for the comparison.

use gpubench_record::{DeviceKind, ExitCode};
use gpubench_show::clean;
use quick_junit::{NonSuccessKind, Report as Suites, TestCase, TestCaseStatus, TestSuite};

use super::summary::conclusion;
use super::{RenderError, VIRTUAL_TITLE};
use crate::diff::{DiffRow, Report, Verdict};

pub(super) fn diff(report: &Report) -> Result<String, RenderError> {
    let name = match report.kind {
        DeviceKind::Virtual => format!("gpubench diff, {VIRTUAL_TITLE}"),
        DeviceKind::Real => "gpubench diff".to_owned(),
    };
    // The same for every comparison, since CI systems follow a case by suite, class and name.
    let mut suite = TestSuite::new("gpubench diff");
    suite.timestamp = report.after.last().and_then(|one| one.started_at.parse().ok());
    suite.add_test_case(whole(report));
    suite.add_test_cases(report.rows.iter().filter(|row| row.primary).map(case));
    let mut suites = Suites::new(&name);
    suites.add_test_suite(suite);
    gpubench_show::junit(&suites).map_err(|reason| RenderError { format: "junit", reason })
}

fn whole(report: &Report) -> TestCase {
    let counts = &report.counts;
    let decided = counts.regressed + counts.improved + counts.unchanged > 0;
    let status = match (report.comparable, decided, report.exit_code()) {
        (false, ..) => {
            with_message(TestCaseStatus::non_success(NonSuccessKind::Error), &report.attribution)
        }
        (true, false, _) => with_message(TestCaseStatus::skipped(), "no row is decided"),
        (true, true, ExitCode::Inconclusive) => {
            with_message(TestCaseStatus::skipped(), &conclusion(report))
        }
        (true, true, _) => TestCaseStatus::success(),
    };
    let mut case = TestCase::new("comparable and decided", status);
    case.set_classname("diff");
    case.set_system_out(clean(&report.attribution));
    case
}

fn case(row: &DiffRow) -> TestCase {
    let message = [row.cause(), row.reason.clone()];
    let message =
        message.into_iter().flatten().chain(row.doubts.iter().map(|one| one.text.clone()));
    let message = message.collect::<Vec<_>>().join("; ");
    let message = format!("{}: {message}", row.verdict.as_str());
    let status = match row.verdict {
        Verdict::Regressed => {
            with_message(TestCaseStatus::non_success(NonSuccessKind::Failure), &message)
        }
        Verdict::Improved | Verdict::Unchanged => TestCaseStatus::success(),
        Verdict::Inconclusive | Verdict::Invalid | Verdict::NotMeasured => {
            with_message(TestCaseStatus::skipped(), &message)
        }
    };
    let key = &row.key;
    let beside = key.beside().unwrap_or_else(|| "-".to_owned());
    let name = format!("{} {} {} beside {beside}", key.metric.as_str(), key.axis, key.victim);
    let mut case = TestCase::new(clean(&name), status);
    case.set_classname(clean(&key.variant));
    if let Some(figures) = &row.figures {
        case.set_system_out(format!(
            "change {} [{}, {}] {}, margin {}{}",
            figures.change,
            figures.lo,
            figures.hi,
            figures.unit,
            figures.margin,
            figures.detectable.map_or_else(String::new, |change| format!(", detectable {change}"))
        ));
    }
    case
}

fn with_message(mut status: TestCaseStatus, message: &str) -> TestCaseStatus {
    status.set_message(clean(message));
    status
}
