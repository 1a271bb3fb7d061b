//! State shared by issuer and reaper: the queue between them, the log, and the progress of the
//! cell.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

use gpubench_record::sample::{SampleRow, SampleStatus};
use gpubench_record::{CpuGaps, Gaps, PhaseGaps};

use super::{DeviceError, Issued, Outcome};
use crate::log::LogWriter;

#[derive(Debug)]
pub(super) struct Shared {
    /// From issuer to reaper: allocated once, and neither side waits for the other.
    pub(super) queue: SyncSender<SampleRow>,
    /// Number of requests that the queue holds, which is that of event pairs.
    pub(super) slots: usize,
    /// No request will be added to the queue any more.
    pub(super) closing: AtomicBool,
    /// No request should be issued any more.
    pub(super) stopped: AtomicBool,
    /// The reaper has made its last check.
    pub(super) reaper_done: AtomicBool,
    pub(super) reaped: AtomicU64,
    journal: Mutex<Journal>,
}

#[derive(Debug)]
struct Journal {
    log: LogWriter,
    queue: Receiver<SampleRow>,
    awaited: Option<SampleRow>,
    /// The issuer has written off the outstanding requests; the reaper must not write any more.
    abandoned: bool,
    unfinished: u64,
    failure: Option<DeviceError>,
    reaper_fifo: bool,
    /// With its late stamps.
    reaper_gaps: Option<(Gaps, Gaps)>,
}

impl Shared {
    pub(super) fn new(log: LogWriter, slots: usize) -> Self {
        let (queue, queued) = sync_channel(slots);
        Self {
            queue,
            slots,
            closing: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            reaper_done: AtomicBool::new(false),
            reaped: AtomicU64::new(0),
            journal: Mutex::new(Journal {
                log,
                queue: queued,
                awaited: None,
                abandoned: false,
                unfinished: 0,
                failure: None,
                reaper_fifo: false,
                reaper_gaps: None,
            }),
        }
    }

    /// Declares that no request will be added to the queue any more.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Release);
    }

    /// Whether an error has ended the run.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Ends the run for this reason, unless an earlier one has ended it.
    pub(super) fn stop(&self, failure: DeviceError) {
        self.journal().failure.get_or_insert(failure);
        self.stopped.store(true, Ordering::Release);
    }

    /// Writes the row of a request for which the issuer waited.
    pub(super) fn write(&self, row: &SampleRow) {
        // A full log counts the rows that it has no room for.
        let _counted = self.journal().log.push(row);
    }

    /// Removes the oldest request for the reaper; `None` after requests were written off.
    pub(super) fn take(&self) -> Option<SampleRow> {
        let mut journal = self.journal();
        if journal.abandoned {
            return None;
        }
        journal.awaited = journal.queue.try_recv().ok();
        journal.awaited
    }

    /// Writes the row of the reaper's request; false if it was written off meanwhile.
    pub(super) fn finish(&self, row: &SampleRow) -> bool {
        let mut journal = self.journal();
        if journal.abandoned {
            return false;
        }
        journal.awaited = None;
        let _counted = journal.log.push(row);
        drop(journal);
        self.reaped.fetch_add(1, Ordering::Release);
        true
    }

    /// Writes off all outstanding requests: they are logged as unfinished.
    pub(super) fn abandon(&self) {
        let mut journal = self.journal();
        journal.abandoned = true;
        let mut left = journal.awaited.take().or_else(|| journal.queue.try_recv().ok());
        while let Some(row) = left {
            // A refused request never ran: it ended when it was refused.
            let refused = row.status == SampleStatus::Error;
            let status = if refused { row.status } else { SampleStatus::Unfinished };
            let _counted = journal.log.push(&SampleRow { status, ..row });
            journal.unfinished += u64::from(!refused);
            left = journal.queue.try_recv().ok();
        }
    }

    /// Keeps whether the reaper had the real-time class, and its gaps of the open loop.
    pub(super) fn note_reaper(&self, fifo: bool, gaps: Option<(Gaps, Gaps)>) {
        let mut journal = self.journal();
        (journal.reaper_fifo, journal.reaper_gaps) = (fifo, gaps);
    }

    pub(super) fn outcome(&self, issued: &Issued) -> Outcome {
        let journal = self.journal();
        let (reaper, late_ends) = journal.reaper_gaps.unzip();
        let cpu_gaps = issued
            .gaps
            .map(|gaps| CpuGaps { open: PhaseGaps { reaper, late_ends, ..gaps.open }, ..gaps });
        Outcome {
            rows: journal.log.committed_rows(),
            unlogged: journal.log.unlogged_rows(),
            overloaded: issued.overloaded,
            unfinished: journal.unfinished,
            fifo: issued.fifo,
            reaper_fifo: journal.reaper_fifo,
            cpu_gaps,
            stuck: issued.stuck,
            failure: journal.failure.clone(),
        }
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
