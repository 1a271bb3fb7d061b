//! The report as a self-contained HTML page: tables and plot.

use super::svg::svg;
use super::table::table;
use crate::simulate::report::Report;

/// The report as a page.
pub fn html(report: &Report) -> String {
    let plot = report.sweep.as_ref().map(svg).unwrap_or_default();
    let tables = escape(&table(report));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <title>gpubench simulate</title>\n\
         <style>body{{font-family:sans-serif;max-width:60em;margin:2em auto}}\
         svg{{max-width:100%}}pre{{overflow-x:auto}}</style>\n</head>\n<body>\n\
         <h1>Predicted latency under GPU sharing</h1>\n\
         <p>Figures of a queueing model. Nothing here was measured.</p>\n\
         {plot}<pre>{tables}</pre>\n</body>\n</html>\n"
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
