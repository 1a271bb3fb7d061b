//! The document as one HTML page: no script, no fonts, no network. `maud` escapes every text.

use gpubench_record::acts;
use maud::{Markup, PreEscaped, html};

use crate::model::{Block, Cell, Kind, Page, Table};

/// The style of every page.
pub const STYLE: &str = include_str!("style.css");

/// The begin of a page, with a policy that allows no network and no script, or the one with this
/// SHA-256 in base64.
pub fn head(script: Option<&str>) -> String {
    let script = script.map(|hash| format!("script-src 'sha256-{hash}'; ")).unwrap_or_default();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src \
         'unsafe-inline'; {script}img-src data:; base-uri 'none'; form-action 'none'\"/>\n\
         <link rel=\"icon\" href=\"data:,\"/>\n"
    )
}

pub(crate) fn page(page: &Page) -> String {
    let notes = page.blocks.iter().find_map(|block| match block {
        Block::Notes(notes) => Some(notes.as_slice()),
        _ => None,
    });
    let notes = notes.unwrap_or_default();
    let is_chart = |block: &Block| matches!(block, Block::Chart(_));
    let groups = page.blocks.chunk_by(|one, next| is_chart(one) && is_chart(next));
    let body = html! {
        title { (page.title) }
        style { "\n" (PreEscaped(STYLE)) }
        (PreEscaped("</head>\n<body>\n"))
        main {
            h1 { (page.title) } "\n"
            @for group in groups {
                @if is_chart(&group[0]) {
                    div class="charts" { @for one in group { (block(one, notes)) } }
                } @else {
                    (block(&group[0], notes))
                }
            }
        }
        (PreEscaped("</body>\n</html>\n"))
    };
    head(None) + &allowed(&body.into_string())
}

fn block(block: &Block, notes: &[String]) -> Markup {
    html! {
        @match block {
            Block::Heading(text) => h2 { (text) },
            Block::Notice(text) => p { strong { (text) } },
            Block::Text(line) => p {
                @if let Some((mark, _)) = &line.mark { strong { (mark) } " " }
                (line.text)
            },
            Block::Table(of) => (table(of, notes, &[])),
            Block::Notes(notes) => ol { @for note in notes { li { (note) } } },
            Block::Facts(facts) => dl {
                @for (name, text) in facts { dt { (name) } dd { (text) } }
            },
            Block::Chart(chart) => figure {
                figcaption { (chart.caption) } "\n" (PreEscaped(&chart.svg))
            },
            Block::Gap => {},
        }
        @if !matches!(block, Block::Gap) { "\n" }
    }
}

/// A table with its caption, inside a box that scrolls where the page is narrower. A row has the id
/// that stands at its place in `ids`, if there is one.
pub fn table(of: &Table, notes: &[String], ids: &[Option<String>]) -> Markup {
    let id = (!of.id.is_empty()).then(|| format!("t-{}", of.id));
    html! {
        div class="scroll" tabindex="0" role="region" aria-label=(of.heading) {
            table id=[id] {
                @if !of.heading.is_empty() { caption { (of.heading) } }
                thead { tr { @for column in &of.columns { th scope="col" { (column.name) } } } }
                tbody {
                    @for (at, row) in of.rows.iter().enumerate() {
                        tr id=[ids.get(at).and_then(Option::as_ref)] {
                            @for (one, column) in row.iter().zip(&of.columns) {
                                (cell(one, column.kind, notes))
                            }
                        }
                        "\n"
                    }
                }
            }
        }
        "\n"
    }
}

fn cell(of: &Cell, kind: Kind, notes: &[String]) -> Markup {
    let class = match kind {
        Kind::Number => Some("figure"),
        Kind::Text => Some(of.class).filter(|class| !class.is_empty()),
    };
    let (first, soft) = of.lines.split_at(1);
    html! {
        td class=[class] {
            @match kind {
                Kind::Number => {
                    (first.concat())
                    @if !soft.is_empty() { " " i { (soft.join(" ")) } }
                },
                Kind::Text => @for (index, line) in of.lines.iter().enumerate() {
                    @if index > 0 { (PreEscaped("<br/>")) }
                    (line)
                },
            }
            @for note in of.notes.iter().filter_map(|number| notes.get(number - 1)) {
                span class="reason" { (note) }
            }
        }
    }
}

/// The text without characters that HTML and XML do not allow, whatever a record holds.
pub fn allowed(text: &str) -> String {
    let replace = |c: char| match c {
        '\n' => c,
        c if acts(c) => '\u{fffd}',
        c => c,
    };
    text.chars().map(replace).collect()
}

/// The text with markup escaped, for SVG that is written without `maud`.
pub fn escape(text: &str) -> String {
    allowed(&html! { (text) }.into_string())
}
