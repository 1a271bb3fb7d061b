//! The report as one self-contained HTML page, without fonts or network. One script compares.

mod charts;
mod choice;
mod curves;
mod details;
mod faults;
mod forest;
mod head;
mod neighbours;
#[cfg(test)]
mod tests;
mod time;

use std::io::Write;

use gpubench_record::RunRecord;
use maud::{Markup, PreEscaped, html};

use super::document::Document;
use gpubench_show::html::{STYLE, allowed};

use super::{Format, RenderOptions, Rendered};
use crate::matrix::{Glance, Selection};
use charts::Variants;

pub(super) static FORMAT: Format = Format {
    name: "html",
    extension: "html",
    summary: "one self-contained page with heat map, interval plots, latency curves and a glossary",
    is_for_people: true,
    draws_charts: true,
    render,
};

fn render(record: &RunRecord, options: &RenderOptions, out: &mut dyn Write) -> Rendered {
    let page = page(record, options).into_string();
    let head = gpubench_show::html::head(Some(choice::SCRIPT_SHA256));
    out.write_all(head.as_bytes())?;
    out.write_all(allowed(&page).as_bytes())?;
    Ok(())
}

struct Section {
    id: &'static str,
    title: &'static str,
    body: Option<Markup>,
}

fn page(record: &RunRecord, options: &RenderOptions) -> Markup {
    let mut document = Document::of(record, options);
    for (name, text) in &mut document.footer {
        // The same record gives the same page from wherever it is read.
        if *name == "record" {
            *text = text.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned();
        }
    }
    let glance = Glance::of(record, &Selection::default(), usize::MAX);
    let variants = Variants::of(record, &glance);
    let sections: Vec<Section> = sections(record, options, &document, &glance, &variants)
        .into_iter()
        .filter(|section| section.body.is_some())
        .collect();
    html! {
        title { (document.title) ", driver " (record.device.driver) ", " (head::date(record)) }
        style { "\n" (PreEscaped(STYLE)) }
        (PreEscaped("</head>\n<body>\n"))
        header {
            (head::head(record, &glance, &document))
            (head::heat_map(record, &glance))
            nav class="toc" aria-label="Contents" {
                @for section in &sections { a href={ "#" (section.id) } { (section.title) } }
                a href="#levels" { "How levels come about" }
                a href="#glossary" { "Glossary" }
            }
        }
        "\n"
        main {
            @for section in &sections {
                section id=(section.id) aria-label=(section.title) {
                    h2 { (section.title) }
                    @if let Some(body) = &section.body { (body) }
                }
                "\n"
            }
            details id="levels" {
                summary { "How levels come about" }
                pre class="guide" { (LEVELS) }
            }
            (glossary())
        }
        (PreEscaped("</body>\n</html>\n"))
    }
}

fn sections(
    record: &RunRecord,
    options: &RenderOptions,
    document: &Document,
    glance: &Glance,
    variants: &Variants<'_>,
) -> [Section; 10] {
    let section = |id, title, body| Section { id, title, body };
    let timeline = options.timeline.as_ref();
    [
        section("baseline", "Against a baseline", options.diff.as_ref().map(details::baseline)),
        section("choice", "What to use when", choice::choice(record, variants)),
        section("forest", "Intervals", forest::forest(record, variants)),
        section("latency", "Latency", curves::latency(record, &options.latency, variants)),
        section("neighbours", "Neighbours", neighbours::neighbours(record, variants)),
        section("dose", "Dose and tenants", curves::dose(record, variants)),
        section("time", "Over time", time::time(record, &options.retention, timeline, variants)),
        section("faults", "Faults and escapes", faults::faults(record, variants)),
        section("slices", "Time slices and SMs", time::slices(record, variants)),
        section("details", "Details", Some(details::details(document, record, glance))),
    ]
}

/// The guide of levels, as it is.
const LEVELS: &str = include_str!("../../book/src/explanation/levels.md");

/// A copy of `harness/GLOSSARY.md`, because a package holds its own files only.
const GLOSSARY: &str = include_str!("html/glossary.md");

/// The words and the meaning of each entry, from the table in the glossary.
fn entries() -> impl Iterator<Item = (&'static str, &'static str)> {
    let rows = GLOSSARY.lines().filter(|line| line.starts_with("| "));
    rows.skip(1).filter_map(|row| row.trim_matches(['|', ' ']).split_once(" | "))
}

/// A collapsed section with every entry.
pub(super) fn glossary() -> Markup {
    html! {
        details id="glossary" {
            summary { "Glossary" }
            dl {
                @for (words, meaning) in entries() {
                    dt { (words) } dd { (meaning.replace('`', "")) } "\n"
                }
            }
        }
        "\n"
    }
}

#[cfg(test)]
mod glossary_tests {
    use super::{entries, glossary};

    #[test]
    fn the_glossary_is_that_of_the_repository() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../harness/GLOSSARY.md");
        let text = std::fs::read_to_string(path).expect("harness/GLOSSARY.md");
        assert_eq!(super::GLOSSARY, text, "copy {path} to reports/src/format/html/glossary.md");
    }

    #[test]
    fn holds_every_row_of_the_glossary() {
        let rows = super::GLOSSARY.lines().filter(|line| line.starts_with('|'));
        assert_eq!(entries().count(), rows.count() - 2);
        assert!(entries().all(|(_, meaning)| !meaning.contains('|')));
        assert_eq!(glossary().into_string().matches("<dt>").count(), entries().count());
        for word in ["abiding victim", "retention", "workload"] {
            assert!(glossary().into_string().contains(&format!("<dt>{word}</dt>")), "{word}");
        }
    }
}
