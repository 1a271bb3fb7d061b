//! `telemetry.parquet`: the readings of a run as one long table, written, compared and read.

use std::path::Path;

use gpubench_record::TelemetryRow;
use polars::prelude::{
    Column, DataFrame, DataType, IntoColumn, NamedFrom, PlSmallStr, PolarsError, PolarsResult,
    Schema, Series,
};

use super::checksums::verify;
use super::error::StoreError;
use super::parquet::{self, ROW_GROUP_ROWS, parquet_error};
use super::replace::replace;

const COLUMNS: [(&str, DataType); 6] = [
    ("t_ns", DataType::UInt64),
    ("cell", DataType::String),
    ("source", DataType::String),
    ("metric", DataType::String),
    ("value", DataType::Float64),
    ("unit", DataType::String),
];

/// Writes the readings as the Parquet file at `path`, which is read back before it takes its place.
///
/// # Errors
/// When it cannot be written, or does not read back as `rows`.
pub fn write_telemetry(path: &Path, rows: &[TelemetryRow]) -> Result<(), StoreError> {
    let schema: Schema = COLUMNS
        .iter()
        .map(|(n, t)| (PlSmallStr::from_static(n), t.clone()))
        .collect();
    replace(
        path,
        |file, part| {
            parquet::write(file, part, &schema, |writer| {
                for chunk in rows.chunks(ROW_GROUP_ROWS) {
                    writer.row_group(&to_frame(chunk).map_err(|e| parquet_error(part, &e))?)?;
                }
                Ok(())
            })
        },
        |part| {
            let again = decode(part)?;
            let same = |(a, b): (&TelemetryRow, &TelemetryRow)| {
                a == b && a.value.to_bits() == b.value.to_bits()
            };
            if again.len() == rows.len() && again.iter().zip(rows).all(same) {
                return Ok(());
            }
            let reason = "the readings are not those that were logged".to_owned();
            Err(StoreError::Differs {
                path: part.to_path_buf(),
                reason,
            })
        },
    )
}

/// Reads the readings in the Parquet file at `path`.
///
/// # Errors
/// When it is not the file that was stored, is no Parquet file, or lacks a column.
pub fn read_telemetry(path: &Path) -> Result<Vec<TelemetryRow>, StoreError> {
    verify(path)?;
    decode(path)
}

fn decode(path: &Path) -> Result<Vec<TelemetryRow>, StoreError> {
    let total = parquet::row_count(path)?;
    let names = COLUMNS.map(|(name, _)| name);
    let mut rows = Vec::new();
    while rows.len() < total {
        let some = ROW_GROUP_ROWS.min(total - rows.len());
        let read = from_frame(path, &parquet::read(path, rows.len(), some, &names)?)?;
        if read.is_empty() {
            let reason = format!("says that it holds {total} readings, and does not");
            return Err(StoreError::Parquet {
                path: path.to_path_buf(),
                reason,
            });
        }
        rows.extend(read);
    }
    Ok(rows)
}

fn to_frame(rows: &[TelemetryRow]) -> PolarsResult<DataFrame> {
    let text = |name: &'static str, of: fn(&TelemetryRow) -> &str| {
        let values: Vec<&str> = rows.iter().map(of).collect();
        Series::new(PlSmallStr::from_static(name), values).into_column()
    };
    let t_ns: Vec<u64> = rows.iter().map(|row| row.t_ns).collect();
    let value: Vec<f64> = rows.iter().map(|row| row.value).collect();
    let columns = vec![
        Series::new(PlSmallStr::from_static("t_ns"), t_ns).into_column(),
        text("cell", |row| &row.cell),
        text("source", |row| &row.source),
        text("metric", |row| &row.metric),
        Series::new(PlSmallStr::from_static("value"), value).into_column(),
        text("unit", |row| &row.unit),
    ];
    DataFrame::new(rows.len(), columns)
}

fn from_frame(path: &Path, frame: &DataFrame) -> Result<Vec<TelemetryRow>, StoreError> {
    let failed = |error: PolarsError| parquet_error(path, &error);
    let t_ns = frame.column("t_ns").and_then(Column::u64).map_err(failed)?;
    let cell = frame.column("cell").and_then(Column::str).map_err(failed)?;
    let source = frame
        .column("source")
        .and_then(Column::str)
        .map_err(failed)?;
    let metric = frame
        .column("metric")
        .and_then(Column::str)
        .map_err(failed)?;
    let value = frame
        .column("value")
        .and_then(Column::f64)
        .map_err(failed)?;
    let unit = frame.column("unit").and_then(Column::str).map_err(failed)?;
    let row = |i: usize| {
        Some(TelemetryRow {
            t_ns: t_ns.get(i)?,
            cell: cell.get(i)?.to_owned(),
            source: source.get(i)?.to_owned(),
            metric: metric.get(i)?.to_owned(),
            value: value.get(i)?,
            unit: unit.get(i)?.to_owned(),
        })
    };
    (0..frame.height())
        .map(|i| {
            let reason = format!("row {i}: a figure that is never missing is missing");
            row(i).ok_or(StoreError::Parquet {
                path: path.to_path_buf(),
                reason,
            })
        })
        .collect()
}
