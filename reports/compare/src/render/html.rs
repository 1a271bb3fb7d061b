//! The comparison as one HTML page: no script, no network.

use super::words::Document;

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;margin:1.5rem auto;max-width:80rem;\
padding:0 1rem;color:#1a1a1a;background:#fff}table{border-collapse:collapse;width:100%}\
th,td{text-align:left;padding:.3rem .5rem;border-bottom:1px solid #ccc;vertical-align:top}\
.regressed td:first-child{color:#a40000;font-weight:700}.improved td:first-child{color:#05620e}\
div{overflow-x:auto}caption{text-align:left;padding:.5rem 0;font-weight:600}\
h2{font-size:1rem;overflow-wrap:anywhere}.charts{display:grid;gap:1rem;\
grid-template-columns:repeat(auto-fill,minmax(min(21rem,100%),1fr))}figure{margin:0}\
figcaption{font-size:.85rem}svg{width:100%;height:auto;max-width:32rem;font-size:11px}\
svg path{fill:none}svg .grid{stroke:#ddd}svg .line{stroke:#7d9cc0}\
svg .level{stroke:#c9d8ea;stroke-width:6}\
svg .dots{stroke:#1f4e86;stroke-width:3.5;stroke-linecap:round}\
svg .event{stroke:#444;stroke-dasharray:4 3}svg .worse{stroke:#a40000}\
svg .better{stroke:#05620e}svg .alarm{fill:none;stroke:#a40000}\
svg text{fill:#444;paint-order:stroke}\
svg text[class]{stroke:#fff;stroke-width:3px;stroke-dasharray:none}\
svg text.worse{fill:#a40000}svg text.better{fill:#05620e}";

pub(super) fn diff(document: &Document) -> String {
    let rows: String = document
        .rows
        .iter()
        .map(|row| {
            let class = row.verdict.trim_end_matches('*').to_lowercase();
            let cells = row.columns().map(|(_, cell)| format!("<td>{}</td>", escape(cell)));
            format!("<tr class=\"{class}\">{}</tr>\n", cells.concat())
        })
        .collect();
    let names = document.rows.first().map(|row| row.columns().map(|(name, _)| name));
    let head: String =
        names.into_iter().flatten().map(|name| format!("<th scope=\"col\">{name}</th>")).collect();
    let table = format!(
        "<div><table><caption>Every row, primary ones first</caption>\n\
         <thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n"
    );
    let below = [document.doubts.as_slice(), &document.summary].concat();
    page("gpubench diff", &document.title, &document.notices, &table, &below)
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
        lines.iter().map(|line| format!("<li>{}</li>\n", escape(line))).collect()
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
