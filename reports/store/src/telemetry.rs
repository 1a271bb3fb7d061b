//! `telemetry.parquet`: the readings of a run as one long table, written, compared and read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use gpubench_record::{Plan, TelemetryRow};

use super::error::StoreError;
use super::files::replace;
use super::parquet::{self, Kind, ROW_GROUP_ROWS, Table, Values};
use super::parquet_reader::Reader;
use super::parquet_reader::Rows;
use super::{RECORD_FILE, TELEMETRY_FILE, TELEMETRY_LOG_FILE, json_lines};

/// The table of readings, with the meaning of its columns.
pub(super) const TABLE: Table = Table {
    columns: &COLUMNS,
    legends: &[
        ("t_ns", "ns since the start of the session's clock"),
        ("cell", "id of the cell in which it was read; empty between cells"),
        ("value", "in the unit of the same row"),
    ],
};

const COLUMNS: [(&str, Kind); 6] = [
    ("t_ns", Kind::U64),
    ("cell", Kind::Text),
    ("source", Kind::Text),
    ("metric", Kind::Text),
    ("value", Kind::F64),
    ("unit", Kind::Text),
];

#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// Id of the cell in which it was read; empty between cells.
    pub cell: String,
    pub metric: String,
    pub value: f64,
}

/// Writes the readings as the Parquet file at `path`. The file is read back and compared before it
/// replaces an older one.
/// Fails when it cannot be written, or does not read back as `rows`.
pub fn write_telemetry(path: &Path, rows: &[TelemetryRow]) -> Result<(), StoreError> {
    replace(
        path,
        |file, part| {
            parquet::write(file, part, &TABLE, |writer| {
                for group in rows.chunks(ROW_GROUP_ROWS) {
                    writer.row_group(group.len(), to_columns(group))?;
                }
                Ok(())
            })
        },
        |part| {
            let stored = read_telemetry(part)?;
            let same = |(a, b): (&TelemetryRow, &TelemetryRow)| {
                a == b && a.value.to_bits() == b.value.to_bits()
            };
            if stored.len() == rows.len() && stored.iter().zip(rows).all(same) {
                return Ok(());
            }
            Err(StoreError::Differs {
                path: part.to_path_buf(),
                reason: "the readings are not those that were logged".to_owned(),
            })
        },
    )
}

/// Reads the readings in the Parquet file at `path`, of a torn one up to the tear.
/// Fails when the file does not match its checksum, is no Parquet file, or lacks a column.
pub fn read_telemetry(path: &Path) -> Result<Vec<TelemetryRow>, StoreError> {
    read(path, &TABLE.names(), from_columns)
}

/// What readings cannot be: of a cell or trial that was not planned, in two units, or a number that
/// nothing measures.
pub(super) fn problems(dir: &Path, plan: &Plan, rows: &[TelemetryRow]) -> Option<String> {
    let cells = plan.all_cells().map(|cell| cell.id.as_str());
    let trials = plan.all_fault_trials().map(|trial| trial.id.as_str());
    let known: BTreeSet<&str> = cells.chain(trials).chain([""]).collect();
    let mut units: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    let mut wrong = Vec::new();
    for row in rows {
        let unit = units.entry((&row.source, &row.metric)).or_insert(&row.unit);
        let is_number = row.value.is_finite() && row.value >= 0.0;
        if !known.contains(row.cell.as_str()) || *unit != row.unit || !is_number {
            wrong.push(row);
        }
    }
    let first = wrong.first()?;
    let (count, path) = (wrong.len(), dir.join(TELEMETRY_FILE));
    let TelemetryRow { t_ns, cell, source, metric, value, unit } = first;
    Some(format!(
        "{}: {count} readings cannot be, the first {source} {metric} {value} {unit} at {t_ns} ns \
         in {cell:?}",
        path.display()
    ))
}

/// All readings in the folder of a record: from the log if that exists in an unfinished run, else
/// from Parquet; none without either.
pub(super) fn of_folder(dir: &Path) -> Result<Vec<TelemetryRow>, StoreError> {
    stored(dir, Some, read_telemetry)
}

/// The values of these metrics in the folder of a record, as in [`of_folder`]. Other columns are
/// not read.
pub(super) fn readings(
    dir: &Path,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Vec<Reading>, StoreError> {
    let of = |row: TelemetryRow| {
        is_wanted(&row.metric).then_some(Reading {
            cell: row.cell,
            metric: row.metric,
            value: row.value,
        })
    };
    let from_parquet = |rows: &Rows<'_>| {
        let (cell, metric) = (rows.text("cell")?, rows.text("metric")?);
        let value = rows.f64("value")?;
        let wanted = (0..rows.count()).filter(|i| is_wanted(metric[*i]));
        let reading = |i: usize| Reading {
            cell: cell[i].to_owned(),
            metric: metric[i].to_owned(),
            value: value[i],
        };
        Ok(wanted.map(reading).collect())
    };
    stored(dir, of, |path| read(path, &["cell", "metric", "value"], from_parquet))
}

/// What is made of the rows in the folder of a record: of those of its log, or by `parquet`.
fn stored<T>(
    dir: &Path,
    of: impl FnMut(TelemetryRow) -> Option<T>,
    parquet: impl FnOnce(&Path) -> Result<Vec<T>, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let log = dir.join(TELEMETRY_LOG_FILE);
    let is_finished = [RECORD_FILE, TELEMETRY_FILE].iter().all(|name| dir.join(name).exists());
    if log.exists() && !is_finished {
        let all = json_lines::parse::<TelemetryRow>(&log, &json_lines::read_bytes(&log)?)?;
        return Ok(all.values.into_iter().filter_map(of).collect());
    }
    let file = dir.join(TELEMETRY_FILE);
    if file.exists() { parquet(&file) } else { Ok(Vec::new()) }
}

/// These columns of a file, in rows.
fn read<T>(
    path: &Path,
    columns: &[&str],
    rows: impl Fn(&Rows<'_>) -> Result<Vec<T>, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let reader = Reader::open(path, &TABLE)?;
    let mut all = Vec::new();
    for chunk in reader.chunks() {
        all.extend(rows(&reader.read(chunk.clone(), columns)?)?);
    }
    Ok(all)
}

fn to_columns(rows: &[TelemetryRow]) -> Vec<(&'static str, Values<'_>)> {
    let text = |of: fn(&TelemetryRow) -> &str| Values::Text(rows.iter().map(of).collect());
    vec![
        ("t_ns", Values::U64(rows.iter().map(|r| r.t_ns).collect())),
        ("cell", text(|row| &row.cell)),
        ("source", text(|row| &row.source)),
        ("metric", text(|row| &row.metric)),
        ("value", Values::F64(rows.iter().map(|r| r.value).collect())),
        ("unit", text(|row| &row.unit)),
    ]
}

fn from_columns(rows: &Rows<'_>) -> Result<Vec<TelemetryRow>, StoreError> {
    let (t_ns, value) = (rows.u64("t_ns")?, rows.f64("value")?);
    let (cell, source) = (rows.text("cell")?, rows.text("source")?);
    let (metric, unit) = (rows.text("metric")?, rows.text("unit")?);
    let row = |i: usize| TelemetryRow {
        t_ns: t_ns[i],
        cell: cell[i].to_owned(),
        source: source[i].to_owned(),
        metric: metric[i].to_owned(),
        value: value[i],
        unit: unit[i].to_owned(),
    };
    Ok((0..rows.count()).map(row).collect())
}
