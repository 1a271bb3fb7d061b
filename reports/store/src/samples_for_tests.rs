//! Rows and logs for the tests of this room.

use gpubench_record::sample::{
    CAPACITY_OFFSET, COMMITTED_OFFSET, HEADER_BYTES, LOG_MAGIC, MISSING, ROW_BYTES,
};
use gpubench_record::{Phase, SampleRow, SampleStatus};
pub use gpubench_sample_records::row;
use proptest::prelude::*;

/// The bytes of a log with a capacity of `capacity` rows that holds `rows`.
pub fn log_bytes(rows: &[SampleRow], capacity: u64) -> Vec<u8> {
    let mut bytes = vec![0u8; HEADER_BYTES + usize::try_from(capacity).unwrap() * ROW_BYTES];
    bytes[..8].copy_from_slice(&LOG_MAGIC);
    bytes[CAPACITY_OFFSET..CAPACITY_OFFSET + 8].copy_from_slice(&capacity.to_le_bytes());
    let committed = rows.len() as u64;
    bytes[COMMITTED_OFFSET..COMMITTED_OFFSET + 8].copy_from_slice(&committed.to_le_bytes());
    for (slot, row) in bytes[HEADER_BYTES..].chunks_exact_mut(ROW_BYTES).zip(rows) {
        slot.copy_from_slice(&row.to_bytes());
    }
    bytes
}

/// Any row, with missing timestamps and the ends of the range.
pub fn any_row() -> impl Strategy<Value = SampleRow> {
    let stamp = || prop_oneof![3 => any::<u64>(), 1 => Just(MISSING), 1 => Just(0)];
    let stamps = (any::<u64>(), stamp(), stamp(), stamp(), stamp(), stamp());
    (stamps, any::<i32>(), 0u8..4, 0u8..4, any::<bool>()).prop_map(
        |((seq, sched, issue, ret, done, gpu), error, phase, status, issuer_idle)| SampleRow {
            seq,
            t_sched_ns: sched,
            t_issue_ns: issue,
            t_ret_ns: ret,
            t_done_ns: done,
            gpu_ns: gpu,
            error,
            phase: Phase::from_u8(phase).unwrap(),
            status: SampleStatus::from_u8(status).unwrap(),
            issuer_idle,
        },
    )
}
