//! `telemetry.parquet`: the readings of a run as one long table, written, compared and read.

use std::path::Path;

use gpubench_record::TelemetryRow;

use super::error::StoreError;
use super::parquet::{self, Kind, ROW_GROUP_ROWS, Table, Values};
use super::parquet_reader::Reader;
use super::parquet_rows::Rows;
use super::replace::replace;
use super::{TELEMETRY_FILE, TELEMETRY_LOG_FILE, json_lines};

/// The table of readings, with the meaning of its columns.
pub(super) const TABLE: Table = Table {
    columns: &COLUMNS,
    legends: &[
        ("t_ns", "ns since the start of the session's clock"),
        (
            "cell",
            "id of the cell in which it was read; empty between cells",
        ),
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

/// Writes the readings as the Parquet file at `path`. The file is read back and compared before it
/// replaces an older one.
///
/// # Errors
/// When it cannot be written, or does not read back as `rows`.
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
///
/// # Errors
/// When the file does not match its checksum, is no Parquet file, or lacks a column.
pub fn read_telemetry(path: &Path) -> Result<Vec<TelemetryRow>, StoreError> {
    read_metrics(path, |_| true)
}

/// The readings of these metrics in the folder of a record: from the log if that exists, else from
/// Parquet; none without either.
pub(super) fn of_folder(
    dir: &Path,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Vec<TelemetryRow>, StoreError> {
    let log = dir.join(TELEMETRY_LOG_FILE);
    if log.exists() {
        let all = json_lines::parse(&log, &json_lines::read_bytes(&log)?)?.values;
        let wanted = |row: &TelemetryRow| is_wanted(&row.metric);
        return Ok(all.into_iter().filter(wanted).collect());
    }
    let file = dir.join(TELEMETRY_FILE);
    if file.exists() {
        read_metrics(&file, is_wanted)
    } else {
        Ok(Vec::new())
    }
}

/// As [`read_telemetry`], without the readings of other metrics.
fn read_metrics(
    path: &Path,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Vec<TelemetryRow>, StoreError> {
    let reader = Reader::open(path, &TABLE)?;
    let mut readings = Vec::new();
    for chunk in reader.chunks() {
        let rows = reader.read(chunk.clone(), &TABLE.names())?;
        readings.extend(from_columns(&rows, &is_wanted)?);
    }
    Ok(readings)
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

fn from_columns(
    rows: &Rows<'_>,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Vec<TelemetryRow>, StoreError> {
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
    let wanted = (0..rows.count()).filter(|i| is_wanted(metric[*i]));
    Ok(wanted.map(row).collect())
}
