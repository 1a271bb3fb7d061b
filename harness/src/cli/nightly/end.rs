//! How a night ends: its outcome, the exit code, and the words for it.

use std::collections::BTreeSet;
use std::path::Path;

use gpubench_compare::Session;
use gpubench_compare::diff::{self, BASELINE_MIN, DiffRow, Verdict as Of};
use gpubench_compare::history::{Acknowledged, History, IDENTITY};
use gpubench_compare::render::{alert_words, undecided};
use gpubench_compare::session::Row;
use gpubench_record::{ExitCode, RunRecord, counted, on_one_line};
use gpubench_reports::format::DeviceLabels;
use gpubench_show::{clean, junit};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use schemars::JsonSchema;
use serde::Serialize;

// The files of a night in its folder of reports.
pub const MATRIX: &str = "gpubench-matrix.txt";
pub const MATRIX_XML: &str = "gpubench-matrix.xml";
pub const DIFF_XML: &str = "gpubench-diff.xml";
pub const REPORT: &str = "gpubench-report.md";
pub const SUMMARY: &str = "gpubench-summary.md";
pub const ANNOTATIONS: &str = "gpubench-annotations.json";
/// The night as one test case: a night without a record has no other.
pub const NIGHT_XML: &str = "gpubench-night.xml";
pub const FILES: [&str; 7] =
    [MATRIX, MATRIX_XML, DIFF_XML, NIGHT_XML, REPORT, SUMMARY, ANNOTATIONS];
/// One line for each night, in the folder of nights.
pub const LIST: &str = "nights.tsv";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    Regressed,
    NotMeasured,
}

impl Outcome {
    pub const ALL: [Self; 3] = [Self::Passed, Self::Regressed, Self::NotMeasured];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Regressed => "regressed",
            Self::NotMeasured => "not measured",
        }
    }
}

/// What a night was compared with.
pub enum Compared {
    With(Box<diff::Report>),
    /// With nothing, and why.
    Nothing(String),
}

/// What the comparisons of a night found.
pub struct Found<'a> {
    /// Of this night alone.
    pub compared: &'a Compared,
    /// Of all nights of this GPU, across events and as drifts.
    pub nights: &'a History,
}

pub struct End {
    pub outcome: Outcome,
    pub code: ExitCode,
    pub reason: String,
    /// What a night that passed leaves open: the exit code with `--strict`.
    pub warning: Option<ExitCode>,
    /// The GPU, where the night measured one.
    pub device: Option<DeviceLabels>,
}

impl End {
    pub fn not_measured(code: ExitCode, reason: impl Into<String>) -> Self {
        Self {
            outcome: Outcome::NotMeasured,
            code,
            reason: reason.into(),
            warning: None,
            device: None,
        }
    }

    fn passed(reason: String, warning: Option<ExitCode>) -> Self {
        let code = ExitCode::Done;
        Self { outcome: Outcome::Passed, code, reason, warning, device: None }
    }

    /// The verdict in one line.
    pub fn words(&self) -> String {
        let reason = on_one_line(&self.reason);
        let (outcome, code) = (self.outcome.as_str(), self.code.code());
        match (self.outcome, self.warning, self.code) {
            (Outcome::Passed, Some(_), ExitCode::Done) => {
                format!("{outcome} with a warning ({code}): {reason}")
            }
            (Outcome::Passed, Some(_), _) => {
                format!("{outcome} with a warning, which --strict fails ({code}): {reason}")
            }
            _ => format!("{outcome} ({code}): {reason}"),
        }
    }

    /// JUnit XML: an error where nothing was measured, a failure where isolation got worse.
    /// Fails when XML cannot represent it.
    pub fn junit(&self) -> Result<String, String> {
        let problem = |kind| {
            let mut status = TestCaseStatus::non_success(kind);
            status.set_message(clean(&self.words()));
            status
        };
        let status = match (self.outcome, self.code) {
            (Outcome::Regressed, _) => problem(NonSuccessKind::Failure),
            // A host that is declared to have no GPU has nothing to measure.
            (Outcome::NotMeasured, ExitCode::Done) => {
                let mut status = TestCaseStatus::skipped();
                status.set_message(clean(&self.words()));
                status
            }
            (Outcome::Passed, ExitCode::Done) => TestCaseStatus::success(),
            (Outcome::Passed | Outcome::NotMeasured, _) => problem(NonSuccessKind::Error),
        };
        let mut case = TestCase::new("night", status);
        case.set_classname("gpubench nightly");
        let mut suite = TestSuite::new("gpubench nightly");
        suite.add_test_case(case);
        let mut report = Report::new("gpubench nightly");
        report.add_test_suite(suite);
        junit(&report)
    }

    /// The lines with which GitHub shows a night that a person should see.
    pub fn annotations(&self) -> Option<String> {
        let level = self.level()?;
        let is_github = std::env::var("GITHUB_ACTIONS").is_ok_and(|value| value == "true");
        let text = on_one_line(&self.reason).replace('%', "%25");
        let title = self.outcome.as_str();
        is_github.then(|| format!("::{level} title=gpubench {title}::{text}\n"))
    }

    /// The report of annotations of GitLab: a link beside the job with the verdict as its text.
    pub fn links(&self) -> Option<String> {
        let job = std::env::var("CI_JOB_URL").ok()?;
        let link = serde_json::json!({
            "external_link": { "label": self.words(), "url": format!("{job}/artifacts/browse") }
        });
        Some(serde_json::json!({ "gpubench": [link] }).to_string() + "\n")
    }

    fn level(&self) -> Option<&'static str> {
        match (self.code, self.warning) {
            (ExitCode::Done, None) if self.outcome == Outcome::Passed => None,
            (ExitCode::Done, _) => Some("warning"),
            _ => Some("error"),
        }
    }
}

/// The JSON of the verb.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "gpubench nightly")]
pub struct Verdict<'a> {
    /// `passed`, `regressed` or `not measured`.
    outcome: &'a str,
    /// The exit code.
    exit: u8,
    /// What was compared, what got worse, or why nothing was measured.
    reason: String,
    /// Whether it passed with undecided rows, or with nothing to compare with.
    warning: bool,
    /// The folder of the record, where there is one.
    record: Option<&'a Path>,
}

impl<'a> Verdict<'a> {
    pub fn of(end: &End, record: Option<&'a Path>) -> Self {
        Self {
            outcome: end.outcome.as_str(),
            exit: end.code.code(),
            reason: on_one_line(&end.reason),
            warning: end.warning.is_some(),
            record,
        }
    }
}

/// The end of a night with a record, which its measurement left with this exit code.
pub fn of(
    run: &RunRecord,
    history: &[Session],
    tonight: &Session,
    found: &Found<'_>,
    code: ExitCode,
    known: &[Acknowledged],
) -> End {
    let compared = found.compared;
    let is_same = |one: &&Session, fact: &str| one.facts.get(fact) == tonight.facts.get(fact);
    let of_gpu = || {
        let older = history.iter().filter(|one| one.started_at < tonight.started_at);
        older.filter(|one| is_same(one, "uuid"))
    };
    let before = of_gpu().filter(|one| is_same(one, "profile")).max_by_key(|one| &one.started_at);
    let lost = before.map_or_else(Vec::new, |before| lost(run, before, tonight));
    let regressed = |mut reason: String| {
        lost.iter().for_each(|one| reason += &format!("; not measured: {one}"));
        let (outcome, code) = (Outcome::Regressed, ExitCode::Regression);
        End { outcome, code, reason, warning: None, device: None }
    };
    if let Compared::With(report) = compared
        && report.exit_code() == ExitCode::Regression
    {
        let reason = format!("isolation got worse: {}", rows(report, Of::Regressed));
        return match acknowledged(report, known).filter(|_| lost.is_empty()) {
            Some(by) => {
                End::passed(format!("{reason}; acknowledged: {by}"), Some(ExitCode::Regression))
            }
            None => regressed(reason),
        };
    }
    let lasting = found.nights.unacknowledged().map(|one| alert_words(found.nights, one));
    let lasting = lasting.collect::<Vec<_>>().join("; ");
    if !lasting.is_empty() {
        return regressed(format!("isolation got worse over the nights: {lasting}"));
    }
    if !tonight.rows.values().any(Row::is_measured) {
        let why = tonight.rows.values().find_map(|row| match row {
            Row::Invalid(why) | Row::NotMeasured(why) => Some(why.as_str()),
            Row::Measured(_) | Row::Counted(_) => None,
        });
        let why = run.incomplete_reason.as_deref().or(why).unwrap_or("none was planned");
        let reason = format!("no row has figures: {why}");
        return End::not_measured(code.worst(ExitCode::NothingRan), reason);
    }
    if !lost.is_empty() {
        let reason = format!("the night before measured more: {}", lost.join("; "));
        return End::not_measured(code.worst(ExitCode::NothingRan), reason);
    }
    if code == ExitCode::TrialFailed {
        return End::not_measured(code, failed(run));
    }
    let nights = of_gpu().count();
    let (reason, warning) = match compared {
        Compared::Nothing(why) if nights >= BASELINE_MIN && !is_known(tonight, history, known) => {
            let nights = counted(nights, "night");
            let reason = format!("{nights} of this GPU, and none compares: {why}");
            return End::not_measured(ExitCode::NotComparable, reason);
        }
        Compared::Nothing(why) => {
            let open = undecided(found.nights);
            let with = match crossed(found.nights) {
                0 if open.is_some() => "with nights that are too few to decide".to_owned(),
                0 => "with nothing".to_owned(),
                rows => format!("across events alone, {} not worse", counted(rows, "row")),
            };
            let open = open.map_or_else(String::new, |rows| format!("; undecided: {rows}"));
            (format!("measured, and compared {with}{open}: {why}"), Some(ExitCode::NotComparable))
        }
        Compared::With(report) if !report.comparable => {
            return End::not_measured(ExitCode::NotComparable, report.attribution.clone());
        }
        Compared::With(report) => passed(report),
    };
    End::passed(reason, warning)
}

/// Rows that are shown not to be worse after an event.
fn crossed(nights: &History) -> usize {
    let all = nights.series.iter().flat_map(|series| &series.crossings);
    all.filter(|one| matches!(one.verdict, Of::Unchanged | Of::Improved)).count()
}

/// By what a person acknowledged every row that got worse, since the nights of the comparison.
fn acknowledged<'a>(report: &diff::Report, known: &'a [Acknowledged]) -> Option<&'a str> {
    let since = report.before.iter().map(|one| &one.started_at).max()?;
    let of = |verdict| report.rows.iter().filter(move |row| row.primary && row.verdict == verdict);
    let covers = |one: &&Acknowledged| {
        one.at > *since && of(Of::Regressed).all(|row| one.rows.contains(&name(row)))
    };
    known.iter().find(covers).map(|one| one.what.as_str())
}

/// Whether a person acknowledged that nights since one before tonight compare with none.
fn is_known(tonight: &Session, history: &[Session], known: &[Acknowledged]) -> bool {
    let same = |one: &&Session| {
        IDENTITY.iter().all(|fact| one.facts.get(*fact) == tonight.facts.get(*fact))
    };
    let first = history.iter().filter(same).map(|one| &one.started_at).min();
    first.is_some_and(|first| known.iter().any(|one| one.at >= *first))
}

fn passed(report: &diff::Report) -> (String, Option<ExitCode>) {
    let counts = report.counts;
    let decided = (counts.unchanged + counts.improved) as usize;
    let nights = counted(report.before.len(), "night");
    let reason = format!("{} compared with {nights}, none got worse", counted(decided, "row"));
    let open = [rows(report, Of::Inconclusive), lost_rows(report)];
    let open: Vec<String> = open.into_iter().filter(|one| !one.is_empty()).collect();
    if open.is_empty() && decided > 0 {
        return (reason, None);
    }
    (format!("{reason}; undecided: {}", open.join("; ")), Some(ExitCode::Inconclusive))
}

/// Primary rows with this verdict, with their change.
fn rows(report: &diff::Report, verdict: Of) -> String {
    let of = report.rows.iter().filter(|row| row.primary && row.verdict == verdict);
    of.map(|row| {
        let change =
            row.figures.as_ref().map_or_else(String::new, |one| match row.key.metric.is_log() {
                true => format!(" {:+.1} %", 100.0 * one.change),
                false => format!(" {:+.2} {}", one.change, one.unit),
            });
        format!("{}{change}", name(row))
    })
    .collect::<Vec<_>>()
    .join("; ")
}

/// Primary rows that the baseline has and this night has not.
fn lost_rows(report: &diff::Report) -> String {
    let lost = report.rows.iter().filter(|row| {
        row.primary && row.figures.is_none() && row.sessions[0] > 0 && row.sessions[1] == 0
    });
    lost.map(|row| format!("{} has no figures", name(row))).collect::<Vec<_>>().join("; ")
}

fn name(row: &DiffRow) -> String {
    format!("{} {} {}", row.key.variant, row.key.axis, row.key.metric.as_str())
}

/// Mechanisms that the night before measured and this one did not, with the reason.
fn lost(run: &RunRecord, before: &Session, tonight: &Session) -> Vec<String> {
    let measured = |of: &Session| -> BTreeSet<String> {
        let rows = of.rows.iter().filter(|(_, row)| row.is_measured());
        rows.map(|(key, _)| key.variant.clone()).collect()
    };
    let now = measured(tonight);
    let lost = measured(before).into_iter().filter(|variant| !now.contains(variant));
    lost.map(|variant| {
        let own = run.mechanisms.iter().find(|one| one.variant == variant);
        let skip = || run.plan.skips.iter().find(|one| one.variant == variant);
        let why = own.and_then(|one| one.outcome.reason.clone());
        let why = why.or_else(|| skip().map(|one| one.reason.clone()));
        format!("{variant}: {}", why.as_deref().unwrap_or("no row of it has figures"))
    })
    .collect()
}

/// What failed, of a measurement that ended with 4.
fn failed(run: &RunRecord) -> String {
    let cells = run.cells.iter().filter_map(|one| {
        let is_failed = one.outcome.outcome == gpubench_record::OutcomeKind::Failed;
        is_failed.then(|| (one.cell.id.clone(), one.outcome.reason.clone()))
    });
    let mechanisms = run.mechanisms.iter().filter_map(|one| {
        let is_failed = one.outcome.outcome == gpubench_record::OutcomeKind::Failed;
        is_failed.then(|| (one.variant.clone(), one.outcome.reason.clone()))
    });
    let first = mechanisms.chain(cells).next();
    let first = first.map(|(name, why)| format!("{name} failed: {}", why.unwrap_or_default()));
    let stopped = run.fault_trials_stopped.clone();
    first.or(stopped).unwrap_or_else(|| "the record contradicts itself".to_owned())
}
