//! Why rows, blocks and cells are in doubt: grouped, counted, with the worst figure and the cure.

use std::collections::BTreeSet;

use gpubench_record::{CellResult, Gate, GateResult, GateScope, OutcomeKind, RunRecord};

use super::cell::Standing;
use super::{Column, Row, Selection, place};
use gpubench_show::{Labels, clean};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// A row of the matrix without a level.
    Row,
    /// A row that this device cannot have: its axis is complete without it.
    Absent,
    /// A block that a row leaves out.
    Block,
    /// A cell of the run, by the gate that it fails.
    Cell,
    Warning,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ReasonGroup {
    pub subject: Subject,
    /// The reason; of texts that differ only in their numbers, the first.
    pub reason: String,
    /// Whether their numbers differ.
    pub differs: bool,
    pub count: usize,
    /// Where: axis or condition, and the labels of the mechanisms.
    pub places: Vec<(String, Vec<String>)>,
    /// The worst figure and the limit that it was compared with.
    pub worst: Option<Worst>,
    /// What the first gate that failed so said; absent where there is a worst figure.
    pub example: Option<String>,
    pub cure: Option<&'static str>,
}

/// The worst figure of a gate.
#[derive(Debug, Clone, PartialEq)]
pub struct Worst {
    pub value: f64,
    pub limit: f64,
    /// The unit of both.
    pub unit: String,
}

/// What follows the name of a gate that excludes cells.
pub(super) const CELL_LOST: &str = " (the cell does not count)";

/// The cells of the matrix without a level.
pub(super) fn open(record: &RunRecord, columns: &[Column], rows: &[Row]) -> Vec<ReasonGroup> {
    let unknown = match record.plan.decides {
        true => "the record gives no reason",
        false => "the profile decides nothing",
    };
    let mut groups = Groups::default();
    for row in rows {
        for (column, cell) in columns.iter().zip(&row.cells) {
            let open = |standing| matches!(standing, Standing::Open | Standing::Failed);
            if let Some(cell) = cell.as_ref().filter(|cell| open(cell.standing)) {
                let reason = cell.reason.as_deref().unwrap_or(unknown);
                groups.add(Subject::Row, without_levels(reason), &column.heading, &row.label);
            }
        }
    }
    groups.all
}

/// Every doubt about the selected part of the record: rows first, then blocks, cells and warnings,
/// each the most frequent first.
pub(super) fn reasons(
    record: &RunRecord,
    selection: &Selection,
    labels: &Labels,
) -> Vec<ReasonGroup> {
    let mut groups = Groups::default();
    let ran = record.mechanisms.iter().filter(|one| one.outcome.outcome != OutcomeKind::Waived);
    let ran: Vec<&str> = ran.map(|one| one.variant.as_str()).collect();
    let rows = record.matrix.iter().filter(|row| {
        selection.has_mechanism(&row.mechanism, &row.variant)
            && selection.has_axis(&row.axis, row.sub_axis.as_deref())
    });
    for row in rows {
        let (axis, label) = (&place(row), labels.get(&row.variant));
        let reason = row.outcome.reason.as_deref().unwrap_or_default();
        if !selection.has_fault(row.aggressor.as_deref()) {
            continue;
        }
        let is_open = row.is_of_fault() && row.survival.is_none();
        let fault = row.aggressor.as_deref().filter(|_| is_open);
        match (row.outcome.outcome, fault) {
            (OutcomeKind::Inconclusive | OutcomeKind::Failed, Some(fault)) => {
                groups.add(Subject::Row, reason, &format!("{axis}/{fault}"), &label);
            }
            (OutcomeKind::Inconclusive | OutcomeKind::Failed, None) => {
                groups.add(Subject::Row, without_levels(reason), axis, &label);
            }
            (OutcomeKind::Waived, Some(fault)) if ran.contains(&row.variant.as_str()) => {
                groups.add(Subject::Absent, reason, &format!("{axis}/{fault}"), &label);
            }
            _ => {}
        }
        for block in row.blocks_lost.iter().flat_map(|lost| &lost.lost) {
            groups.add(Subject::Block, &block.reason, axis, &label);
        }
        // The table of faults has what those of faults say.
        let warnings = row.warnings.iter().filter(|_| !row.is_of_fault());
        let mut keys = BTreeSet::new();
        for warning in warnings.filter(|text| !is_of_a_gate(text)) {
            let key = pattern(&beginning(warning));
            let count = usize::from(keys.insert(key.clone()));
            groups.add_keyed(Subject::Warning, key, warning, axis, &label).count += count;
        }
    }
    for cell in record.cells.iter().filter(|cell| is_shown(record, cell, selection)) {
        of_cell(&mut groups, cell, &labels.get(&cell.cell.variant));
    }
    let mut groups = groups.all;
    groups.sort_by_key(|group| (group.subject as u8, usize::MAX - group.count));
    groups
}

fn is_shown(record: &RunRecord, cell: &CellResult, selection: &Selection) -> bool {
    let sub_axis = cell.cell.sub_axis;
    let of_jitter = sub_axis == record.plan.jitter_from && selection.has_axis("jitter", None);
    selection.has_mechanism(&cell.cell.mechanism, &cell.cell.variant)
        && (of_jitter || selection.has_axis(sub_axis.axis().as_str(), Some(sub_axis.as_str())))
}

fn of_cell(groups: &mut Groups, cell: &CellResult, label: &str) {
    let scopes = [GateScope::Cell, GateScope::OpenLoop, GateScope::Nothing];
    let failed = scopes.into_iter().flat_map(|scope| cell.failed_gates(scope));
    let failed: Vec<&GateResult> = failed.collect();
    let condition = format!("condition {}", cell.cell.condition.as_str());
    for gate in &failed {
        let costs = match gate.scope {
            GateScope::Cell => CELL_LOST,
            GateScope::OpenLoop => " (its latencies do not count)",
            GateScope::Nothing => " (the cell counts, with a warning)",
        };
        let name = gate.gate.as_str();
        let key = format!("{name}{costs}");
        groups.add_keyed(Subject::Cell, key.clone(), &key, &condition, label).count += 1;
        groups.worst(&key, gate);
    }
    if failed.is_empty() && cell.outcome.outcome != OutcomeKind::Measured {
        let reason = cell.outcome.reason.as_deref().unwrap_or_default();
        groups.add(Subject::Cell, reason, &condition, label);
    }
}

/// The groups, with the key that makes texts equal.
#[derive(Default)]
struct Groups {
    keys: Vec<(Subject, String)>,
    all: Vec<ReasonGroup>,
}

impl Groups {
    fn add(&mut self, subject: Subject, reason: &str, place: &str, label: &str) {
        self.add_keyed(subject, pattern(reason), reason, place, label).count += 1;
    }

    /// The group of a key with this place; the caller counts.
    fn add_keyed(
        &mut self,
        subject: Subject,
        key: String,
        reason: &str,
        place: &str,
        label: &str,
    ) -> &mut ReasonGroup {
        let reason = clean(reason);
        let key = (subject, key);
        let known = self.keys.iter().position(|known| *known == key);
        let at = known.unwrap_or(self.keys.len());
        if known.is_none() {
            self.keys.push(key);
            self.all.push(ReasonGroup {
                subject,
                cure: cure(subject, &reason, place),
                reason: reason.clone(),
                differs: false,
                count: 0,
                places: Vec::new(),
                worst: None,
                example: None,
            });
        }
        let group = &mut self.all[at];
        if group.reason != reason {
            group.differs = true;
            // The example is the one with the largest number.
            if first_number(&group.reason) < first_number(&reason) {
                group.reason = reason;
            }
        }
        let (place, label) = (clean(place), label.to_owned());
        match group.places.iter_mut().find(|(known, _)| *known == place) {
            Some((_, labels)) if labels.contains(&label) => {}
            Some((_, labels)) => labels.push(label),
            None => group.places.push((place, vec![label])),
        }
        group
    }

    /// Keeps the figure of a gate that is farthest beyond its limit.
    fn worst(&mut self, reason: &str, gate: &GateResult) {
        if let Some(group) = self.all.iter_mut().find(|group| group.reason == reason) {
            let (Some(value), Some(limit)) = (gate.value, gate.limit) else {
                group.example.get_or_insert_with(|| clean(&gate.detail));
                return;
            };
            let distance = (value - limit).abs();
            let is_worse = |known: &Worst| (known.value - known.limit).abs() < distance;
            if group.worst.as_ref().is_none_or(is_worse) {
                let unit = clean(gate.unit.as_deref().unwrap_or_default());
                group.worst = Some(Worst { value, limit, unit });
            }
        }
    }
}

/// The reason without the levels that it leaves open, which stand beside it.
pub(crate) fn without_levels(reason: &str) -> &str {
    match reason.split_once(": ") {
        Some((levels, rest)) if levels.len() == 6 && levels.contains("..L") => rest,
        _ => reason,
    }
}

fn is_of_a_gate(warning: &str) -> bool {
    let gate = warning.split(" in ").next().unwrap_or_default();
    Gate::ALL.iter().any(|one| one.as_str() == gate)
}

/// The first words, which say what a warning is about.
fn beginning(warning: &str) -> String {
    let words: Vec<&str> = warning.split(' ').take(4).collect();
    words.join(" ")
}

fn first_number(text: &str) -> Option<f64> {
    let begin = text.find(|c: char| c.is_ascii_digit())?;
    let end = text[begin..].find(|c: char| !c.is_ascii_digit() && c != '.');
    let number = &text[begin..end.map_or(text.len(), |end| begin + end)];
    number.trim_end_matches('.').parse().ok()
}

/// The text with every number replaced, so that texts that differ only in numbers are equal.
fn pattern(text: &str) -> String {
    let mut pattern = String::new();
    for c in clean(text).chars() {
        let is_number = c.is_ascii_digit() || c == '.';
        match (is_number, pattern.ends_with('0')) {
            (true, true) => {}
            (true, false) => pattern.push('0'),
            (false, _) => pattern.push(c),
        }
    }
    pattern
}

/// The checks of the axis memory that repeat trials, as places have them.
const PROBED: [&str; 2] = ["residue", "capacity"];

fn cure(subject: Subject, reason: &str, place: &str) -> Option<&'static str> {
    const CURES: [(&str, &str); 12] = [
        ("blocks are needed", "more blocks: `[blocks]` and `device_time` of the profile"),
        ("more for L", "more trials: --fault-trials N, or a report of several records"),
        ("more trials", "more trials: --fault-trials N, or a report of several records"),
        ("bypass: not tried", "--escape tries to bypass the limits"),
        ("lateness", "idle CPU cores for the threads of victim and harness"),
        ("cpu-gap", "idle CPU cores for the threads of victim and harness"),
        ("cpu-steal", "a host that does not share its CPUs"),
        ("foreign-process", "no other process on the GPU"),
        ("throttle", "cooling, or a lower locked clock"),
        ("warm-up", "a longer warm-up in the profile"),
        ("drift", "a longer warm-up in the profile, or a cooler device"),
        ("xid", "`nvidia-smi -q` and the kernel log name the fault of the device"),
    ];
    if subject == Subject::Warning && !reason.contains("bypass") {
        return None;
    }
    if PROBED.contains(&place) && reason.contains("more trials") {
        return Some(
            "fewer tenants: a probe ends when its time is up, and tenants take part of it",
        );
    }
    let mut known = CURES.iter();
    known.find(|(words, _)| reason.contains(words)).map(|(_, cure)| *cure)
}
