//! Every figure of every row as Markdown; what the model gets wrong is bold and red.

use super::{kind, law, percent, summary, title};
use crate::fidelity::{Check, CrossCheck, Fidelity, Row, Verdict};
use crate::render::VIRTUAL_TITLE;
use crate::render::markdown::escape;

pub(super) fn markdown(table: &Fidelity) -> String {
    let mut text = format!("# The virtual GPU beside hardware\n\n{VIRTUAL_TITLE}.\n\n");
    text += "A row outside its bounds is bold with a red mark and the reason; \
             `optimistic` marks a row in which the model isolates better than the hardware did. \
             Bounds: retention, guarantee and work 10 %, jitter 25 % or 0.1 native medians, \
             proportions 0.05, figures of probes 25 %, detection of faults within the model's 5 % \
             and 95 % points, refusals within a factor of 4; below a retention of 0.05 the level \
             decides.\n\n";
    for sentence in summary(table) {
        text += &format!("- {}\n", escape(&sentence));
    }
    for record in &table.records {
        text += &format!("\n## {}\n\n{}.\n\n", escape(&record.record), escape(&title(record)));
        text += "| row | figure | real | virtual | error | |\n|---|---|---|---|---|---|\n";
        for row in &record.rows {
            for (at, check) in row.checks.iter().enumerate() {
                text += &markdown_line(row, check, at == 0);
            }
        }
        for check in &record.cross_checks {
            text += &markdown_law(check);
        }
    }
    text
}

fn markdown_line(row: &Row, check: &Check, is_first: bool) -> String {
    let is_wrong = check.verdict > Verdict::Within;
    let name = if is_first { escape(&row.key()) } else { String::new() };
    let error = check.error.map_or_else(String::new, percent);
    let cells = [&check.figure, &check.real, &check.model, &error].map(|cell| escape(cell));
    let bold = |cell: &String| {
        if is_wrong && !cell.is_empty() { format!("**{cell}**") } else { cell.clone() }
    };
    let note = match check.verdict {
        Verdict::Within => String::new(),
        Verdict::Open => "open in the record".to_owned(),
        Verdict::Outside | Verdict::Optimistic => {
            let kind = if check.verdict == Verdict::Optimistic { "optimistic: " } else { "" };
            let reason = row.reason.as_deref().unwrap_or("no reason is listed");
            format!("\u{1f534} {kind}{}", escape(reason))
        }
    };
    let cells: Vec<String> = cells.iter().map(bold).collect();
    format!("| {} | {} | {note} |\n", bold(&name), cells.join(" | "))
}

fn markdown_law(check: &CrossCheck) -> String {
    let mut text = format!("\n{}.\n\n", escape(&law(check)));
    text += "| mechanism | | blocks of the aggressor | real | law | error |\n";
    text += "|---|---|---|---|---|---|\n";
    for row in &check.rows {
        let error = row.error.map_or_else(String::new, percent);
        let error = if row.holds() { error } else { format!("\u{1f534} **{error}**") };
        text += &format!(
            "| {} | {} | {:.0} | {:.3} | {:.3} | {error} |\n",
            row.mechanism,
            kind(row),
            row.blocks,
            row.real,
            row.predicted
        );
    }
    text
}
