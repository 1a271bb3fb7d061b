//! Lists of protocol version 3: their columns and output formats.

use super::MpsError;

/// Columns of `server list`.
pub const SERVER: [&str; 7] =
    ["name", "uid", "pid", "status", "pipe-directory", "allowed-devices", "context-ids"];
/// Columns of `client list`.
pub const CLIENT: [&str; 5] = ["pid", "server", "device", "namespace", "cmd"];

/// A list in a format: `table` or `csv`, optionally without its header.
pub fn table(format: &str, columns: &[&str], rows: &[Vec<String>]) -> Result<String, MpsError> {
    let (form, head) = match format.split_once(',') {
        Some((form, "noheader")) => (form, false),
        None => (format, true),
        Some(_) => return Err(unknown(format)),
    };
    let head = head.then(|| columns.iter().map(|name| (*name).to_owned()).collect());
    let all: Vec<Vec<String>> = head.into_iter().chain(rows.iter().cloned()).collect();
    let line = |row: &Vec<String>| match form {
        "csv" => row.join(","),
        _ => pad(row, &all),
    };
    match form {
        "csv" | "table" => Ok(all.iter().map(|row| line(row) + "\n").collect()),
        _ => Err(unknown(format)),
    }
}

fn unknown(format: &str) -> MpsError {
    let accepted = "table or csv, each optionally with ,noheader";
    MpsError::Refused(format!("{format:?} is not a format (accepted: {accepted})"))
}

/// A row with every cell as wide as its column.
fn pad(row: &[String], all: &[Vec<String>]) -> String {
    let wide = |at: usize| all.iter().map(|row| row[at].len()).max().unwrap_or(0);
    let cells = row.iter().enumerate();
    let padded: Vec<String> =
        cells.map(|(at, cell)| format!("{cell:<width$}", width = wide(at))).collect();
    padded.join("  ").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn lists_have_the_requested_format() -> Result<(), Box<dyn std::error::Error>> {
        let rows = [vec!["1".to_owned(), "long one".to_owned()]];
        let of = |format| table(format, &["name", "b"], &rows);
        assert_eq!(of("csv,noheader")?, "1,long one\n");
        assert_eq!(of("csv")?, "name,b\n1,long one\n");
        assert_eq!(of("table")?, "name  b\n1     long one\n");
        assert!(of("yaml").is_err() && of("csv,head").is_err());
        Ok(())
    }
}
