//! A model beside records of hardware as text, Markdown or JSON.

mod markdown;
#[cfg(test)]
mod tests;
mod text;

use super::{RenderError, json};
use crate::fidelity::{Compared, Conclusion, CrossCheck, CrossRow, Device, Fidelity, Row, Verdict};

/// Form of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FidelityFormat {
    /// For a terminal of 80 columns: one line for each row.
    Text,
    /// Every figure of every row.
    Markdown,
    /// Everything, for programs.
    Json,
}

impl FidelityFormat {
    /// Every format by name.
    pub const ALL: [(&'static str, Self); 3] =
        [("text", Self::Text), ("md", Self::Markdown), ("json", Self::Json)];
}

/// The table in one of the formats.
///
/// # Errors
/// When JSON cannot represent it.
pub fn fidelity(table: &Fidelity, format: FidelityFormat) -> Result<String, RenderError> {
    match format {
        FidelityFormat::Text => Ok(text::text(table)),
        FidelityFormat::Markdown => Ok(markdown::markdown(table)),
        FidelityFormat::Json => json(table),
    }
}

/// The schema of its JSON.
#[must_use]
pub fn fidelity_schema() -> schemars::Schema {
    schemars::schema_for!(Fidelity)
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

fn prediction(row: &CrossRow) -> String {
    format!(
        "{:.3} against {:.3} measured, {}",
        row.predicted,
        row.real,
        row.error.map_or_else(|| "no ratio".to_owned(), percent)
    )
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
