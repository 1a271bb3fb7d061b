//! Where a measured level differs from what publications claim.

use super::cell::{MatrixCell, Standing};
use super::{Column, Row};
use crate::text::list;

/// How a measured word compares with the claims of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Difference {
    Weaker,
    Stronger,
}

impl MatrixCell {
    /// Whether no publication claims what was measured. A cell without a level says nothing.
    #[must_use]
    pub fn differs_from_claims(&self) -> bool {
        difference(self).is_some()
    }
}

/// The words in the order of their strength. Publications also write `Soft` and `Incomplete`.
fn rank(word: &str) -> Option<u8> {
    Some(match word {
        "None" | "High" => 0,
        "Partial" | "Incomplete" | "Low-Medium" => 1,
        "Software" | "Soft" | "Negligible" => 2,
        "Hardware" => 3,
        _ => return None,
    })
}

fn word_of(claim: &str) -> &str {
    claim.split_once(": ").map_or(claim, |(_, word)| word)
}

fn difference(cell: &MatrixCell) -> Option<Difference> {
    if matches!(cell.standing, Standing::Open | Standing::Failed | Standing::Waived) {
        return None;
    }
    let measured = rank(cell.word.as_deref()?)?;
    let claims = cell.claimed.iter().map(|claim| word_of(claim));
    let claimed: Vec<u8> = claims.filter_map(rank).collect();
    if claimed.iter().all(|claim| *claim > measured) && !claimed.is_empty() {
        Some(Difference::Weaker)
    } else if claimed.iter().all(|claim| *claim < measured) && !claimed.is_empty() {
        Some(Difference::Stronger)
    } else {
        None
    }
}

/// One line for each direction and column: the claimed words, and the mechanisms.
pub(super) fn differences(columns: &[Column], rows: &[Row]) -> Vec<String> {
    let mut lines = Vec::new();
    for (direction, verb) in [
        (Difference::Weaker, "weaker than published"),
        (Difference::Stronger, "stronger than published"),
    ] {
        let mut parts = Vec::new();
        for (at, column) in columns.iter().enumerate() {
            // Mechanisms with the same claimed word share a part.
            let mut words: Vec<(String, Vec<&str>)> = Vec::new();
            for row in rows {
                let Some(cell) = row.cells[at].as_ref() else {
                    continue;
                };
                if difference(cell) != Some(direction) {
                    continue;
                }
                let mut claimed: Vec<&str> = cell.claimed.iter().map(|one| word_of(one)).collect();
                claimed.dedup();
                let word = claimed.join("/");
                match words.iter_mut().find(|(known, _)| *known == word) {
                    Some((_, labels)) => labels.push(&row.label),
                    None => words.push((word, vec![&row.label])),
                }
            }
            parts.extend(words.into_iter().map(|(word, labels)| {
                format!("{} of {} ({word})", column.heading, list(&labels, "and"))
            }));
        }
        if !parts.is_empty() {
            lines.push(format!("{verb}: {}", parts.join("; ")));
        }
    }
    lines
}
