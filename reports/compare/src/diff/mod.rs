//! The comparison of two sides: is it a regression, an improvement, no change, or unknown?

pub mod change;
pub mod comparability;
pub mod hint;
pub mod options;
mod proportions;
pub mod repetition;
pub mod report;
mod rows;
#[cfg(test)]
mod tests;
pub mod verdict;

use std::collections::BTreeSet;

use gpubench_record::ExitCode;
use gpubench_stats::NoEstimate;

pub use change::{BASELINE_MIN, SESSIONS_MIN};
pub use comparability::{Difference, KeyDifference, Treatment};
pub use options::{FailOn, KnownFrom, MarginsWish, Options, Repeatability, margin_of};
pub use report::{Conclusion, Counts, DiffRow, Doubt, Family, Figures, Report};
pub(crate) use verdict::POWER;
pub use verdict::Verdict;

use crate::session::Session;
use options::ALPHA;
use repetition::Repetition;
use report::{FORMAT, SessionRef};

/// Compares two sides, each with at least one session.
/// Fails when a side has no session, or a figure of a session is not finite.
pub fn diff(
    before: &[Session],
    after: &[Session],
    options: &Options,
) -> Result<Report, NoEstimate> {
    let (Some(first), false) = (before.first(), after.is_empty()) else {
        return Err(NoEstimate::TooFew { what: "sessions of a side", have: 0, need: 1 });
    };
    let differences = comparability::differences(before, after, &options.vary, options.force);
    let comparable = !differences.iter().any(|one| one.treatment == Treatment::Refused);
    let repetition = Repetition::of(before, after, &options.nights);
    let margins = options.margins.over(before.iter().chain(after));
    let (rows, family) = if comparable {
        rows::all([before, after], options, margins)?
    } else {
        (Vec::new(), Family { rows: 0, alpha: ALPHA, coverage: 1.0 - ALPHA })
    };
    let counts = Counts::of(&rows);
    let conclusion = if comparable { counts.conclusion() } else { Conclusion::NotComparable };
    let exit = exit(conclusion, &counts, options.fail_on);
    Ok(Report {
        diff_format: FORMAT,
        kind: first.kind,
        product: product(before, after),
        before: before.iter().map(reference).collect(),
        after: after.iter().map(reference).collect(),
        margins,
        vary: options.vary.clone(),
        attribution: attribution([before, after], &differences, &options.vary, &rows),
        differences,
        comparable,
        family,
        rows,
        counts,
        conclusion,
        repetition,
        exit: exit.code(),
    })
}

impl Report {
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::BY_PRECEDENCE
            .into_iter()
            .find(|code| code.code() == self.exit)
            .unwrap_or(ExitCode::Internal)
    }
}

fn reference(session: &Session) -> SessionRef {
    let fact = |name| session.facts.get(name).cloned().unwrap_or_default();
    SessionRef {
        name: session.name.clone(),
        started_at: session.started_at.clone(),
        uuid: fact("uuid"),
        driver: fact("driver"),
        losses: session.losses.clone(),
    }
}

fn exit(conclusion: Conclusion, counts: &Counts, fail_on: FailOn) -> ExitCode {
    let decided = counts.regressed + counts.improved + counts.unchanged;
    let open = counts.inconclusive + counts.lost > 0 || decided == 0;
    match conclusion {
        Conclusion::NotComparable => ExitCode::NotComparable,
        Conclusion::Regression if fail_on.regression => ExitCode::Regression,
        _ if fail_on.inconclusive && open => ExitCode::Inconclusive,
        _ if fail_on.improved && counts.improved > 0 => ExitCode::Inconclusive,
        _ => ExitCode::Done,
    }
}

/// The sessions before that are also among those after, as a copy or by the same name.
fn on_both_sides<'a>(before: &'a [Session], after: &[Session]) -> Vec<&'a str> {
    let is_same = |one: &Session, other: &Session| {
        (&one.started_at, &one.facts, &one.rows) == (&other.started_at, &other.facts, &other.rows)
    };
    let same = before.iter().filter(|one| after.iter().any(|other| is_same(one, other)));
    same.map(|one| one.name.as_str()).collect()
}

/// What a change can be attributed to.
fn attribution(
    [before, after]: [&[Session]; 2],
    differences: &[Difference],
    vary: &[String],
    rows: &[DiffRow],
) -> String {
    let same = on_both_sides(before, after);
    if !same.is_empty() {
        return format!(
            "the same record is on both sides: {}; a record beside itself shows no change",
            same.join(", ")
        );
    }
    let of = |wanted: &[Treatment]| -> Vec<&str> {
        let found = differences.iter().filter(|one| wanted.contains(&one.treatment));
        found.map(|one| one.fact.as_str()).collect()
    };
    let varied = of(&[Treatment::Varied]);
    let others = of(&[Treatment::Confounds, Treatment::Forced]);
    let refused = of(&[Treatment::Refused]);
    if !refused.is_empty() {
        return format!("not comparable by: {}", refused.join(", "));
    }
    let single = before.len() < SESSIONS_MIN || after.len() < SESSIONS_MIN;
    let baseline = before.len().max(after.len()) >= BASELINE_MIN;
    let is_known =
        |row: &DiffRow| row.figures.as_ref().is_some_and(|one| one.spread_from.is_some());
    let is_open = single && !baseline && !rows.iter().any(is_known);
    let few = if is_open {
        "; not attributable from so few sessions: 3 a side are needed, or 10 against one, because \
         the spread between sessions is unknown"
    } else if single && !baseline {
        "; from one session a side, where the spread between sessions is known"
    } else {
        ""
    };
    let what = match (varied.as_slice(), others.as_slice()) {
        ([], []) if vary.is_empty() => "nothing was varied and nothing differs".to_owned(),
        ([], []) => format!("{} is the same on both sides", vary.join(", ")),
        (varied, []) if is_open => format!("varied: {}", varied.join(", ")),
        (varied, []) => format!("a change is attributed to: {}", varied.join(", ")),
        ([], others) => format!("a change can be an effect of: {}", others.join(", ")),
        (varied, others) => format!(
            "confounded: a change can be an effect of {} or of {}",
            varied.join(", "),
            others.join(", ")
        ),
    };
    what + few
}

/// The product of the GPUs; that of each side where they differ.
fn product(before: &[Session], after: &[Session]) -> String {
    let [before, after] = [before, after].map(|side| {
        let names = side.iter().filter_map(|session| session.facts.get("product"));
        let names: BTreeSet<&str> = names.map(String::as_str).collect();
        names.into_iter().collect::<Vec<_>>().join(", ")
    });
    if before == after { before } else { format!("{before} -> {after}") }
}
