//! What a careful reader does with the first screen: looks up the figures behind each sentence.

use std::fmt::Write as _;

use gpubench_record::{MatrixRow, RunRecord};

use super::screen::{h100, screen};
use crate::format::figures::one_line;
use crate::matrix::{Column, Glance, Selection};

/// What a part of a sentence says of levels, by the words that it contains.
const VERBS: [(&str, &[&str]); 6] = [
    ("Nothing here isolates", &["L0", "L1"]),
    ("isolate nothing", &["L0"]),
    ("isolates nothing", &["L0"]),
    ("undecided", &[""]),
    ("limit", &["L2"]),
    ("isolate", &["L3"]),
];

/// The rows behind one word of a sentence: of a mechanism, or of all, in one column.
fn rows<'a>(record: &'a RunRecord, variants: &[&str], column: &Column) -> Vec<&'a MatrixRow> {
    let named = |row: &&MatrixRow| variants.contains(&row.variant.as_str());
    record.matrix.iter().filter(named).filter(|row| column.has(row)).collect()
}

/// Aggressors beside which the plan measures this column.
fn planned(record: &RunRecord, column: &Column) -> usize {
    let pairs = record.plan.pairs.iter();
    let of_column = pairs.filter(|pair| match &column.sub_axis {
        Some(sub_axis) => pair.sub_axis.as_str() == sub_axis,
        None => pair.sub_axis.axis().as_str() == column.axis,
    });
    of_column.count()
}

#[test]
fn every_sentence_of_the_first_screen_rests_on_figures_of_the_record() {
    let record = h100();
    let glance = Glance::of(&record, &Selection::default(), 12);
    let text = screen(&record, 1_000);
    let mut found = String::new();
    for sentence in &glance.sentences {
        assert!(text.contains(sentence), "not on the screen: {sentence}");
        let _ = writeln!(found, "{sentence}");
        let labels = |part: &str| -> Vec<&str> {
            let named = glance.rows.iter().filter(|row| part.contains(&row.label));
            // `mps` is a part of `mps-quota 50%`.
            let longer = |label: &str| {
                glance.rows.iter().any(|other| {
                    other.label != label
                        && other.label.contains(label)
                        && !part.replace(&other.label, "").contains(label)
                })
            };
            named.filter(|row| !longer(&row.label)).map(|row| row.variant.as_str()).collect()
        };
        let all: Vec<&str> = glance.rows.iter().map(|row| row.variant.as_str()).collect();
        let subjects = match labels(sentence) {
            none if none.is_empty() => all,
            some => some,
        };
        for part in sentence.trim_end_matches('.').split(';') {
            let verb = VERBS.iter().find(|(words, _)| part.contains(words));
            let nouns = glance.columns.iter().filter(|column| part.contains(&column.noun));
            let mut nouns: Vec<&Column> = nouns.collect();
            if part.contains("nothing") {
                nouns = glance.columns.iter().filter(|one| one.axis != "jitter").collect();
            }
            assert!(!nouns.is_empty(), "{part} names no column");
            for column in nouns {
                for row in rows(&record, &subjects, column) {
                    let level = row.level.as_deref().unwrap_or("");
                    // Several levels that are open are none.
                    let decided = if level.contains("..") { "" } else { level };
                    assert!(
                        verb.is_none_or(|(_, levels)| levels.contains(&decided)),
                        "{part}: {row:?}"
                    );
                    let figure = row.retention.as_ref().or(row.jitter.as_ref());
                    assert!(figure.is_some() || level.is_empty(), "{part}: {row:?}");
                    let figure = figure.map_or("no figure".to_owned(), |one| one_line(one, None));
                    let aggressor = row.aggressor.as_deref().unwrap_or("none");
                    let (path, variant) = (row.axis_path(), &row.variant);
                    let _ =
                        writeln!(found, "  {variant} {path} beside {aggressor}: {figure} {level}");
                }
                let beside = rows(&record, &subjects[..1], column);
                let has_level = beside.iter().any(|row| row.level.is_some());
                let said = part.contains(&format!("beside {} of", beside.len()));
                let missing = has_level && !said && beside.len() < planned(&record, column);
                assert!(!missing, "{part}: {} was measured beside fewer", column.noun);
            }
        }
    }
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../../../golden");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!("h100.sentences", found));
}
