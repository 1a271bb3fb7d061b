//! What every format for people says, once: title, notices, tables, notes and footer.
//!
//! Formats differ in how they draw a document, not in what it says.

use gpubench_record::{DeviceKind, Estimate, OutcomeKind, RunRecord};

use super::figures::MISSING_TEXT;
use super::{RenderOptions, VIRTUAL_TITLE, faults, nothing, service, tables};

/// A report as text and tables, not yet drawn.
#[derive(Debug)]
pub(super) struct Document {
    /// One line; says first if no GPU was there.
    pub(super) title: String,
    /// What must be read before any figure.
    pub(super) notices: Vec<String>,
    /// How many cells ended how.
    pub(super) cells: String,
    /// The tables, the matrix first.
    pub(super) tables: Vec<Table>,
    /// Numbered from 1: reasons and warnings that the tables refer to.
    pub(super) notes: Vec<String>,
    /// Where the record comes from, as name and text.
    pub(super) footer: Vec<(&'static str, String)>,
}

/// One table.
#[derive(Debug)]
pub(super) struct Table {
    /// A word that names it.
    pub(super) id: &'static str,
    /// What stands above it.
    pub(super) heading: String,
    /// What stands above its columns.
    pub(super) columns: Vec<String>,
    /// Its rows, each with a cell for every column.
    pub(super) rows: Vec<Vec<Cell>>,
    /// Whether it may be left out where there is little room.
    pub(super) detail: bool,
    /// Whether it is the last that refers to notes: these stand below it.
    pub(super) last_with_notes: bool,
}

impl Table {
    /// A table of the given rows.
    pub(super) fn new(
        id: &'static str,
        heading: &str,
        columns: Vec<String>,
        rows: impl IntoIterator<Item = Vec<Cell>>,
    ) -> Self {
        let heading = heading.to_owned();
        let rows = rows.into_iter().collect();
        Self {
            id,
            heading,
            columns,
            rows,
            detail: false,
            last_with_notes: false,
        }
    }

    /// The same, left out where there is little room.
    pub(super) fn in_detail(self) -> Self {
        Self {
            detail: true,
            ..self
        }
    }

    fn refers_to_notes(&self) -> bool {
        let mut cells = self.rows.iter().flatten();
        cells.any(|cell| matches!(cell, Cell::Outcome { notes, .. } if !notes.is_empty()))
    }
}

/// One cell of a table.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cell {
    /// Lines of text.
    Text(Vec<String>),
    /// A level and its word.
    Level(Vec<String>),
    /// A figure, with its unit where the column does not say it.
    Figure {
        /// The figure, if there is one.
        estimate: Option<Estimate>,
        /// The unit to print beside it.
        unit: Option<String>,
    },
    /// An outcome with the notes that explain it.
    Outcome {
        /// How the attempt ended.
        kind: OutcomeKind,
        /// Numbers of notes.
        notes: Vec<usize>,
    },
}

impl Cell {
    /// One line of text; `-` if there is none.
    pub(super) fn text(text: impl AsRef<str>) -> Self {
        Self::lines([text.as_ref()])
    }

    /// Lines of text without the empty ones; `-` if none is left.
    pub(super) fn lines<T: AsRef<str>>(lines: impl IntoIterator<Item = T>) -> Self {
        Self::Text(filled(lines))
    }

    /// A level and its word; `-` if there is neither.
    pub(super) fn level(level: Option<&str>, word: Option<&str>) -> Self {
        Self::Level(filled([level, word].into_iter().flatten()))
    }
}

fn filled<T: AsRef<str>>(lines: impl IntoIterator<Item = T>) -> Vec<String> {
    let mut lines: Vec<String> = lines.into_iter().map(|line| clean(line.as_ref())).collect();
    lines.retain(|line| !line.is_empty());
    if lines.is_empty() {
        lines.push(MISSING_TEXT.to_owned());
    }
    lines
}

/// Notes in the order in which they are first referred to, each once.
#[derive(Debug, Default)]
pub(super) struct Notes(Vec<String>);

impl Notes {
    /// The number of a note.
    pub(super) fn number(&mut self, text: &str) -> usize {
        let text = clean(text);
        match self.0.iter().position(|known| *known == text) {
            Some(index) => index + 1,
            None => {
                self.0.push(text);
                self.0.len()
            }
        }
    }
}

/// Replaces control characters: a record from elsewhere must not steer a terminal.
pub(super) fn clean(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

/// The title: what was measured, and first of all whether it was measured.
pub(super) fn title(record: &RunRecord) -> String {
    let name = clean(&record.device.name);
    match record.device.kind {
        DeviceKind::Real => format!("gpubench: {name}"),
        DeviceKind::Virtual => format!("{VIRTUAL_TITLE} (gpubench: {name})"),
    }
}

impl Document {
    /// What there is to say about a record.
    pub(super) fn of(record: &RunRecord, options: &RenderOptions) -> Self {
        let mut notes = Notes::default();
        let mut tables = if nothing::has_figures(record) {
            vec![
                tables::matrix(record, &mut notes),
                service::service(record, &mut notes),
                service::tenant_limits(record, &mut notes),
                tables::more_figures(record),
                tables::mechanisms(record, &mut notes),
            ]
        } else {
            vec![nothing::reasons(record)]
        };
        tables.extend([
            faults::faults(record),
            tables::probe_figures(record),
            tables::skips(record),
            tables::cells(record),
            tables::proof(record),
            tables::claims(record),
        ]);
        tables.retain(|table| !table.rows.is_empty());
        if let Some(last) = tables.iter_mut().rfind(|table| table.refers_to_notes()) {
            last.last_with_notes = true;
        }
        Self {
            title: title(record),
            notices: notices(record, options),
            cells: tables::cells_in_words(record),
            tables,
            notes: notes.0,
            footer: footer(record, options),
        }
    }
}

/// What must be known before any figure is read.
pub(super) fn notices(record: &RunRecord, options: &RenderOptions) -> Vec<String> {
    let mut notices = Vec::new();
    if !record.complete {
        let reason = record
            .incomplete_reason
            .as_deref()
            .unwrap_or("the record does not say why");
        notices.push(format!("INCOMPLETE: {}", clean(reason)));
    }
    if let Some(reason) = &record.fault_trials_stopped {
        notices.push(format!("FAULT TRIALS STOPPED: {}", clean(reason)));
    }
    notices.extend(faults::not_held(record));
    if !record.plan.decides {
        notices.push(format!(
            "DECIDES NOTHING: profile {} is for trying things out, with {} blocks a cell",
            clean(&record.profile.name),
            record.plan.blocks
        ));
    }
    if !record.matrix.iter().any(|row| row.outcome.is_measured()) {
        notices.push("NOTHING MEASURED: no row of the matrix has a figure to trust".to_owned());
    }
    notices.extend(record.records_left_out.iter().map(|left_out| {
        let (record, reason) = (clean(&left_out.record), clean(&left_out.reason));
        format!("LEFT OUT: the fault trials of {record} are not counted: {reason}")
    }));
    notices.extend(
        options
            .warnings
            .iter()
            .map(|text| format!("warning: {}", clean(text))),
    );
    notices
}

/// The hash of the calibration; `-` if there was none.
pub(super) fn calibration(record: &RunRecord) -> String {
    match record.calibration.entries.len() {
        0 => MISSING_TEXT.to_owned(),
        _ => record.calibration.hash.clone(),
    }
}

fn footer(record: &RunRecord, options: &RenderOptions) -> Vec<(&'static str, String)> {
    let device = &record.device;
    let kind = match device.kind {
        DeviceKind::Real => "real",
        DeviceKind::Virtual => "virtual",
    };
    let plan = &record.plan;
    let ended = record
        .provenance
        .ended_at
        .as_deref()
        .unwrap_or(MISSING_TEXT);
    let mut footer = vec![
        (
            "device",
            format!("{} ({kind}), {}", device.name, device.uuid),
        ),
        ("driver", format!("{}, CUDA {}", device.driver, device.cuda)),
        (
            "profile",
            format!("{}, hash {}", record.profile.name, record.profile.hash),
        ),
        (
            "plan",
            format!(
                "{} tenants, victim share {}, {} blocks, {} cells",
                plan.tenants,
                super::figures::value(plan.share),
                plan.blocks,
                plan.cells.len()
            ),
        ),
        ("seed", record.seed.to_string()),
        ("calibration", calibration(record)),
        (
            "intervals",
            "95 %; n counts blocks, or trials for proportions".to_owned(),
        ),
        ("scoring", record.scoring.clone()),
        (
            "run",
            format!(
                "{} to {ended}, gpubench {}",
                record.provenance.started_at, record.provenance.gpubench
            ),
        ),
    ];
    if let Some(dir) = &options.record_dir {
        footer.push(("record", dir.clone()));
    }
    footer
        .into_iter()
        .map(|(name, text)| (name, clean(&text)))
        .collect()
}
