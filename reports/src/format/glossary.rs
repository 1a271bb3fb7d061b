//! The glossary of the HTML report, from `harness/GLOSSARY.md`.

use maud::{Markup, html};

const GLOSSARY: &str = include_str!("../../../harness/GLOSSARY.md");

/// The words and the meaning of each entry, from the table in the glossary.
fn entries() -> impl Iterator<Item = (&'static str, &'static str)> {
    let rows = GLOSSARY.lines().filter(|line| line.starts_with("| "));
    rows.skip(1).filter_map(|row| row.trim_matches(['|', ' ']).split_once(" | "))
}

/// A collapsed section with every entry.
pub(super) fn section() -> Markup {
    html! {
        details id="glossary" {
            summary { "Glossary" }
            dl {
                @for (words, meaning) in entries() {
                    dt { (words) } dd { (meaning.replace('`', "")) } "\n"
                }
            }
        }
        "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::{entries, section};

    #[test]
    fn holds_every_row_of_the_glossary() {
        let rows = super::GLOSSARY.lines().filter(|line| line.starts_with('|'));
        assert_eq!(entries().count(), rows.count() - 2);
        assert!(entries().all(|(_, meaning)| !meaning.contains('|')));
        assert_eq!(section().into_string().matches("<dt>").count(), entries().count());
        for word in ["abiding victim", "retention", "workload"] {
            assert!(section().into_string().contains(&format!("<dt>{word}</dt>")), "{word}");
        }
    }
}
