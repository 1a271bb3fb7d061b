//! `report --why`: the figure of each cell of a place and its bounds, what did not run, and the
//! reasons for doubt. Without a place, one line for each thing that is open or doubtful.

use std::collections::BTreeSet;

use gpubench_judge::score::{PROPORTION_L0, PROPORTION_L2, PROPORTION_L3};
use gpubench_record::{
    Estimate, FORMAT_VERSION, GateState, MatrixRow, OutcomeKind, OverallRow, RunRecord, Thresholds,
    counted,
};
use gpubench_show::{Block, Labels, Line, Page, clean, list};

use super::figures::{ends, one_line, value};
use super::screen::{ROWS_MAX, places};
use super::{RenderOptions, document};
use crate::matrix::faults::summary;
use crate::matrix::{
    Glance, OVERALL, ReasonGroup, Selection, Standing, Subject, place, without_levels,
};

/// Parts of the reasons for doubt, with the noun of what they count.
const PARTS: [(Subject, &str, &str); 5] = [
    (Subject::Row, "Rows without a level", "row"),
    (Subject::Absent, "Left out: not possible on this device", "row"),
    (Subject::Block, "Blocks that rows leave out", "block"),
    (Subject::Cell, "Cells that fail a gate", "cell"),
    (Subject::Warning, "Warnings about rows", "row"),
];

/// The reasons for doubt of the selected mechanisms and axes.
pub(super) fn page(record: &RunRecord, options: &RenderOptions) -> Page {
    let selection = &options.selection;
    let mut page = Page::new(document::title(record));
    if let Some(id) = &selection.cell {
        cell(record, id, &mut page);
        return page;
    }
    let glance = Glance::of(record, selection, ROWS_MAX);
    let is_part = *selection != Selection::default();
    if !is_part {
        document::urgent(record).into_iter().for_each(|notice| page.notice(notice));
    }
    let empty = page.blocks.len();
    if is_part {
        of_place(record, selection, &mut page);
    }
    for (subject, heading, noun) in PARTS {
        let groups = glance.reasons.iter().filter(|one| one.subject == subject);
        let mut groups = groups.filter(|one| is_part || is_doubt(one)).peekable();
        if groups.peek().is_some() {
            page.push(Block::Heading(heading.to_owned()));
        }
        for group in groups {
            match is_part {
                true => doubt(&mut page, group, noun),
                false => page.push(Line::new(in_one_line(group, noun)).indented(2, 4)),
            }
        }
    }
    if page.blocks.len() == empty {
        page.say(match record.matrix.iter().any(|row| row.level.is_some()) {
            true if is_part => "The record has no row of it.",
            true => "No doubt: every row has a level, and no cell fails a gate.",
            false => "No row has a level: no mechanism was measured beside a neighbour.",
        });
    }
    page
}

/// One cell of the run: its outcome, the gates that it fails, and the file with its samples.
fn cell(record: &RunRecord, id: &str, page: &mut Page) {
    let Some(of) = record.cells.iter().find(|one| one.cell.id == id) else {
        page.say(format!("cell {} did not run", clean(id)));
        return;
    };
    let label = Labels::of_records(&[record]).get(&of.cell.variant);
    let reason = of.outcome.reason.as_deref().map_or_else(String::new, |why| format!(": {why}"));
    page.say(clean(&format!(
        "cell {id}: {} of {label}, condition {}, victim {}, block {}: {}{reason}",
        of.cell.sub_axis.as_str(),
        of.cell.condition.as_str(),
        of.cell.victim,
        of.cell.block,
        of.outcome.outcome.as_str(),
    )));
    let mut passed = 0;
    for gate in &of.gates {
        let state = match gate.state {
            GateState::Passed => {
                passed += 1;
                continue;
            }
            GateState::Failed => "failed",
            GateState::NotEvaluated => "not evaluated",
            GateState::NotApplicable => continue,
        };
        let text = format!("{} {state}: {}", gate.gate.as_str(), gate.detail);
        page.push(Line::new(clean(&text)).indented(2, 4));
    }
    page.push(Line::new(format!("{} passed", counted(passed, "gate"))).indented(2, 4));
}

/// Words of warnings that tell what was found, and doubt nothing.
const FINDINGS: [&str; 14] = [
    "% of the limit",
    "service jitter is",
    "N' against N",
    "tail at the offered load",
    "no limit is set",
    "information leak",
    "no part of the level",
    "of a reservation",
    "marked pages",
    "were kept out",
    "is not judged",
    "native medians",
    "were read by copies",
    "99.9th percentile",
];

fn is_doubt(group: &ReasonGroup) -> bool {
    let is_finding = FINDINGS.iter().any(|words| group.reason.contains(words));
    group.subject != Subject::Warning || !is_finding
}

fn in_one_line(group: &ReasonGroup, noun: &str) -> String {
    let such_as = if group.differs { "for example " } else { "" };
    let cure = group.cure.map_or_else(String::new, |cure| format!(" (cure: {cure})"));
    let worst = group.worst.as_ref().map_or_else(String::new, |worst| {
        let (figure, limit) = (value(worst.value), value(worst.limit));
        format!(", worst {figure} {}, limit {limit}", worst.unit)
    });
    let count = counted(group.count, noun);
    format!("{}: {count}: {such_as}{}{worst}{cure}", in_few(group), group.reason)
}

/// Labels that one line names of a place.
const NAMED_MAX: usize = 3;

/// `dram of mps, hami 50% and 4 more; l2 of mps`.
fn in_few(group: &ReasonGroup) -> String {
    let shortened = |(place, labels): &(String, Vec<String>)| {
        let more = labels.len().saturating_sub(NAMED_MAX);
        let mut few: Vec<String> = labels.iter().take(NAMED_MAX).cloned().collect();
        few.extend((more > 0).then(|| format!("{more} more")));
        format!("{place} of {}", list(&few, "and"))
    };
    let all: Vec<String> = group.places.iter().map(shortened).collect();
    match all.len() {
        0..=2 => all.join("; "),
        more => format!("{} (and {} more)", all[0], counted(more - 1, "place")),
    }
}

fn doubt(page: &mut Page, group: &ReasonGroup, noun: &str) {
    let such_as = if group.differs { "for example " } else { "" };
    let first = format!("{}: {such_as}{}", counted(group.count, noun), group.reason);
    page.push(Line::new(first).indented(2, 4));
    let mut more = |text: String| page.push(Line::new(text).indented(6, 6));
    more(places(group));
    if let Some(worst) = &group.worst {
        let (figure, limit, unit) = (value(worst.value), value(worst.limit), &worst.unit);
        more(format!("worst: {figure} {unit}; limit: {limit} {unit}"));
    }
    if let (None, Some(example)) = (&group.worst, &group.example) {
        more(format!("for example: {example}"));
    }
    if let Some(cure) = group.cure {
        more(format!("cure: {cure}"));
    }
}

// What a place has: the figure of each row with the bounds of its levels, or why there is none.

fn of_place(record: &RunRecord, selection: &Selection, page: &mut Page) {
    let labels = Labels::of_records(&[record]);
    let mut rules = BTreeSet::new();
    let mechanisms = record.mechanisms.iter();
    let shown = mechanisms.filter(|one| selection.has_mechanism(&one.name, &one.variant));
    for one in shown {
        let label = labels.get(&one.variant);
        if one.name == record.plan.reference {
            page_of_reference(selection, &label, page);
            continue;
        }
        let lines = not_run(record, selection, &one.variant, &label);
        lines.into_iter().for_each(|line| page.say(line));
        let own = || record.matrix.iter().filter(|row| row.variant == one.variant);
        let did_run = own().any(|row| row.outcome.outcome != OutcomeKind::Waived);
        if selection.has_overall() && did_run {
            overall(record, &one.variant, &label).into_iter().for_each(|line| page.say(line));
        }
        let shown = own().filter(|row| selection.has_axis(&row.axis, row.sub_axis.as_deref()));
        let ran = shown.filter(|row| row.outcome.outcome != OutcomeKind::Waived);
        let (faults, rows): (Vec<_>, Vec<_>) = ran.partition(|row| row.is_of_fault());
        for row in rows {
            page.say(figure(row, &label));
            let missed = missed(row, &record.plan.thresholds).into_iter();
            missed.for_each(|line| page.push(Line::new(line).indented(2, 4)));
            rules.extend(rule(row, &record.plan.thresholds));
        }
        for row in faults.iter().filter(|_| !selection.faults.is_empty()) {
            if selection.has_fault(row.aggressor.as_deref()) {
                page.say(fault(record, row, &label));
            }
        }
        if !faults.is_empty() && selection.faults.is_empty() {
            let all = summary(record, &one.variant, selection);
            let level = level_of(all.level.as_deref(), all.outcome);
            let note = all.note.map_or_else(String::new, |note| format!("; {note}"));
            page.say(format!("faults of {label}: {level}; {}{note}", all.held));
            rules.insert(of_proportions());
        }
    }
    rules.into_iter().for_each(|rule| page.say(rule));
}

/// The reference has no level; only a reader who names it asks for one.
fn page_of_reference(selection: &Selection, label: &str, page: &mut Page) {
    if !selection.mechanisms.is_empty() {
        page.say(format!(
            "{label}: the reference, one tenant alone on the device: it has no neighbour and no \
             level"
        ));
    }
}

/// One fault under one mechanism.
fn fault(record: &RunRecord, row: &MatrixRow, label: &str) -> String {
    let name = row.aggressor.as_deref().unwrap_or_default();
    let level = level_of(row.level.as_deref(), row.outcome.outcome);
    let mut tallies = record.fault_tallies.iter();
    let tally = tallies.find(|one| one.variant == row.variant && one.fault == name);
    let trials = tally.filter(|one| one.trials > 0).map_or_else(
        || "no trial counts".to_owned(),
        |one| format!("no victim harmed in {} of {}", one.contained, counted(one.trials, "trial")),
    );
    let reason = row.outcome.reason.as_deref().map(without_levels);
    // Who was harmed, the codes and the times.
    let mut texts = row.warnings.iter();
    let found = texts.find_map(|text| Some(text.split_once(" of them with 95 %, ")?.1));
    let rest: String = [found, reason].iter().flatten().map(|text| format!("; {text}")).collect();
    clean(&format!("fault/{name} of {label}: {level}; {trials}{rest}"))
}

/// The rule of proportions.
fn of_proportions() -> String {
    format!(
        "levels of proportions: L3 where the interval begins at {PROPORTION_L3:.2} or above, L2 at \
         {PROPORTION_L2:.2}; L0 where no trial ended as promised and it ends at \
         {PROPORTION_L0:.2} or below; else L1"
    )
}

fn level_of(level: Option<&str>, outcome: OutcomeKind) -> String {
    match (level, outcome) {
        (Some(level), OutcomeKind::Measured) => match Standing::of_level(Some(level)) {
            Standing::Open => level.to_owned(),
            decided => decided.word().to_owned(),
        },
        (Some(open), _) => format!("no level, {open} are open"),
        (None, _) => "no level".to_owned(),
    }
}

/// `dram of mps: none (L0): retention 0.154 [0.154, 0.155], ... of stream beside dram-copy`.
fn figure(row: &MatrixRow, label: &str) -> String {
    let level = level_of(row.level.as_deref(), row.outcome.outcome);
    let named = [
        ("retention", &row.retention),
        ("guarantee", &row.guarantee),
        ("jitter", &row.jitter),
        ("proportion", &row.survival),
        ("beyond the limit", &row.overshoot),
    ];
    let figures = named.iter().filter_map(|(name, figure)| {
        let figure = figure.as_ref()?;
        Some(format!("{name} {}", one_line(figure, Some(&figure.unit))))
    });
    let figures: Vec<String> = figures.collect();
    let figures = if figures.is_empty() { "no figure".to_owned() } else { figures.join(", ") };
    let beside = match (&row.victim, &row.aggressor) {
        (Some(victim), Some(aggressor)) => {
            format!(", {} beside {}", clean(victim), clean(aggressor))
        }
        _ => String::new(),
    };
    format!("{} of {label}: {level}: {figures}{beside}", place(row))
}

/// The bounds of the levels.
fn rule(row: &MatrixRow, thresholds: &Thresholds) -> Option<String> {
    let [l3, l2, l1, guarantee] = [
        thresholds.retention_l3,
        thresholds.retention_l2,
        thresholds.retention_l1,
        thresholds.guarantee_l3,
    ];
    let [negligible, low] = [thresholds.jitter_negligible, thresholds.service_jitter_low_medium];
    if row.retention.is_some() {
        Some(format!(
            "levels of rates, by both ends of the interval: L3 retention >= {l3:.2} and guarantee \
             >= {guarantee:.2}; L2 retention >= {l2:.2} and guarantee >= {guarantee:.2}; L1 \
             retention >= {l1:.2}"
        ))
    } else if row.jitter.is_some() {
        Some(format!(
            "levels of jitter, in native medians: L3 <= {negligible:.2}; L2 <= {low:.2}; else L0"
        ))
    } else if row.survival.is_some() {
        Some(of_proportions())
    } else {
        (row.sub_axis.as_deref() == Some("cap")).then(|| {
            "levels of a cap: L3 no call beyond 1 % of the limit; L2 none beyond 10 %; L1 some; L0 \
             all, or no limit"
                .to_owned()
        })
    }
}

/// The bound that the worse ends miss.
fn missed(row: &MatrixRow, thresholds: &Thresholds) -> Option<String> {
    match (&row.retention, &row.jitter) {
        (Some(retention), _) => missed_rate(retention, row.guarantee.as_ref(), thresholds),
        (None, Some(jitter)) => {
            let bounds = [
                ("L2", thresholds.service_jitter_low_medium),
                ("L3", thresholds.jitter_negligible),
            ];
            let missed = bounds.into_iter().find(|(_, bound)| jitter.hi > *bound);
            missed.map(|(level, bound)| {
                let [_, hi] = ends(jitter);
                format!("misses {level}: the jitter ends at {hi}, above {bound:.2}")
            })
        }
        (None, None) => None,
    }
}

/// The lowest bound that the worse ends of a rate miss.
fn missed_rate(
    retention: &Estimate,
    guarantee: Option<&Estimate>,
    thresholds: &Thresholds,
) -> Option<String> {
    let bounds = [
        ("L1", thresholds.retention_l1),
        ("L2", thresholds.retention_l2),
        ("L3", thresholds.retention_l3),
    ];
    for (level, bound) in bounds {
        if retention.lo < bound {
            let [lo, hi] = ends(retention);
            let (whole, end) =
                if retention.hi < bound { ("ends at", hi) } else { ("begins at", lo) };
            return Some(format!("misses {level}: the retention {whole} {end}, below {bound:.2}"));
        }
        let short = guarantee.filter(|one| level != "L1" && one.lo < thresholds.guarantee_l3);
        if let Some(short) = short {
            let ([lo, _], bound) = (ends(short), thresholds.guarantee_l3);
            return Some(format!("misses {level}: the guarantee begins at {lo}, below {bound:.2}"));
        }
    }
    None
}

fn overall(record: &RunRecord, variant: &str, label: &str) -> Option<String> {
    let row = record.overall.iter().find(|row| row.variant == variant)?;
    let weakest = weakest_axes(record, row);
    let ran = |axis: &&String| {
        let mut own = record.matrix.iter().filter(|one| one.variant == variant);
        own.any(|one| one.axis == **axis && one.outcome.outcome != OutcomeKind::Waived)
    };
    let (open, not_run): (Vec<_>, Vec<_>) = row.unmeasured_axes.iter().partition(ran);
    let names = |axes: Vec<&String>| axes.iter().map(|axis| clean(axis)).collect::<Vec<_>>();
    let parts = [("without a level", names(open)), ("not run", names(not_run))];
    let parts = parts.iter().filter(|(_, axes)| !axes.is_empty());
    let without = parts.map(|(what, axes)| format!("; {what}: {}", list(axes, "and")));
    let without: String = without.collect();
    Some(match (row.level.as_deref(), &weakest[..]) {
        (Some(level), []) => format!("overall of {label}: {}{without}", clean(level)),
        (Some(level), axes) => {
            let word = if axes.len() == 1 { "axis" } else { "axes" };
            let (level, axes) = (clean(level), list(axes, "and"));
            format!("overall of {label}: {level}, that of {axes}, the weakest {word}{without}")
        }
        (None, _) => format!("overall of {label}: open{without}"),
    })
}

/// Every axis with a row whose level ends as low as the overall one, where that is decided with a
/// decided level.
fn weakest_axes(record: &RunRecord, overall: &OverallRow) -> Vec<String> {
    let is_decided = overall.level.as_ref().is_some_and(|level| !level.contains(".."));
    let low = |level: &str| match level.split_once("..") {
        None => Some(level.to_owned()),
        Some((low, _)) => (!is_decided).then(|| low.to_owned()),
    };
    let least = overall.level.as_deref().and_then(low);
    let is_least = |axis: &&String| {
        let own = record.matrix.iter().filter(|row| row.variant == overall.variant);
        let mut of_axis = own.filter(|row| row.axis == **axis);
        of_axis.any(|row| row.level.as_deref().and_then(low) == least)
    };
    let found: Vec<String> = overall.axes.iter().filter(is_least).map(|axis| clean(axis)).collect();
    match found.is_empty() {
        true => overall.weakest_axis.as_deref().map(clean).into_iter().collect(),
        false => found,
    }
}

/// Each selected axis of a mechanism that has no row with a figure, and why; without a selection
/// each axis that a skip of the plan names.
fn not_run(record: &RunRecord, selection: &Selection, variant: &str, label: &str) -> Vec<String> {
    let own = || record.matrix.iter().filter(|row| row.variant == variant);
    let ran = |axis: &str| {
        let (axis, sub_axis) = axis.split_once('/').map_or((axis, None), |(a, s)| (a, Some(s)));
        let is = |row: &&MatrixRow| {
            row.axis == axis && (sub_axis.is_none() || row.sub_axis.as_deref() == sub_axis)
        };
        own().filter(is).any(|row| row.outcome.outcome != OutcomeKind::Waived)
    };
    let whole = record.mechanisms.iter().find(|one| one.variant == variant);
    let waived = whole.filter(|one| one.outcome.outcome == OutcomeKind::Waived);
    let any_ran = own().any(|row| row.outcome.outcome != OutcomeKind::Waived);
    if let Some(one) = waived {
        let reason = one.outcome.reason.as_deref();
        return vec![because(
            label,
            reason.unwrap_or("no reason is recorded"),
            one.remedy.as_deref(),
        )];
    }
    if !any_ran {
        let reason = own().find_map(|row| row.outcome.reason.as_deref());
        return vec![because(label, reason.unwrap_or("the record has no row of it"), None)];
    }
    let skipped = record.plan.skips.iter().filter(|skip| skip.variant == variant);
    let skipped = skipped.filter_map(|skip| skip.axis.clone()).filter(|axis| !axis.contains('/'));
    let wanted: Vec<String> = match selection.axes.is_empty() {
        true => skipped.collect(),
        false => selection.axes.clone(),
    };
    let missing = wanted.iter().filter(|axis| *axis != OVERALL && !ran(axis));
    let of_axis = |axis: &String| {
        let what = format!("{} of {label}", if axis == "fault" { "faults" } else { axis });
        let name = axis.split_once('/').map_or(axis.as_str(), |(name, _)| name);
        let mut skips = record.plan.skips.iter().filter(|skip| skip.variant == variant);
        let is = |skip: Option<&str>| skip == Some(name) || skip == Some(axis.as_str());
        if let Some(skip) = skips.find(|skip| is(skip.axis.as_deref())) {
            return because(&what, &skip.reason, skip.remedy.as_deref());
        }
        let mut rows = own().filter(|row| row.axis == name);
        match rows.find_map(|row| row.outcome.reason.as_deref()) {
            Some(reason) if !ran(name) => because(&what, reason, None),
            _ => because(&what, &not_planned(record, axis), None),
        }
    };
    missing.map(of_axis).collect()
}

fn because(what: &str, reason: &str, remedy: Option<&str>) -> String {
    let remedy = remedy.map_or_else(String::new, |remedy| format!(" (remedy: {})", clean(remedy)));
    format!("{what}: not run, because {}{remedy}", clean(reason))
}

/// Why an axis has neither a row nor a skip.
fn not_planned(record: &RunRecord, axis: &str) -> String {
    let profile = clean(&record.profile.name);
    match (axis, record.format_version == FORMAT_VERSION) {
        ("fault", _) => "no fault was injected: --faults injects them".to_owned(),
        (_, false) => {
            format!("a record of format {} has no figure of {axis}", record.format_version)
        }
        (_, true) => {
            // The jitter beside one resource is no axis of a plan.
            let axis = axis.strip_prefix("jitter/").map_or(axis, |_| "jitter");
            format!("profile {profile} has no cell of it: matrix --axis {axis}")
        }
    }
}
