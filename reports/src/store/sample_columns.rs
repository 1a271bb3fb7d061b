//! The columns of `samples.parquet`, and sample rows as columns and back.

use std::path::Path;

use gpubench_record::sample::MISSING;
use gpubench_record::{Phase, SampleRow, SampleStatus};
use polars::prelude::{
    Column, DataFrame, DataType, IntoColumn, NamedFrom, PlSmallStr, PolarsError, PolarsResult,
    Schema, Series,
};

use super::error::StoreError;
use super::parquet::parquet_error;

/// Every column with its type, in file order. Stamps that were never taken are null.
/// `issuer_idle` tells lateness that is the harness's own from lateness that is the system's.
pub(super) const COLUMNS: [(&str, DataType); 14] = [
    ("session", DataType::UInt32),
    ("block", DataType::UInt32),
    ("cell", DataType::String),
    ("tenant", DataType::String),
    ("seq", DataType::UInt64),
    ("phase", DataType::UInt8),
    ("status", DataType::UInt8),
    ("error", DataType::Int32),
    ("t_sched_ns", DataType::UInt64),
    ("t_issue_ns", DataType::UInt64),
    ("t_ret_ns", DataType::UInt64),
    ("t_done_ns", DataType::UInt64),
    ("gpu_ns", DataType::UInt64),
    ("issuer_idle", DataType::Boolean),
];

/// The columns that say whose a row is.
pub(super) const KEY_COLUMNS: [&str; 4] = ["session", "block", "cell", "tenant"];

/// Columns of the stamps, in the order of [`stamps`].
const STAMPS: [&str; 5] = [
    "t_sched_ns",
    "t_issue_ns",
    "t_ret_ns",
    "t_done_ns",
    "gpu_ns",
];

/// Whose samples a stretch of rows holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StretchKey {
    /// Number of the session in the record, from 0. A run is one session.
    pub session: u32,
    /// The cell's block.
    pub block: u32,
    /// The cell's id.
    pub cell: String,
    /// The tenant's name.
    pub tenant: String,
}

/// The schema of the file.
pub(super) fn schema() -> Schema {
    COLUMNS
        .iter()
        .map(|(name, dtype)| (PlSmallStr::from_static(name), dtype.clone()))
        .collect()
}

/// Rows being gathered for one row group.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    stretches: Vec<(StretchKey, usize)>,
    rows: Vec<SampleRow>,
}

impl Gathered {
    /// The rows gathered so far.
    pub(super) fn rows(&self) -> &[SampleRow] {
        &self.rows
    }

    /// Whose they are, and how many in a row.
    pub(super) fn stretches(&self) -> &[(StretchKey, usize)] {
        &self.stretches
    }

    /// Forgets the rows and keeps their memory.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.stretches.clear();
    }

    /// Adds rows of one tenant in one cell.
    pub(super) fn push(&mut self, key: &StretchKey, rows: &[SampleRow]) {
        self.rows.extend_from_slice(rows);
        match self.stretches.last_mut() {
            Some((last, count)) if last == key => *count += rows.len(),
            _ => self.stretches.push((key.clone(), rows.len())),
        }
    }

    /// The rows as a frame.
    pub(super) fn to_frame(&self) -> PolarsResult<DataFrame> {
        let rows = &self.rows;
        let mut columns = vec![
            column("session", self.per_row(|key| key.session)),
            column("block", self.per_row(|key| key.block)),
            column("cell", self.per_row(|key| key.cell.as_str())),
            column("tenant", self.per_row(|key| key.tenant.as_str())),
            column("seq", rows.iter().map(|r| r.seq).collect::<Vec<_>>()),
            column(
                "phase",
                rows.iter().map(|r| r.phase as u8).collect::<Vec<_>>(),
            ),
            column(
                "status",
                rows.iter().map(|r| r.status as u8).collect::<Vec<_>>(),
            ),
            column("error", rows.iter().map(|r| r.error).collect::<Vec<_>>()),
        ];
        for (index, name) in STAMPS.into_iter().enumerate() {
            let stamp = |row: &SampleRow| {
                let ns = stamps(row)[index];
                (ns != MISSING).then_some(ns)
            };
            columns.push(column(name, rows.iter().map(stamp).collect::<Vec<_>>()));
        }
        columns.push(column(
            "issuer_idle",
            rows.iter().map(|r| r.issuer_idle).collect::<Vec<_>>(),
        ));
        DataFrame::new(rows.len(), columns)
    }

    fn per_row<'a, T: Clone>(&'a self, value: impl Fn(&'a StretchKey) -> T) -> Vec<T> {
        let stretches = self.stretches.iter();
        stretches
            .flat_map(|(key, count)| std::iter::repeat_n(value(key), *count))
            .collect()
    }
}

fn stamps(row: &SampleRow) -> [u64; 5] {
    [
        row.t_sched_ns,
        row.t_issue_ns,
        row.t_ret_ns,
        row.t_done_ns,
        row.gpu_ns,
    ]
}

fn column<T, P: ?Sized>(name: &'static str, values: T) -> Column
where
    Series: NamedFrom<T, P>,
{
    Series::new(PlSmallStr::from_static(name), values).into_column()
}

/// The rows of a frame that holds all columns but the keys.
pub(super) fn rows_of(path: &Path, frame: &DataFrame) -> Result<Vec<SampleRow>, StoreError> {
    let failed = |error: PolarsError| parquet_error(path, &error);
    let seq = frame.column("seq").and_then(Column::u64).map_err(failed)?;
    let phase = frame.column("phase").and_then(Column::u8).map_err(failed)?;
    let status = frame
        .column("status")
        .and_then(Column::u8)
        .map_err(failed)?;
    let error = frame
        .column("error")
        .and_then(Column::i32)
        .map_err(failed)?;
    let idle = frame
        .column("issuer_idle")
        .and_then(Column::bool)
        .map_err(failed)?;
    let mut stamps = Vec::with_capacity(STAMPS.len());
    for name in STAMPS {
        stamps.push(frame.column(name).and_then(Column::u64).map_err(failed)?);
    }
    let bad = |index: usize, reason: &str| StoreError::Parquet {
        path: path.to_path_buf(),
        reason: format!("row {index}: {reason}"),
    };
    let stamp = |column: usize, index| stamps[column].get(index).unwrap_or(MISSING);
    (0..frame.height())
        .map(|i| {
            let null = || bad(i, "a figure that is never missing is missing");
            Ok(SampleRow {
                seq: seq.get(i).ok_or_else(null)?,
                t_sched_ns: stamp(0, i),
                t_issue_ns: stamp(1, i),
                t_ret_ns: stamp(2, i),
                t_done_ns: stamp(3, i),
                gpu_ns: stamp(4, i),
                error: error.get(i).ok_or_else(null)?,
                phase: phase
                    .get(i)
                    .and_then(Phase::from_u8)
                    .ok_or_else(|| bad(i, "phase is not one of 0 to 3"))?,
                status: status
                    .get(i)
                    .and_then(SampleStatus::from_u8)
                    .ok_or_else(|| bad(i, "status is not one of 0 to 3"))?,
                issuer_idle: idle.get(i).ok_or_else(null)?,
            })
        })
        .collect()
}

/// The stretches of a frame that holds the key columns, with the rows of each.
pub(super) fn stretches_of(
    path: &Path,
    frame: &DataFrame,
) -> Result<Vec<(StretchKey, usize)>, StoreError> {
    let failed = |error: PolarsError| parquet_error(path, &error);
    let session = frame
        .column("session")
        .and_then(Column::u32)
        .map_err(failed)?;
    let block = frame
        .column("block")
        .and_then(Column::u32)
        .map_err(failed)?;
    let cell = frame.column("cell").and_then(Column::str).map_err(failed)?;
    let tenant = frame
        .column("tenant")
        .and_then(Column::str)
        .map_err(failed)?;
    let mut stretches: Vec<(StretchKey, usize)> = Vec::new();
    for i in 0..frame.height() {
        let (Some(session), Some(block), Some(cell), Some(tenant)) =
            (session.get(i), block.get(i), cell.get(i), tenant.get(i))
        else {
            let reason = format!("row {i}: does not say whose it is");
            return Err(StoreError::Parquet {
                path: path.to_path_buf(),
                reason,
            });
        };
        match stretches.last_mut() {
            Some((key, count))
                if key.tenant == tenant
                    && key.cell == cell
                    && (key.session, key.block) == (session, block) =>
            {
                *count += 1;
            }
            _ => {
                let (cell, tenant) = (cell.to_owned(), tenant.to_owned());
                stretches.push((
                    StretchKey {
                        session,
                        block,
                        cell,
                        tenant,
                    },
                    1,
                ));
            }
        }
    }
    Ok(stretches)
}
