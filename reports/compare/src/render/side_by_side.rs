//! Records side by side as text, Markdown or JSON.

use gpubench_record::{DeviceKind, Ends, Estimate, counted};

use gpubench_show::{Block, Cell, Labels, Look, Page, Paint, Table, outwards};

use super::{Detail, Format, RenderError, VIRTUAL_TITLE, written};
use crate::side_by_side::{Column, Entry, Line, SideBySide};

/// The records in one of the formats.
/// Fails when JSON cannot represent them.
pub fn side_by_side(
    table: &SideBySide,
    format: Format,
    detail: Detail,
    look: Look,
) -> Result<String, RenderError> {
    written(|_| page(table, detail), [], table, format, look)
}

/// The records by number, how many levels differ, and a column for each record.
fn page(table: &SideBySide, detail: Detail) -> Page {
    let mut page = Page::default();
    notices(table).into_iter().for_each(|notice| page.notice(notice));
    for (one, number) in table.records.iter().zip(1..) {
        page.push(
            gpubench_show::Line::new(record(one))
                .indented(0, 3)
                .marked(number.to_string(), Paint::Plain),
        );
    }
    page.push(Block::Gap);
    let (same, others): (Vec<&Line>, Vec<&Line>) = table.rows.iter().partition(|line| {
        let levels = levels(line);
        levels[0].is_some() && levels.iter().all(|one| *one == levels[0])
    });
    let (differ, open): (Vec<&Line>, Vec<&Line>) =
        others.into_iter().partition(|line| levels(line).iter().all(Option::is_some));
    page.say(format!(
        "{} with one level in every record: {} the same, {} different; {} open or without",
        counted(same.len() + differ.len(), "row"),
        same.len(),
        differ.len(),
        counted(open.len(), "row"),
    ));
    let names = Labels::of(table.rows.iter().map(|line| line.variant.as_str()));
    let numbers = (1..=table.records.len()).map(|number| number.to_string());
    let columns: Vec<String> = std::iter::once("row".to_owned()).chain(numbers).collect();
    let mut push = |heading: &str, lines: &[&Line], entry: fn(Option<&Entry>) -> Cell| {
        let rows = lines.iter().map(|line| {
            let entries = line.entries.iter().map(|one| entry(one.as_ref()));
            let short = |line: &Line| format!("{} {}", names.get(&line.variant), line.axis);
            let twins = table.rows.iter().filter(|one| short(one) == short(line)).count();
            let is_short = detail == Detail::Changes && twins == 1;
            let head = if is_short { short(line) } else { head(line, &names) };
            std::iter::once(Cell::text(head)).chain(entries).collect()
        });
        let table = Table::new("", heading, columns.clone(), rows);
        if !table.rows.is_empty() {
            page.push(Table { boxed: detail == Detail::Full, ..table });
        }
    };
    if detail == Detail::Full {
        push("", &table.rows.iter().collect::<Vec<_>>(), entry);
        return page;
    }
    push("Levels that differ", &differ, in_short);
    push("Levels that are the same", &same, in_short);
    page.say("every row with every figure: gpubench compare --full");
    page
}

/// The level of a row in each record, where one is decided.
fn levels(line: &Line) -> Vec<Option<&str>> {
    let decided = |level: &&str| !level.contains("..");
    line.entries.iter().map(|one| one.as_ref()?.level.as_deref().filter(decided)).collect()
}

fn notices(table: &SideBySide) -> Vec<String> {
    let is_virtual = |column: &Column| column.kind == DeviceKind::Virtual;
    let mut notices = Vec::new();
    if table.records.iter().any(is_virtual) {
        notices.push(VIRTUAL_TITLE.to_owned());
    }
    notices.push(
        "levels and figures (95 % intervals) side by side; no verdict: gpubench diff compares one \
         GPU with itself"
            .to_owned(),
    );
    notices.extend(table.cautions.iter().cloned());
    notices
}

fn record(column: &Column) -> String {
    let incomplete = if column.complete { "" } else { ", incomplete" };
    format!(
        "{} ({}), driver {}, profile {}{incomplete}: {}",
        column.product,
        column.kind.as_str(),
        column.driver,
        column.profile,
        column.name
    )
}

fn head(line: &Line, labels: &Labels) -> String {
    let mut text = format!("{} {}", labels.get(&line.variant), line.axis);
    if let Some(victim) = &line.victim {
        text += &format!(", {victim}");
    }
    if let Some(aggressor) = &line.aggressor {
        text += &format!(" beside {aggressor}");
    }
    text
}

/// The level and the figure that it follows from.
fn in_short(entry: Option<&Entry>) -> Cell {
    let figure = entry.and_then(|entry| {
        let names = ["jitter", "survival", "retention"];
        names.iter().find_map(|name| entry.figures.get(*name))
    });
    let level = entry.and_then(|entry| entry.level.clone()).unwrap_or_default();
    Cell::text(figure.map_or_else(|| level.clone(), |figure| format!("{level} {}", of(figure))))
}

/// The level and its word, then a line for each figure.
fn entry(entry: Option<&Entry>) -> Cell {
    let Some(entry) = entry else { return Cell::text("") };
    let level = entry.level.clone().unwrap_or_else(|| entry.outcome.as_str().to_owned());
    let level = std::iter::once(level).chain(entry.word.clone()).collect::<Vec<_>>().join(", ");
    let figures = entry.figures.iter();
    let figures =
        figures.map(|(name, figure)| format!("{} {}", name.replace('_', " "), of(figure)));
    Cell::lines(std::iter::once(level).chain(figures))
}

fn of(figure: &Estimate) -> String {
    let [lo, hi] = [outwards(figure.lo, -1.0, 3), outwards(figure.hi, 1.0, 3)];
    match figure.ends {
        Ends::Interval => format!("{:.3} [{lo}, {hi}]", figure.value),
        Ends::Range => format!("{:.3} range {lo} to {hi}", figure.value),
        Ends::AtLeast => format!("at least {lo}"),
        Ends::AtMost => format!("below {hi}"),
    }
}
