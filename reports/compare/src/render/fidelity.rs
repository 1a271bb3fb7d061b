//! A model beside records of hardware as text, Markdown or JSON.

use gpubench_show::{Block, Cell, Look, Notes, Page, Paint, Table};

use super::{Format, RenderError, VIRTUAL_TITLE, written};
use crate::fidelity::{
    Check, Compared, Conclusion, CrossCheck, CrossRow, Device, Fidelity, Row, Verdict,
};

/// The table in one of the formats. Text has the worst figure of each row, Markdown every figure.
/// Fails when JSON cannot represent it.
pub fn fidelity(table: &Fidelity, format: Format, look: Look) -> Result<String, RenderError> {
    written(|format| page(table, format), [], table, format, look)
}

/// What the signs and bounds of every figure mean.
const RULES: [&str; 2] = [
    "! is more optimistic than the hardware, x is outside its bounds, ? is open in the record",
    "Bounds: retention, guarantee and work 10 %, jitter 25 % or 0.1 native medians, proportions \
     0.05, figures of probes 25 %, detection of faults within the model's 5 % and 95 % points, \
     refusals within a factor of 4; below a retention of 0.05 the level decides",
];

fn page(table: &Fidelity, format: Format) -> Page {
    let mut page = Page::new("The virtual GPU beside hardware");
    page.notice(VIRTUAL_TITLE);
    for record in &table.records {
        page.push(Block::Heading(record.record.clone()));
        page.say(title(record));
        page.push(Block::Gap);
        let mut notes = Notes::default();
        page.push(rows(record, format, &mut notes));
        let notes = notes.into_texts();
        if !notes.is_empty() {
            page.push(Block::Notes(notes));
        }
        record.cross_checks.iter().for_each(|check| add_law(&mut page, check));
    }
    page.push(Block::Gap);
    RULES.into_iter().for_each(|rule| page.say(rule));
    page.push(Block::Gap);
    summary(table).into_iter().for_each(|sentence| page.say(sentence));
    page
}

fn rows(record: &Compared, format: Format, notes: &mut Notes) -> Table {
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for row in &record.rows {
        let checks: Vec<&Check> = match format {
            Format::Text => row.worst().into_iter().collect(),
            _ => row.checks.iter().collect(),
        };
        for check in checks {
            let is_wrong = check.verdict > Verdict::Within;
            let reason = row.reason.as_deref().map(|reason| format!("known: {reason}"));
            let reason = reason.unwrap_or_else(|| "no reason is listed".to_owned());
            let note = is_wrong.then(|| notes.number(&reason));
            let error = check.error.map_or_else(String::new, percent);
            rows.push(vec![
                sign(check.verdict).with_notes(note.into_iter().collect()),
                Cell::text(row.key()),
                Cell::text(&check.figure),
                Cell::text(&check.real),
                Cell::text(&check.model),
                Cell::text(error),
            ]);
        }
    }
    let columns = ["", "row", "figure", "real", "virtual", "error"];
    let table = Table::new("", "", columns, rows).numbers(&["real", "virtual", "error"]);
    Table { boxed: false, ..table }
}

fn sign(verdict: Verdict) -> Cell {
    let (sign, paint) = match verdict {
        Verdict::Open => ("?", Paint::Weak),
        Verdict::Within => return Cell { lines: vec![String::new()], ..Cell::text("") },
        Verdict::Outside => ("x", Paint::Bad),
        Verdict::Optimistic => ("!", Paint::Bad),
    };
    Cell::text(sign).painted(paint, "")
}

/// A law of sharing, and what it predicts.
fn add_law(page: &mut Page, check: &CrossCheck) {
    page.push(Block::Gap);
    page.say(law(check));
    let rows = check.rows.iter().map(|row| {
        let error = Cell::text(row.error.map_or_else(String::new, percent));
        let paint = if row.holds() { Paint::Plain } else { Paint::Bad };
        let figures = [format!("{:.0}", row.blocks), format!("{:.3}", row.real)];
        let [blocks, real] = figures.map(Cell::text);
        let predicted = Cell::text(format!("{:.3}", row.predicted));
        let texts = [Cell::text(&row.mechanism), Cell::text(kind(row)), blocks, real, predicted];
        texts.into_iter().chain([error.painted(paint, "")]).collect()
    });
    let columns = ["mechanism", "", "blocks of the aggressor", "real", "law", "error"];
    let numbers = ["blocks of the aggressor", "real", "law", "error"];
    let table = Table::new("", "", columns, rows).numbers(&numbers);
    page.push(Table { boxed: false, ..table });
}

fn percent(error: f64) -> String {
    if error.abs() < 10.0 {
        format!("{:+.0} %", 100.0 * error)
    } else {
        format!("x{:.0}", error + 1.0)
    }
}

fn title(record: &Compared) -> String {
    let device = |device: &Device| format!("{}, driver {}", device.product, device.driver);
    format!(
        "{}: {} (real, {} blocks) against {} (virtual:{}, {} blocks), seed {}",
        record.record,
        device(&record.real),
        record.real.blocks,
        device(&record.model),
        record.machine,
        record.model.blocks,
        record.seed
    )
}

fn law(check: &CrossCheck) -> String {
    let cap = check
        .cap
        .map_or_else(String::new, |cap| format!(", at most {cap:.0} blocks of the aggressor"));
    format!(
        "Sharing of {}, fitted to two rows of the record, predicts the others: weight {:.2}{cap}",
        check.resource, check.weight
    )
}

const fn kind(row: &CrossRow) -> &'static str {
    if row.fitted { "fitted" } else { "predicted" }
}

/// What the table says, the answer last.
fn summary(table: &Fidelity) -> Vec<String> {
    let mut sentences = vec![counts(table)];
    let laws = || table.records.iter().flat_map(|record| &record.cross_checks);
    let predicted = || laws().flat_map(|law| &law.rows).filter(|row| !row.fitted);
    if predicted().next().is_some() {
        let (held, all) = (predicted().filter(|row| row.holds()).count(), predicted().count());
        sentences.push(format!("cross-check: {held} of {all} predictions within 15 %"));
    }
    for line in &table.unneeded {
        sentences.push(format!("listed without need: {line}"));
    }
    let rows = || table.records.iter().flat_map(|record| &record.rows);
    let of = |verdict, listed| {
        let is = move |row: &&Row| row.verdict() == verdict && row.reason.is_some() == listed;
        rows().filter(is).count()
    };
    sentences.push(format!(
        "{} rows: {} outside their bounds ({} of them listed with a reason), {} more optimistic \
         than the hardware ({} listed)",
        rows().count(),
        of(Verdict::Outside, true) + of(Verdict::Outside, false),
        of(Verdict::Outside, true),
        of(Verdict::Optimistic, true) + of(Verdict::Optimistic, false),
        of(Verdict::Optimistic, true),
    ));
    let answer = match table.conclusion() {
        Conclusion::Holds => "the model holds: every difference is listed with its reason",
        Conclusion::Differs => "the model differs from the record beyond what is listed",
        Conclusion::Optimistic => "the model is more optimistic than the hardware",
    };
    sentences.push(answer.to_owned());
    sentences
}

/// How many checks of each figure are within their bounds.
fn counts(table: &Fidelity) -> String {
    let mut names: Vec<(&str, [u32; 2])> = Vec::new();
    let rows = table.records.iter().flat_map(|record| &record.rows);
    for check in rows.flat_map(|row| &row.checks) {
        if check.verdict == Verdict::Open {
            continue;
        }
        let name = if check.figure.ends_with("/s") { "work" } else { &check.figure };
        let at = names.iter().position(|(known, _)| *known == name);
        let at = at.unwrap_or_else(|| {
            names.push((name, [0, 0]));
            names.len() - 1
        });
        names[at].1[0] += u32::from(check.verdict == Verdict::Within);
        names[at].1[1] += 1;
    }
    let texts = names.iter().map(|(name, [within, all])| format!("{name} {within}/{all}"));
    format!("within bounds: {}", texts.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use gpubench_show::Look;

    use super::fidelity;
    use crate::fidelity::{Check, Compared, Device, FORMAT, Fidelity, Row, Verdict};
    use crate::render::{Format, RenderError};

    fn table() -> Fidelity {
        let device = |product: &str| Device {
            product: product.to_owned(),
            driver: "580".to_owned(),
            blocks: 8,
        };
        let row = |variant: &str, figure: &str, verdict, reason: Option<&str>| Row {
            variant: variant.to_owned(),
            name: "bandwidth/dram".to_owned(),
            checks: vec![Check {
                figure: figure.to_owned(),
                real: "0.160".to_owned(),
                model: "0.726".to_owned(),
                error: Some(3.54),
                verdict,
            }],
            reason: reason.map(str::to_owned),
        };
        Fidelity {
            fidelity_format: FORMAT,
            records: vec![Compared {
                record: "h100_580_matrix".to_owned(),
                real: device("NVIDIA H100"),
                model: device("Virtual H100"),
                machine: "h100-80".to_owned(),
                seed: 1,
                rows: vec![
                    row("mps", "level", Verdict::Optimistic, None),
                    row(&"long-name".repeat(6), "retention", Verdict::Outside, Some("it | is so")),
                    row("hami", "retention", Verdict::Within, None),
                ],
                cross_checks: Vec::new(),
            }],
            unneeded: Vec::new(),
        }
    }

    #[test]
    fn text_fits_the_terminal_marks_rows_and_ends_with_the_answer() -> Result<(), RenderError> {
        let text = fidelity(&table(), Format::Text, Look { width: 80, color: false })?;
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("mps bandwidth/dram"), "{text}");
        assert!(text.contains("known: it | is so"), "{text}");
        let last = text.lines().last();
        assert_eq!(last, Some("the model is more optimistic than the hardware"));
        Ok(())
    }

    #[test]
    fn a_row_that_the_model_gets_wrong_stays_in_the_table_with_its_reason()
    -> Result<(), RenderError> {
        let text = fidelity(&table(), Format::Markdown, Look::PIPED)?;
        let line = |of: &str| text.lines().find(|line| line.contains(of)).unwrap_or_default();
        assert!(line("long-name").starts_with("| x (note 2)"), "{text}");
        assert!(line("mps").starts_with("| ! (note 1)"), "{text}");
        assert!(text.contains("2. known: it \\| is so"), "{text}");
        assert!(line("hami").starts_with("|  | hami"), "{text}");
        Ok(())
    }
}
