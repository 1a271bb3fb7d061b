//! The style of each mechanism's lines, the same in every chart, and legends.

use std::collections::BTreeSet;

use gpubench_record::RunRecord;
use maud::{Markup, html};

use crate::matrix::Glance;

/// Colours and dashes in the style sheet. No prime divides both, so that `COLORS * DASHES` styles
/// differ.
const COLORS: usize = 8;
const DASHES: usize = 7;

/// The classes of the style with this number. Numbers below 56 share none.
pub(super) fn classes(index: usize) -> String {
    format!("c{} d{}", index % COLORS, index % DASHES)
}

/// The class of the colour alone, for text.
pub(super) fn color(index: usize) -> String {
    format!("c{}", index % COLORS)
}

/// The variants of a record, each with a style number and the label of the heat map.
#[derive(Debug)]
pub(super) struct Variants<'a>(Vec<(&'a str, String)>);

impl<'a> Variants<'a> {
    /// The variants in report order, the reference first.
    pub(super) fn of(record: &'a RunRecord, glance: &Glance) -> Self {
        let rows = record.mechanisms.iter().map(|row| row.variant.as_str());
        let rows = rows.chain(record.matrix.iter().map(|row| row.variant.as_str()));
        let mut variants: Vec<(&str, String)> = Vec::new();
        for variant in std::iter::once(record.plan.reference.as_str()).chain(rows) {
            if variants.iter().all(|(known, _)| *known != variant) {
                let row = glance.rows.iter().find(|row| row.variant == variant);
                let label = row.map_or(variant, |row| &row.label);
                variants.push((variant, label.to_owned()));
            }
        }
        Self(variants)
    }

    /// The style number of a variant.
    pub(super) fn index(&self, variant: &str) -> usize {
        let found = self.0.iter().position(|(known, _)| *known == variant);
        found.unwrap_or(self.0.len())
    }

    /// Style numbers of several curves: each variant's own, and further ones for a variant that
    /// has several curves.
    pub(super) fn styles<'b>(&self, variants: impl Iterator<Item = &'b str>) -> Vec<usize> {
        let mut used = BTreeSet::new();
        let mut next = self.0.len();
        let style = |variant| {
            let own = self.index(variant);
            if used.insert(own) {
                return own;
            }
            next += 1;
            next
        };
        variants.map(style).collect()
    }

    /// Its label; the variant itself where the heat map does not have it.
    pub(super) fn label<'b>(&'b self, variant: &'b str) -> &'b str {
        let found = self.0.iter().find(|(known, _)| *known == variant);
        found.map_or(variant, |(_, label)| label)
    }
}

/// A legend: lines with their names.
pub(super) fn legend(entries: &[(String, String)]) -> Markup {
    html! {
        ul class="legend" {
            @for (class, name) in entries {
                li {
                    svg width="34" height="10" aria-hidden="true" {
                        path class=(class) d="M0 5H34" {}
                    }
                    " " (name)
                }
            }
        }
        "\n"
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{COLORS, DASHES, classes};

    #[test]
    fn no_two_styles_are_the_same() {
        let all: BTreeSet<String> = (0..COLORS * DASHES).map(classes).collect();
        assert_eq!(all.len(), COLORS * DASHES);
        for index in 0..12 {
            let of = |index: usize| classes(index);
            let (one, next) = (of(index), of(index + 1));
            let differs = one.split(' ').zip(next.split(' ')).all(|(a, b)| a != b);
            assert!(differs, "neighbours differ in colour and dash: {one} {next}");
        }
        let sheet = include_str!("style.css");
        for class in (0..COLORS).map(|n| format!(".c{n} ")) {
            assert!(sheet.contains(&class), "{class}");
        }
        for class in (1..DASHES).map(|n| format!(".d{n} ")) {
            assert!(sheet.contains(&class), "{class}");
        }
    }
}
