//! `samples.parquet`, written from the cell logs and compared with them.

use std::path::{Path, PathBuf};

use gpubench_record::sample::MISSING;
use gpubench_record::{Phase, SampleRow, SampleStatus};

use super::error::StoreError;
use super::files::replace;
use super::parquet;
use super::parquet::{Kind, ROW_GROUP_ROWS, Table, Values};
use super::parquet_reader::{Reader, Rows};
use super::sample_file::SampleLog;

#[derive(Debug, Clone)]
pub(super) struct StoredLog {
    pub(super) key: SegmentKey,
    pub(super) path: PathBuf,
}

/// Writes the logs, in their order, as the Parquet file at `path`. The file is read back and
/// compared before it replaces an older one. Returns the number of its rows.
pub(super) fn write_samples(path: &Path, logs: &[StoredLog]) -> Result<u64, StoreError> {
    let mut rows = 0;
    replace(
        path,
        |file, part| {
            parquet::write(file, part, &TABLE, |writer| {
                for_each_group(logs, |group| {
                    rows += group.rows().len() as u64;
                    writer.row_group(group.rows().len(), group.to_columns())
                })
            })
        },
        |part| compare(part, logs),
    )?;
    Ok(rows)
}

/// Calls `each` with all rows of the logs, a row group at a time.
fn for_each_group(
    logs: &[StoredLog],
    mut each: impl FnMut(&RowGroup) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut group = RowGroup::default();
    for stored in logs {
        let mut log = SampleLog::open(&stored.path)?;
        loop {
            let room = ROW_GROUP_ROWS - group.rows().len();
            let rows = log
                .next_rows(room)
                .map_err(|source| StoreError::Log { path: stored.path.clone(), source })?;
            if rows.is_empty() {
                break;
            }
            group.push(&stored.key, &rows);
            if rows.len() == room {
                each(&group)?;
                group.clear();
            }
        }
    }
    if group.rows().is_empty() { Ok(()) } else { each(&group) }
}

/// Compares every row of the Parquet file, and its tenant and cell, with the logs.
fn compare(path: &Path, logs: &[StoredLog]) -> Result<(), StoreError> {
    let reader = Reader::open(path, &TABLE)?;
    let differs = |reason: String| StoreError::Differs { path: path.to_path_buf(), reason };
    let total = reader.row_count();
    let mut start = 0;
    for_each_group(logs, |group| {
        let end = start + group.rows().len();
        if end > total {
            return Err(differs(format!("{total} rows, and the logs have more")));
        }
        let rows = reader.read(start..end, &TABLE.names())?;
        if rows_of(&rows)? != group.rows() || segments_of(&rows)? != group.segments() {
            return Err(differs(format!("among the rows from {start} to {end}")));
        }
        start = end;
        Ok(())
    })?;
    if total != start {
        return Err(differs(format!("{total} rows, and the logs have {start}")));
    }
    Ok(())
}

// The columns of `samples.parquet`, and the conversion of sample rows to columns and back.

/// Every column with its type, in file order. A timestamp that was never taken is null.
/// `issuer_idle` separates lateness of the harness from lateness of the system.
const COLUMNS: [(&str, Kind); 14] = [
    ("session", Kind::U32),
    ("block", Kind::U32),
    ("cell", Kind::Text),
    ("tenant", Kind::Text),
    ("seq", Kind::U64),
    ("phase", Kind::U8),
    ("status", Kind::U8),
    ("error", Kind::I32),
    ("t_sched_ns", Kind::U64),
    ("t_issue_ns", Kind::U64),
    ("t_ret_ns", Kind::U64),
    ("t_done_ns", Kind::U64),
    ("gpu_ns", Kind::U64),
    ("issuer_idle", Kind::Bool),
];

/// The table of samples, with the meaning of its codes and stamps.
pub(super) const TABLE: Table = Table {
    columns: &COLUMNS,
    legends: &[
        ("session", "start of the harness, from 0"),
        ("block", "repetition of every cell, from 0"),
        ("cell", "id of the cell in record.json"),
        ("tenant", "victim, or the name of a neighbour"),
        ("seq", "number of the request of this tenant in this cell"),
        ("phase", "0 warmup, 1 closed, 2 open, 3 drain, 4 sparse"),
        ("status", "0 ok, 1 error, 2 unfinished, 3 wrong-result"),
        ("error", "CUresult of the call that failed, else 0"),
        ("t_sched_ns", STAMP),
        ("t_issue_ns", STAMP),
        ("t_ret_ns", STAMP),
        ("t_done_ns", STAMP),
        ("gpu_ns", "ns between the two device events of the request; null: not measured"),
        ("issuer_idle", "whether the issuer was idle when the request came due"),
    ],
};

const STAMP: &str = "ns since the common start of the cell; null: never taken";

pub(super) const KEY_COLUMNS: [&str; 4] = ["session", "block", "cell", "tenant"];

/// The tenant and cell of consecutive rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentKey {
    /// Number of the session in the record, from 0. A run is one session.
    pub session: u32,
    pub block: u32,
    pub cell: String,
    pub tenant: String,
}

#[derive(Debug, Default)]
pub(super) struct RowGroup {
    segments: Vec<(SegmentKey, usize)>,
    rows: Vec<SampleRow>,
}

impl RowGroup {
    pub(super) fn rows(&self) -> &[SampleRow] {
        &self.rows
    }

    pub(super) fn segments(&self) -> &[(SegmentKey, usize)] {
        &self.segments
    }

    /// Drops the rows and keeps the allocation.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.segments.clear();
    }

    pub(super) fn push(&mut self, key: &SegmentKey, rows: &[SampleRow]) {
        self.rows.extend_from_slice(rows);
        match self.segments.last_mut() {
            Some((last, count)) if last == key => *count += rows.len(),
            _ => self.segments.push((key.clone(), rows.len())),
        }
    }

    pub(super) fn to_columns(&self) -> Vec<(&'static str, Values<'_>)> {
        let rows = &self.rows;
        let timestamp = |of: fn(&SampleRow) -> u64| {
            let values = rows.iter().map(of);
            Values::OptionalU64(values.map(|ns| (ns != MISSING).then_some(ns)).collect())
        };
        let phase = rows.iter().map(|row| row.phase as u8);
        let status = rows.iter().map(|row| row.status as u8);
        let idle = rows.iter().map(|row| row.issuer_idle);
        vec![
            ("session", Values::U32(self.per_row(|key| key.session))),
            ("block", Values::U32(self.per_row(|key| key.block))),
            ("cell", Values::Text(self.per_row(|key| &*key.cell))),
            ("tenant", Values::Text(self.per_row(|key| &*key.tenant))),
            ("seq", Values::U64(rows.iter().map(|r| r.seq).collect())),
            ("phase", Values::U8(phase.collect())),
            ("status", Values::U8(status.collect())),
            ("error", Values::I32(rows.iter().map(|r| r.error).collect())),
            ("t_sched_ns", timestamp(|row| row.t_sched_ns)),
            ("t_issue_ns", timestamp(|row| row.t_issue_ns)),
            ("t_ret_ns", timestamp(|row| row.t_ret_ns)),
            ("t_done_ns", timestamp(|row| row.t_done_ns)),
            ("gpu_ns", timestamp(|row| row.gpu_ns)),
            ("issuer_idle", Values::Bool(idle.collect())),
        ]
    }

    fn per_row<'a, T: Clone>(&'a self, value: impl Fn(&'a SegmentKey) -> T) -> Vec<T> {
        let segments = self.segments.iter();
        segments.flat_map(|(key, count)| std::iter::repeat_n(value(key), *count)).collect()
    }
}

/// The sample rows in columns that include all but the keys.
pub(super) fn rows_of(rows: &Rows<'_>) -> Result<Vec<SampleRow>, StoreError> {
    let (seq, error) = (rows.u64("seq")?, rows.i32("error")?);
    let (phase, status) = (rows.u8("phase")?, rows.u8("status")?);
    let idle = rows.bool("issuer_idle")?;
    let stamps = |name: &str| rows.u64_or(name, MISSING);
    let (sched, issue) = (stamps("t_sched_ns")?, stamps("t_issue_ns")?);
    let (ret, done) = (stamps("t_ret_ns")?, stamps("t_done_ns")?);
    let gpu = stamps("gpu_ns")?;
    let unknown = |row: usize, name: &str| rows.error(format!("row {row}: {name} is not 0 to 3"));
    let phase = phase.iter().enumerate();
    let phase: Vec<Phase> = phase
        .map(|(row, &code)| Phase::from_u8(code).ok_or_else(|| unknown(row, "phase")))
        .collect::<Result<_, _>>()?;
    let status = status.iter().enumerate();
    let status: Vec<SampleStatus> = status
        .map(|(row, &code)| SampleStatus::from_u8(code).ok_or_else(|| unknown(row, "status")))
        .collect::<Result<_, _>>()?;
    let count = rows.count();
    // Slices of one length: the loop has no check of bounds.
    let (seq, error, idle) = (&seq[..count], &error[..count], &idle[..count]);
    let (phase, status) = (&phase[..count], &status[..count]);
    let (sched, issue) = (&sched[..count], &issue[..count]);
    let (ret, done, gpu) = (&ret[..count], &done[..count], &gpu[..count]);
    let row = |i: usize| SampleRow {
        seq: seq[i],
        t_sched_ns: sched[i],
        t_issue_ns: issue[i],
        t_ret_ns: ret[i],
        t_done_ns: done[i],
        gpu_ns: gpu[i],
        error: error[i],
        phase: phase[i],
        status: status[i],
        issuer_idle: idle[i],
    };
    Ok((0..count).map(row).collect())
}

/// The segments in columns that include the keys, each with its length.
pub(super) fn segments_of(rows: &Rows<'_>) -> Result<Vec<(SegmentKey, usize)>, StoreError> {
    let (session, block) = (rows.u32("session")?, rows.u32("block")?);
    let runs = rows.runs(&["cell", "tenant"], &["session", "block"])?;
    let segments = runs.into_iter().map(|run| {
        let key = SegmentKey {
            session: session[run.start],
            block: block[run.start],
            cell: rows.text_at("cell", run.start)?.to_owned(),
            tenant: rows.text_at("tenant", run.start)?.to_owned(),
        };
        Ok((key, run.len()))
    });
    segments.collect()
}

#[cfg(test)]
pub(super) mod tests {
    use gpubench_record::SampleRow;
    use gpubench_record::sample::MISSING;

    use super::{Reader, SegmentKey, StoredLog, TABLE, compare, write_samples};
    use crate::StoreError;
    use crate::samples_for_tests::{log_bytes, row};

    pub(crate) fn stored(dir: &std::path::Path, rows: &[SampleRow], tenant: &str) -> StoredLog {
        let path = dir.join("one.samples");
        std::fs::write(&path, log_bytes(rows, rows.len() as u64)).unwrap();
        let key =
            SegmentKey { session: 0, block: 0, cell: "c".to_owned(), tenant: tenant.to_owned() };
        StoredLog { key, path }
    }

    #[test]
    fn a_file_that_differs_from_the_logs_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("samples.parquet");
        let rows: Vec<_> = (0..9).map(row).collect();
        let log = stored(dir.path(), &rows, "victim");
        assert_eq!(write_samples(&file, std::slice::from_ref(&log)).unwrap(), 9);
        assert!(compare(&file, std::slice::from_ref(&log)).is_ok());
        // Every third of these requests has no device time, which is null in the file.
        let reader = Reader::open(&file, &TABLE).unwrap();
        let read = reader.read(0..9, &["gpu_ns", "t_done_ns"]).unwrap();
        let nulls = ["gpu_ns", "t_done_ns"].map(|name| {
            let values = read.u64_or(name, MISSING).unwrap();
            values.iter().filter(|value| **value == MISSING).count()
        });
        assert_eq!(nulls, [3, 0]);
        let mut changed = rows.clone();
        changed[8].issuer_idle = !changed[8].issuer_idle;
        for (rows, tenant) in
            [(&changed[..], "victim"), (&rows[..8], "victim"), (&rows[..], "neighbour-1")]
        {
            let log = stored(dir.path(), rows, tenant);
            let error = compare(&file, &[log]).unwrap_err();
            assert!(matches!(error, StoreError::Differs { .. }), "{error}");
        }
    }
}
