//! The first line of a comparison, which is its conclusion, and the last ones: counts, margins,
//! what it detects, A/A pairs.

use std::collections::{BTreeMap, BTreeSet};

use gpubench_record::counted;

use crate::diff::change::Basis;
use crate::diff::comparability::is_known;
use crate::diff::{Conclusion, Counts, DiffRow, KnownFrom, Report, Treatment, Verdict};

/// One sentence each.
pub(super) fn lines(report: &Report) -> Vec<String> {
    if !report.comparable {
        return Vec::new();
    }
    let counts = &report.counts;
    let &Counts { regressed, improved, unchanged, inconclusive, invalid, not_measured, .. } =
        counts;
    let without = match invalid + not_measured {
        0 => String::new(),
        n => format!(", {n} without figures"),
    };
    let mut lines = vec![format!(
        "{}: {regressed} regressed, {improved} improved, {inconclusive} inconclusive, \
         {unchanged} unchanged{without}{}",
        counted(counts.rows() as usize, "primary row"),
        secondary(report)
    )];
    let margins = report.margins;
    lines.push(format!(
        "margins: {:.1} %, p99 {:.1} %, jitter {:.2} medians or {:.0} %, trials {:.0} points",
        100.0 * margins.ratio,
        100.0 * margins.p99,
        margins.jitter,
        100.0 * margins.jitter,
        100.0 * margins.survival
    ));
    lines.extend(without_figures(report));
    lines.extend(of_one_side(report));
    lines.extend(of_bounds(report));
    lines.extend(detectable(report));
    lines.push(format!(
        "intervals: {:.1} % for a primary row (95 % for all together), 95 % for others{}",
        100.0 * report.family.coverage,
        between_sessions(report)
    ));
    let repetition = &report.repetition;
    lines.push(if repetition.pairs == 0 {
        "A/A false alarms: no session repeats its solo cells".to_owned()
    } else {
        format!(
            "A/A false alarms, last {}: {} of {} of equal cells (nominal 5 %)",
            counted(repetition.sessions as usize, "session"),
            repetition.alarms,
            counted(repetition.pairs as usize, "pair")
        )
    });
    lines
}

/// The conclusion with the exit status: the first line.
pub(super) fn verdict(report: &Report) -> String {
    format!("{}. exit {}", conclusion(report), report.exit)
}

/// How many rows besides the primary ones got worse or better.
fn of_secondary(report: &Report, verdict: Verdict) -> usize {
    report.rows.iter().filter(|row| !row.primary && row.verdict == verdict).count()
}

/// The rows of a list that the counts of primary rows leave out.
fn secondary(report: &Report) -> String {
    let parts = [Verdict::Regressed, Verdict::Improved].map(|verdict| (verdict, verdict.as_str()));
    let parts = parts.map(|(verdict, word)| (of_secondary(report, verdict), word));
    let parts = parts.into_iter().filter(|(rows, _)| *rows > 0);
    let parts = parts.map(|(rows, word)| format!("{} {word}", counted(rows, "secondary row")));
    parts.map(|part| format!("; {part}")).collect()
}

/// What the intervals of one session a side say of the spread between sessions.
fn between_sessions(report: &Report) -> String {
    let figures = || report.rows.iter().filter_map(|row| row.figures.as_ref());
    let within = figures().filter(|one| one.basis == Basis::Blocks).count();
    let mut known: BTreeMap<KnownFrom, usize> = BTreeMap::new();
    figures()
        .filter_map(|one| one.spread_from)
        .for_each(|from| *known.entry(from).or_default() += 1);
    let known = known.into_iter().map(|(from, rows)| {
        format!("; {} with the spread between sessions of {}", counted(rows, "row"), from.text())
    });
    let known: String = known.collect();
    match within {
        0 => known,
        _ if known.is_empty() => {
            "; within these two sessions, without the unknown spread between sessions".to_owned()
        }
        n => format!("{known}; {} within these two sessions, without it", counted(n, "row")),
    }
}

/// Primary rows without a verdict: how many of each metric, and the commonest reason of each.
fn without_figures(report: &Report) -> Option<String> {
    let lacks = |row: &&DiffRow| matches!(row.verdict, Verdict::Invalid | Verdict::NotMeasured);
    let mut metrics: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for row in report.rows.iter().filter(|row| row.primary).filter(lacks) {
        let reasons = metrics.entry(row.key.metric.as_str()).or_default();
        *reasons.entry(row.reason.as_deref().unwrap_or_default()).or_default() += 1;
    }
    let of_metric = |(metric, reasons): (&&str, &BTreeMap<&str, usize>)| {
        let rows: usize = reasons.values().sum();
        let reason = reasons.iter().max_by_key(|(_, rows)| **rows).map_or("", |(reason, _)| reason);
        let reason = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
        format!("{rows} {metric}{reason}")
    };
    let metrics: Vec<String> = metrics.iter().map(of_metric).collect();
    (!metrics.is_empty()).then(|| {
        format!(
            "without figures, which count nowhere: {}; one side measured {} of them",
            metrics.join(", "),
            report.counts.lost
        )
    })
}

/// Doses that only one side measured: each run of a rotation has those of other pairs.
fn of_one_side(report: &Report) -> Option<String> {
    let lacks = |row: &&DiffRow| row.sessions.contains(&0) && row.sessions != [0, 0];
    let doses = report.rows.iter().filter(|row| row.key.dose.is_some());
    match doses.filter(lacks).count() {
        0 => None,
        n => Some(format!(
            "{n} secondary rows of doses below 1 have figures on one side only, as when runs of a \
             rotation have the doses of other pairs; --full gives the reason of each"
        )),
    }
}

/// Rows whose victim starved on both sides.
fn of_bounds(report: &Report) -> Option<String> {
    match report.rows.iter().filter(|row| row.bounds && row.key.metric.is_primary()).count() {
        0 => None,
        1 => Some(
            "1 row compares bounds, because its victim starved on both sides, and counts \
                   nowhere; --full shows it"
                .to_owned(),
        ),
        n => Some(format!(
            "{n} rows compare bounds, because their victims starved on both sides, and count \
             nowhere; --full shows them"
        )),
    }
}

fn detectable(report: &Report) -> Option<String> {
    let mut changes: Vec<f64> = report
        .rows
        .iter()
        .filter(|row| row.primary && row.key.metric.is_log())
        .filter_map(|row| row.figures.as_ref()?.detectable)
        .collect();
    changes.sort_by(f64::total_cmp);
    let percent = |at: usize| changes.get(at).map(|change| 100.0 * change);
    let last = changes.len().checked_sub(1)?;
    let figures = report.rows.iter().filter_map(|row| row.figures.as_ref());
    let is_within =
        figures.clone().count() > 0 && figures.clone().all(|one| one.basis == Basis::Blocks);
    let within = if is_within { ", if sessions do not differ" } else { "" };
    Some(format!(
        "detectable (80 % power{within}): {:.1} % in the median row, {:.1} % to {:.1} % by row",
        percent(last / 2)?,
        percent(0)?,
        percent(last)?
    ))
}

pub(super) fn conclusion(report: &Report) -> String {
    let counts = &report.counts;
    let is_of_single = [&report.before, &report.after].iter().all(|side| side.len() == 1);
    let between = if is_of_single { " between these two sessions" } else { "" };
    let lacking = counts.invalid + counts.not_measured;
    let all = counted(counts.rows() as usize, "primary row");
    let changed = |rows: u32, verdict| match of_secondary(report, verdict) {
        0 => format!("{rows} of {all}"),
        more => format!("{rows} of {all}, {}", counted(more, "secondary row")),
    };
    let no_regression = format!("no regression in {} of {all}{between}", counts.rows() - lacking);
    let open = match counts.inconclusive + counts.lost - counts.differing {
        0 => String::new(),
        1 => format!("1 of {all} is open"),
        n => format!("{n} of {all} are open"),
    };
    match report.conclusion {
        Conclusion::NotComparable => {
            let refused =
                report.differences.iter().filter(|one| one.treatment == Treatment::Refused);
            let facts: Vec<&str> = refused.map(|one| one.fact.as_str()).collect();
            let differs = if facts.len() == 1 { "differs" } else { "differ" };
            let known: Vec<&str> = facts.iter().copied().filter(|fact| is_known(fact)).collect();
            let vary = match known.len() == facts.len() {
                true => format!("on purpose: --vary {}, ", known.join(",")),
                false => String::new(),
            };
            format!(
                "not comparable: {} {differs}; {vary}in spite of it: --force, other GPUs side by \
                 side: gpubench compare",
                facts.join(", ")
            )
        }
        Conclusion::Regression => {
            format!("REGRESSED: {}", changed(counts.regressed, Verdict::Regressed))
        }
        Conclusion::NotAttributable => {
            let n = counts.differing;
            let rows = if n == 1 { "1 row differs".to_owned() } else { format!("{n} rows differ") };
            let and = if open.is_empty() { "" } else { "; " };
            format!("inconclusive: {rows}, cause not attributable{and}{open}")
        }
        Conclusion::Open => format!("inconclusive: no regression shown, {open}"),
        Conclusion::Improvement => {
            let improved = changed(counts.improved, Verdict::Improved);
            format!("improved: {improved}; {no_regression}")
        }
        Conclusion::Equal => no_regression,
        Conclusion::NothingCompared => {
            "nothing to compare: no row has figures on both sides".to_owned()
        }
    }
}

/// The title of a page, which stands alone in a list of tabs: with the drivers.
pub(super) fn page_title(report: &Report, title: &str) -> String {
    let title = format!("gpubench diff: {}", title.replace(" | ", ", "));
    // It names a driver that was varied.
    if title.contains(": driver ") || title.contains(", driver ") {
        return title;
    }
    let drivers = report.before.iter().chain(&report.after).map(|one| one.driver.as_str());
    let drivers: BTreeSet<&str> = drivers.filter(|driver| !driver.is_empty()).collect();
    let drivers = drivers.into_iter().collect::<Vec<_>>().join(", ");
    format!("{title}, driver {drivers}")
}
