//! The reports as text: for a terminal the matrix on one screen, all tables, or the reasons for
//! doubt, and Markdown.

use std::io::Write;

use gpubench_record::RunRecord;
use gpubench_show::{Block, Page};

use super::document::Document;
use super::{Format, RenderOptions, Rendered, View, neighbours, screen, why};

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
        View::Full => full(record, options).text(options.look),
        View::Why => why::page(record, options).text(options.look),
    };
    Ok(out.write_all(text.as_bytes())?)
}

/// All tables below the sentences of the screen: what a small terminal cuts of them is here.
fn full(record: &RunRecord, options: &RenderOptions) -> Page {
    let answer = screen::answer(record, options);
    Document { answer, ..Document::of_selection(record, options) }.page()
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
        View::Why => why::page(record, options),
        View::Full => {
            let mut page = full(record, options);
            // A terminal sets the origin apart by an empty line.
            let facts = page.blocks.iter().rposition(|block| matches!(block, Block::Facts(_)));
            page.blocks.insert(facts.unwrap_or(0), Block::Heading("Record".to_owned()));
            page
        }
    };
    Ok(out.write_all(page.markdown().as_bytes())?)
}
