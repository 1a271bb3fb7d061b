//! One request with its stamps, and the fixed row in which a tenant logs it.
//!
//! The log is a file that the tenant maps into memory: a header of [`HEADER_BYTES`], then rows of
//! [`ROW_BYTES`]. A row counts once the committed count in the header covers it; the count is
//! stored with release order after the row, so that a reader of a killed tenant's log sees whole
//! rows only. All integers are little endian.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// First bytes of a sample log.
pub const LOG_MAGIC: [u8; 8] = *b"GPBSAMP1";
/// Bytes before the first row.
pub const HEADER_BYTES: usize = 64;
/// Bytes of one row.
pub const ROW_BYTES: usize = 64;
/// Offset of the number of committed rows in the header (u64).
pub const COMMITTED_OFFSET: usize = 16;
/// Offset of the capacity in rows in the header (u64).
pub const CAPACITY_OFFSET: usize = 8;
/// The value of a stamp that was never taken; it is not zero.
pub const MISSING: u64 = u64::MAX;

/// The phase of a cell in which a request was issued.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Phase {
    /// Before the measurement; kept, never scored.
    Warmup = 0,
    /// Closed loop: the next request follows the last one's completion.
    Closed = 1,
    /// Open loop: requests follow the schedule.
    Open = 2,
    /// After the measurement, while outstanding work ends.
    Drain = 3,
    /// Single requests with random pauses.
    Sparse = 4,
}

impl Phase {
    /// The phase with this number.
    pub const fn from_u8(value: u8) -> Option<Self> {
        match value {
            0 => Some(Self::Warmup),
            1 => Some(Self::Closed),
            2 => Some(Self::Open),
            3 => Some(Self::Drain),
            4 => Some(Self::Sparse),
            _ => None,
        }
    }
}

/// Where a row of the log has its [`SampleStatus`].
pub const STATUS_OFFSET: usize = 53;

/// How a request ended.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum SampleStatus {
    /// Completed.
    Ok = 0,
    /// The driver refused or reported an error; `error` has its code.
    Error = 1,
    /// Was still outstanding when the cell ended.
    Unfinished = 2,
    /// Completed with a wrong result.
    WrongResult = 3,
}

impl SampleStatus {
    /// The status with this number.
    pub const fn from_u8(value: u8) -> Option<Self> {
        match value {
            0 => Some(Self::Ok),
            1 => Some(Self::Error),
            2 => Some(Self::Unfinished),
            3 => Some(Self::WrongResult),
            _ => None,
        }
    }
}

/// One request. Stamps are nanoseconds since the common start of the cell's tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleRow {
    /// Number of the request in this cell and tenant, from 0, in issue order.
    pub seq: u64,
    /// The scheduled instant; in a closed loop, when it could be issued.
    pub t_sched_ns: u64,
    /// Just before the first driver call of the request.
    pub t_issue_ns: u64,
    /// When the last submitting driver call had returned.
    pub t_ret_ns: u64,
    /// When its completion was observed; [`MISSING`] if it never was.
    pub t_done_ns: u64,
    /// Time between its two device events; [`MISSING`] where there is none.
    pub gpu_ns: u64,
    /// `CUresult` of the call that failed, 0 otherwise.
    pub error: i32,
    /// The phase in which it was issued.
    pub phase: Phase,
    /// How it ended.
    pub status: SampleStatus,
    /// Whether the issuer was idle when the request came due: lateness of an idle issuer is the
    /// harness's own, lateness of one inside an earlier driver call belongs to the system.
    pub issuer_idle: bool,
}

/// A row that cannot be read: the log is torn or was written by a later version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    /// An unknown phase.
    #[error("phase {0} is not one of 0 to 4")]
    Phase(u8),
    /// An unknown status.
    #[error("status {0} is not one of 0 to 3")]
    Status(u8),
}

impl SampleRow {
    /// The row as bytes of the log.
    pub fn to_bytes(&self) -> [u8; ROW_BYTES] {
        let mut out = [0u8; ROW_BYTES];
        let words = [
            self.seq,
            self.t_sched_ns,
            self.t_issue_ns,
            self.t_ret_ns,
            self.t_done_ns,
            self.gpu_ns,
        ];
        for (chunk, word) in out.chunks_exact_mut(8).zip(words) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        out[48..52].copy_from_slice(&self.error.to_le_bytes());
        out[52] = self.phase as u8;
        out[STATUS_OFFSET] = self.status as u8;
        out[54] = u8::from(self.issuer_idle);
        out
    }

    /// Reads a row back.
    /// Fails when phase or status is unknown.
    pub fn from_bytes(bytes: &[u8; ROW_BYTES]) -> Result<Self, RowError> {
        let word = |i: usize| {
            let mut w = [0u8; 8];
            w.copy_from_slice(&bytes[i * 8..i * 8 + 8]);
            u64::from_le_bytes(w)
        };
        let mut error = [0u8; 4];
        error.copy_from_slice(&bytes[48..52]);
        Ok(Self {
            seq: word(0),
            t_sched_ns: word(1),
            t_issue_ns: word(2),
            t_ret_ns: word(3),
            t_done_ns: word(4),
            gpu_ns: word(5),
            error: i32::from_le_bytes(error),
            phase: Phase::from_u8(bytes[52]).ok_or(RowError::Phase(bytes[52]))?,
            status: SampleStatus::from_u8(bytes[STATUS_OFFSET])
                .ok_or(RowError::Status(bytes[STATUS_OFFSET]))?,
            issuer_idle: bytes[54] != 0,
        })
    }

    /// From the scheduled instant to completion: the wait of a user. `None` without completion.
    pub fn latency_ns(&self) -> Option<u64> {
        (self.t_done_ns != MISSING).then(|| self.t_done_ns.saturating_sub(self.t_sched_ns))
    }

    /// From issue to completion, as a closed-loop tool would report it.
    pub fn service_ns(&self) -> Option<u64> {
        (self.t_done_ns != MISSING).then(|| self.t_done_ns.saturating_sub(self.t_issue_ns))
    }

    /// How much later than scheduled it was issued.
    pub fn lateness_ns(&self) -> u64 {
        self.t_issue_ns.saturating_sub(self.t_sched_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::{MISSING, Phase, RowError, SampleRow, SampleStatus};

    fn row() -> SampleRow {
        SampleRow {
            seq: 7,
            t_sched_ns: 1_000,
            t_issue_ns: 1_250,
            t_ret_ns: 4_000,
            t_done_ns: 1_004_000,
            gpu_ns: MISSING,
            error: -1,
            phase: Phase::Open,
            status: SampleStatus::Error,
            issuer_idle: true,
        }
    }

    #[test]
    fn a_row_survives_the_log() {
        assert_eq!(SampleRow::from_bytes(&row().to_bytes()), Ok(row()));
    }

    #[test]
    fn unknown_numbers_are_refused() {
        let mut bytes = row().to_bytes();
        bytes[52] = 9;
        assert_eq!(SampleRow::from_bytes(&bytes), Err(RowError::Phase(9)));
        let mut bytes = row().to_bytes();
        bytes[53] = 200;
        assert_eq!(SampleRow::from_bytes(&bytes), Err(RowError::Status(200)));
    }

    #[test]
    fn latency_starts_at_the_schedule_and_missing_stays_missing() {
        assert_eq!(row().latency_ns(), Some(1_003_000));
        assert_eq!(row().service_ns(), Some(1_002_750));
        assert_eq!(row().lateness_ns(), 250);
        let unfinished = SampleRow { t_done_ns: MISSING, ..row() };
        assert_eq!(unfinished.latency_ns(), None);
    }
}
