//! The table "Where do I put" of the map, read as recipes.

/// One row: what to copy, which files are new and which lines go where.
#[derive(Debug, PartialEq, Eq)]
pub struct Recipe {
    /// What is added, as the first column says.
    pub kind: String,
    /// The entry to copy, in snake case.
    pub copied: String,
    /// New files, with `x` for the name.
    pub files: Vec<String>,
    /// Files and the lines that they get, with `x` for the name.
    pub lines: Vec<(String, String)>,
}

const HEADING: &str = "## Where do I put";

/// The rows that say which entry to copy; a row with `-` there is for people only.
pub fn recipes(map: &str) -> Result<Vec<Recipe>, String> {
    let mut section = map.lines().skip_while(|line| !line.starts_with(HEADING));
    section.next().ok_or_else(|| format!("no heading {HEADING:?}"))?;
    let rows = section.take_while(|line| !line.starts_with("## "));
    let rows = rows.filter(|line| line.starts_with("| ") && !line.starts_with("| to add"));
    let found = rows.filter_map(|row| recipe(row).transpose());
    found.collect()
}

fn recipe(row: &str) -> Result<Option<Recipe>, String> {
    let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
    let [kind, copied, files, lines] = cells.as_slice() else {
        return Err(format!("four columns are needed: {row}"));
    };
    let Some(copied) = quoted(copied).next() else {
        return Ok(None);
    };
    let mut placed = Vec::new();
    let mut file = None;
    for text in quoted(lines) {
        if is_file(text) {
            file = Some(text);
        } else {
            let file = file.ok_or_else(|| format!("{kind}: `{text}` goes into no file"))?;
            placed.push((file.to_owned(), text.to_owned()));
        }
    }
    Ok(Some(Recipe {
        kind: (*kind).to_owned(),
        copied: copied.replace('-', "_"),
        files: quoted(files).map(str::to_owned).collect(),
        lines: placed,
    }))
}

fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

fn is_file(text: &str) -> bool {
    let endings = [".rs", ".toml", ".md", ".json"];
    text.contains('/') && !text.contains(' ') && endings.iter().any(|end| text.ends_with(end))
}
