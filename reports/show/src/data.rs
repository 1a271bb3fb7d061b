//! Writers for programs: CSV, JSON and JUnit.

use csv::{Terminator, WriterBuilder};
use quick_junit::Report;
use serde::Serialize;

use crate::html::allowed;
use crate::model::{Cell, MISSING_TEXT, Table};

/// The tables as CSV (RFC 4180), one after the other, each with its header. Lines of a cell are
/// separated by spaces, and a missing figure is an empty field.
pub fn csv<'a>(tables: impl Iterator<Item = &'a Table>) -> String {
    let mut lines =
        WriterBuilder::new().terminator(Terminator::CRLF).flexible(true).from_writer(Vec::new());
    for table in tables {
        let header = lines.write_record(table.columns.iter().map(|one| &one.name));
        let rows = table.rows.iter().try_for_each(|row| lines.write_record(row.iter().map(field)));
        // Memory accepts every byte.
        debug_assert!(header.is_ok() && rows.is_ok());
    }
    let bytes = lines.into_inner().unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_default()
}

/// A missing figure is an empty field.
fn field(cell: &Cell) -> String {
    let text = cell.lines.join(" ");
    if text == MISSING_TEXT { String::new() } else { inert(text) }
}

/// A field that a spreadsheet does not take for a formula: it begins with an apostrophe then.
pub fn inert(field: impl AsRef<str>) -> String {
    let field = allowed(field.as_ref());
    let signed = field.strip_prefix(['+', '-']);
    let is_formula = match signed {
        Some(_) if field.parse::<f64>().is_ok() || field == MISSING_TEXT => false,
        Some(rest) => !rest.starts_with(|c: char| c.is_ascii_digit()) || rest.contains(OPERATORS),
        None => field.starts_with(['=', '@']),
    };
    if is_formula { format!("'{field}") } else { field }
}

/// What makes a formula of a number with a sign.
const OPERATORS: [char; 9] = ['=', '+', '*', '/', '(', '|', '!', '@', '&'];

/// A value as indented JSON that ends in a line feed.
/// Fails when JSON cannot represent it.
pub fn json(value: &impl Serialize) -> Result<String, serde_json::Error> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

/// The test cases as JUnit XML.
/// Fails when XML cannot represent them.
pub fn junit(report: &Report) -> Result<String, String> {
    let text = report.to_string().map_err(|error| error.to_string())?;
    // The schema of Jenkins has no count of skipped cases at the root, and the library writes one.
    let parts = text.split_once(" skipped=\"");
    let parts = parts.and_then(|(head, tail)| Some((head, tail.split_once('"')?.1)));
    Ok(parts.map_or_else(|| text.clone(), |(head, tail)| format!("{head}{tail}")))
}

#[cfg(test)]
mod tests {
    use super::inert;

    #[test]
    fn a_field_is_no_formula_and_a_number_stays_one() {
        for field in ["-0.5", "+1e-3", "-", "-0.3 %", "-2 to 3", "a=1", "", "0.97"] {
            assert_eq!(inert(field), field);
        }
        for field in ["=1+1", "@SUM(A1)", "-2+3|cmd", "+cmd|' /C calc'!A0", "-A1"] {
            assert_eq!(inert(field), format!("'{field}"));
        }
    }
}
