//! The comparison as one HTML page: no script, no network.

use super::words::Document;

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;margin:1.5rem auto;max-width:80rem;\
padding:0 1rem;color:#1a1a1a;background:#fff}table{border-collapse:collapse;width:100%}\
th,td{text-align:left;padding:.3rem .5rem;border-bottom:1px solid #ccc;vertical-align:top}\
.regressed td:first-child{color:#a40000;font-weight:700}.improved td:first-child{color:#05620e}\
div{overflow-x:auto}caption{text-align:left;padding:.5rem 0;font-weight:600}";

pub(super) fn diff(document: &Document) -> String {
    let rows: String = document
        .rows
        .iter()
        .map(|row| {
            let class = row.verdict.trim_end_matches('*').to_lowercase();
            let cells = row
                .columns()
                .map(|(_, cell)| format!("<td>{}</td>", escape(cell)));
            format!("<tr class=\"{class}\">{}</tr>\n", cells.concat())
        })
        .collect();
    let names = document
        .rows
        .first()
        .map(|row| row.columns().map(|(name, _)| name));
    let head: String = names
        .into_iter()
        .flatten()
        .map(|name| format!("<th scope=\"col\">{name}</th>"))
        .collect();
    let table = format!(
        "<div><table><caption>Every row, primary ones first</caption>\n\
         <thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n"
    );
    page(
        "gpubench diff",
        &document.title,
        &document.notices,
        &table,
        &document.summary,
    )
}

/// A page with a title, a list above its tables, and one below.
pub(super) fn page(
    what: &str,
    title: &str,
    above: &[String],
    tables: &str,
    below: &[String],
) -> String {
    let title = escape(title);
    let items = |lines: &[String]| -> String {
        lines
            .iter()
            .map(|line| format!("<li>{}</li>\n", escape(line)))
            .collect()
    };
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <title>{what}: {title}</title>\n<style>{STYLE}</style></head>\n\
         <body><main><h1>{title}</h1>\n<ul>\n{}</ul>\n{tables}<ul>\n{}</ul></main></body></html>\n",
        items(above),
        items(below)
    )
}

/// The text with markup escaped, and without characters that XML does not have.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        escape_char(c, &mut escaped);
    }
    escaped
}

/// Appends a character with markup escaped.
pub(super) fn escape_char(c: char, escaped: &mut String) {
    match c {
        '<' => escaped.push_str("&lt;"),
        '>' => escaped.push_str("&gt;"),
        '&' => escaped.push_str("&amp;"),
        '"' => escaped.push_str("&quot;"),
        c if c.is_control() => escaped.push(' '),
        c => escaped.push(c),
    }
}
