//! Definitions of the project's words for the HTML report, from `harness/GLOSSARY.md`.

use super::markup::escape;

const GLOSSARY: &str = include_str!("../../../harness/GLOSSARY.md");

/// A glossary entry: its words and their meaning.
struct Entry {
    words: &'static str,
    meaning: &'static str,
}

/// The entries of the table in the glossary, without its head.
fn entries() -> impl Iterator<Item = Entry> {
    let rows = GLOSSARY.lines().filter(|line| line.starts_with("| "));
    rows.skip(1).filter_map(|row| {
        let (words, meaning) = row.trim_matches(['|', ' ']).split_once(" | ")?;
        Some(Entry { words, meaning })
    })
}

impl Entry {
    /// Whether `text`, in lower case, contains one of the words at the start of a word.
    fn is_used_in(&self, text: &str) -> bool {
        let mut words = self.words.split(", ");
        words.any(|word| {
            let mut found = text.match_indices(word);
            found.any(|(at, _)| !text[..at].ends_with(char::is_alphanumeric))
        })
    }
}

/// A collapsed section with the entries for the words that `page` contains.
pub(super) fn section(page: &str) -> String {
    let page = page.to_lowercase();
    let mut html = "<details id=\"glossary\">\n<summary>Glossary</summary>\n<dl>\n".to_owned();
    for entry in entries().filter(|entry| entry.is_used_in(&page)) {
        let meaning = escape(&entry.meaning.replace('`', ""));
        html += &format!("<dt>{}</dt><dd>{meaning}</dd>\n", escape(entry.words));
    }
    html += "</dl>\n</details>\n";
    html
}

#[cfg(test)]
mod tests {
    use super::{entries, section};

    #[test]
    fn reads_every_row_of_the_glossary() {
        let rows = super::GLOSSARY.lines().filter(|line| line.starts_with('|'));
        assert_eq!(entries().count(), rows.count() - 2);
        assert!(entries().all(|entry| !entry.meaning.contains('|')));
    }

    #[test]
    fn holds_the_words_of_the_page_and_no_others() {
        let html = section("<td>Retention beside the aggressor</td>");
        assert!(html.contains("<dt>retention</dt>") && html.contains("<dt>aggressor</dt>"));
        assert!(!html.contains("<dt>dose</dt>"), "{html}");
        // A word inside another word does not count.
        assert!(!section("overdose").contains("<dt>dose</dt>"));
    }
}
