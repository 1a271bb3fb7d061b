//! The reports as text: for a terminal the matrix on one screen, all tables, or the reasons for
//! doubt, and Markdown.

use std::io::Write;

use gpubench_record::RunRecord;
use gpubench_record::counted;
use gpubench_show::{Block, Line, Page};

use super::document::{self, Document};
use super::figures::value;
use super::screen::{ROWS_MAX, places};
use super::{Format, RenderOptions, Rendered, View, neighbours, screen};
use crate::matrix::{Glance, ReasonGroup, Subject};

pub(super) static FORMAT: Format = Format {
    name: "text",
    extension: "txt",
    summary: "the matrix on one screen; for people, not for programs (--full: all tables)",
    is_for_people: true,
    draws_charts: false,
    render,
};

fn render(record: &RunRecord, options: &RenderOptions, out: &mut dyn Write) -> Rendered {
    let text = match options.view {
        View::Screen => {
            neighbours::screen(record, options).unwrap_or_else(|| screen::text(record, options))
        }
        View::Full => Document::of_selection(record, options).page().text(options.look),
        View::Why => why(record, options).text(options.look),
    };
    Ok(out.write_all(text.as_bytes())?)
}

pub(super) static MARKDOWN: Format = Format {
    name: "md",
    extension: "md",
    summary: "Markdown: answer and matrix, for a pull request or a wiki (--full: all tables)",
    is_for_people: true,
    draws_charts: false,
    render: render_markdown,
};

fn render_markdown(record: &RunRecord, options: &RenderOptions, out: &mut dyn Write) -> Rendered {
    let page = match options.view {
        View::Screen => screen::page(record, options),
        View::Why => why(record, options),
        View::Full => {
            let mut page = Document::of_selection(record, options).page();
            // A terminal sets the origin apart by an empty line.
            let facts = page.blocks.iter().rposition(|block| matches!(block, Block::Facts(_)));
            page.blocks.insert(facts.unwrap_or(0), Block::Heading("Record".to_owned()));
            page
        }
    };
    Ok(out.write_all(page.markdown().as_bytes())?)
}

/// Parts of the reasons for doubt, with the noun of what they count.
const PARTS: [(Subject, &str, &str); 5] = [
    (Subject::Row, "Rows without a level", "row"),
    (Subject::Absent, "Left out: not possible on this device", "row"),
    (Subject::Block, "Blocks that rows leave out", "block"),
    (Subject::Cell, "Cells that fail a gate", "cell"),
    (Subject::Warning, "Warnings about rows", "row"),
];

/// The reasons for doubt of the selected mechanisms and axes.
fn why(record: &RunRecord, options: &RenderOptions) -> Page {
    let glance = Glance::of(record, &options.selection, ROWS_MAX);
    let mut page = Page::new(document::title(record));
    if glance.reasons.is_empty() {
        page.say("No doubt: every row has a level, and no cell fails a gate.");
    }
    for (subject, heading, noun) in PARTS {
        let mut groups = glance.reasons.iter().filter(|one| one.subject == subject).peekable();
        if groups.peek().is_some() {
            page.push(Block::Heading(heading.to_owned()));
        }
        for group in groups {
            doubt(&mut page, group, noun);
        }
    }
    page
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
