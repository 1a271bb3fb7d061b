//! Short labels of variants: `mps-quota 50%` for `mps-quota[pct=50]`.

use std::collections::BTreeMap;

use gpubench_record::RunRecord;

use crate::{Block, Page, Table, clean};

/// The label of each variant that an output names; no two are equal.
#[derive(Debug, Default)]
pub struct Labels(BTreeMap<String, String>);

impl Labels {
    pub fn of<'a>(variants: impl IntoIterator<Item = &'a str>) -> Self {
        let mut variants: Vec<&str> = variants.into_iter().collect();
        variants.sort_unstable();
        variants.dedup();
        let is_alone = |label: &str, of: fn(&str) -> String| {
            variants.iter().filter(|variant| of(variant) == label).count() == 1
        };
        let label = |variant: &str| {
            let forms: [fn(&str) -> String; 2] = [short, with_options];
            let fitting = forms.into_iter().find(|form| is_alone(&form(variant), *form));
            clean(&fitting.map_or_else(|| variant.to_owned(), |form| form(variant)))
        };
        Self(variants.iter().map(|variant| ((*variant).to_owned(), label(variant))).collect())
    }

    /// Those of every variant of records.
    pub fn of_records(records: &[&RunRecord]) -> Self {
        Self::of(records.iter().flat_map(|record| {
            let of_matrix = record.matrix.iter().map(|row| row.variant.as_str());
            let of_mechanisms = record.mechanisms.iter().map(|row| row.variant.as_str());
            let of_skips = record.plan.skips.iter().map(|skip| skip.variant.as_str());
            of_mechanisms.chain(of_matrix).chain(of_skips)
        }))
    }

    /// The label of a variant; the variant itself where it is not one of these.
    pub fn get(&self, variant: &str) -> String {
        self.0.get(variant).cloned().unwrap_or_else(|| clean(variant))
    }

    /// A text with labels in place of variants.
    pub fn relabel(&self, text: &str) -> String {
        let with_options = self.0.iter().filter(|(variant, _)| variant.contains('['));
        with_options.fold(text.to_owned(), |text, (variant, label)| text.replace(variant, label))
    }

    /// Labels in place of variants in the cells of a table.
    pub fn on_table(&self, table: &mut Table) {
        let lines = table.rows.iter_mut().flatten().flat_map(|cell| &mut cell.lines);
        lines.for_each(|line| *line = self.relabel(line));
    }

    /// A page with labels in place of variants.
    pub fn on(&self, mut page: Page) -> Page {
        for block in &mut page.blocks {
            match block {
                Block::Heading(text) | Block::Notice(text) => *text = self.relabel(text),
                Block::Text(line) => line.text = self.relabel(&line.text),
                Block::Notes(notes) => notes.iter_mut().for_each(|one| *one = self.relabel(one)),
                Block::Facts(facts) => {
                    facts.iter_mut().for_each(|(_, one)| *one = self.relabel(one))
                }
                Block::Table(table) => self.on_table(table),
                Block::Chart(_) | Block::Gap => {}
            }
        }
        page.title = self.relabel(&page.title);
        page
    }

    /// The variant with this label.
    pub fn variant_of(&self, label: &str) -> Option<&str> {
        self.0.iter().find(|(_, own)| *own == label).map(|(variant, _)| variant.as_str())
    }
}

/// The name and the options of a variant.
fn split(variant: &str) -> (&str, Vec<&str>) {
    match variant.split_once('[') {
        Some((name, options)) => (name, options.trim_end_matches(']').split(',').collect()),
        None => (variant, Vec::new()),
    }
}

/// The name with the sizes of the shares: numbers as percent, once each, and layouts. Other options
/// are left out.
fn short(variant: &str) -> String {
    let (name, options) = split(variant);
    let mut sizes: Vec<String> = Vec::new();
    for option in options {
        let size = match option.split_once('=') {
            None => Some(counted(option)),
            Some((_, value)) if value.parse::<f64>().is_ok() => Some(format!("{value}%")),
            Some(_) => None,
        };
        sizes.extend(size.filter(|size| !sizes.contains(size)));
    }
    [name.to_owned()].into_iter().chain(sizes).collect::<Vec<_>>().join(" ")
}

/// A layout with the count of equal instances, from three on: `7x1g`.
fn counted(layout: &str) -> String {
    let parts: Vec<&str> = layout.split('+').collect();
    let is_even = parts.len() > 2 && parts.iter().all(|part| *part == parts[0]);
    if is_even { format!("{}x{}", parts.len(), parts[0]) } else { layout.to_owned() }
}

/// The name with the values of all options.
fn with_options(variant: &str) -> String {
    let (name, options) = split(variant);
    let values = options.into_iter();
    let values = values.map(|one| one.split_once('=').map_or(one, |(_, value)| value));
    let values: Vec<String> = values.map(counted).collect();
    match values.is_empty() {
        true => name.to_owned(),
        false => format!("{name} {}", values.join(",")),
    }
}

#[cfg(test)]
mod tests {
    use super::{short, with_options};

    #[test]
    fn labels_keep_sizes_and_drop_defaults() {
        for (variant, label) in [
            ("mps", "mps"),
            ("mps-quota[pct=50]", "mps-quota 50%"),
            ("time-slicing[slice=default]", "time-slicing"),
            ("mig[3g+3g]", "mig 3g+3g"),
            ("mig[1g+1g+1g]", "mig 3x1g"),
            ("mps-static[chunks=even]", "mps-static"),
            ("mps-memory[memory=50,by=cgroup]", "mps-memory 50%"),
            ("hami[memory=50,sm=50]", "hami 50%"),
            ("hami[memory=50,sm=25]", "hami 50% 25%"),
        ] {
            assert_eq!(short(variant), label);
        }
        assert_eq!(with_options("mps-memory[memory=50,by=cgroup]"), "mps-memory 50,cgroup");
        assert_eq!(with_options("mps"), "mps");
    }
}
