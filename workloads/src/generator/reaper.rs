//! The second thread: waits for the requests of the open loop, in order, and writes their rows.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use gpubench_record::{Phase, SampleStatus};

use super::gaps::GapCounter;
use super::issuer::{ErrorsInARow, await_row};
use super::shared::Shared;
use super::{CellRun, CellRunError, Reap};
use crate::clock::thread::ReaperCores;
use crate::clock::{ClockError, Participation, Time};

/// Starts the thread. The thread itself joins the clock: joining may wait until every expected
/// participant has joined, the calling thread among them.
pub(super) fn start(
    time: &Arc<dyn Time>,
    run: &CellRun,
    reap: &Arc<dyn Reap>,
    shared: &Arc<Shared>,
) -> Result<JoinHandle<Result<(), ClockError>>, CellRunError> {
    let reaper = Reaper {
        time: Arc::clone(time),
        reap: Arc::clone(reap),
        shared: Arc::clone(shared),
        t0_ns: run.t0_ns,
        me: run.reaper,
        cores: run.reaper_cores,
        slots: shared.slots,
    };
    // Waking it must allocate nothing, even before it has joined.
    time.announce(run.reaper);
    std::thread::Builder::new()
        .name("reaper".to_owned())
        .spawn(move || reaper.run())
        .map_err(CellRunError::Thread)
}

struct Reaper {
    time: Arc<dyn Time>,
    reap: Arc<dyn Reap>,
    shared: Arc<Shared>,
    t0_ns: u64,
    me: u32,
    cores: Option<ReaperCores>,
    slots: usize,
}

/// Reports to the issuer that the reaper has stopped, also when the thread unwinds.
struct DoneOnDrop<'a>(&'a Shared);

impl Drop for DoneOnDrop<'_> {
    fn drop(&mut self) {
        self.0.reaper_done.store(true, Ordering::Release);
    }
}

impl Reaper {
    fn run(self) -> Result<(), ClockError> {
        let done = DoneOnDrop(&self.shared);
        let fifo = self.time.settle_reaper(self.cores)?;
        let participation = Participation::join(&*self.time, self.me)?;
        let mut gaps = GapCounter::new(&*self.time, &*self.reap);
        let worked = self.work(gaps.as_mut());
        self.shared.note_reaper(fifo, gaps.map(|gaps| (gaps.of_reaper(), gaps.late_ends())));
        worked?;
        drop(done);
        participation.leave()
    }

    fn work(&self, mut gaps: Option<&mut GapCounter<'_>>) -> Result<(), ClockError> {
        if let Some(gaps) = gaps.as_deref_mut() {
            gaps.enter(Phase::Open);
        }
        if let Err(error) = self.reap.enter_thread() {
            self.shared.stop(error);
            return Ok(());
        }
        self.time.sleep_until(self.t0_ns)?;
        let mut errors = ErrorsInARow::default();
        loop {
            // Read before the queue, so that a request queued before the end was declared is found.
            let closing = self.shared.closing.load(Ordering::Acquire);
            let Some(mut row) = self.shared.take() else {
                if closing {
                    return Ok(());
                }
                if let Some(gaps) = gaps.as_deref_mut() {
                    gaps.block();
                }
                self.time.park(self.me)?;
                continue;
            };
            if row.status == SampleStatus::Ok {
                let (reap, time) = (&*self.reap, &*self.time);
                let gaps = gaps.as_deref_mut();
                match await_row(&mut row, reap, self.slots, time, self.t0_ns, gaps) {
                    Ok(()) => errors.clear(),
                    Err(error) if errors.is_final(&error) => self.shared.stop(error),
                    Err(_) => {}
                }
            }
            if !self.shared.finish(&row) {
                return Ok(());
            }
        }
    }
}
