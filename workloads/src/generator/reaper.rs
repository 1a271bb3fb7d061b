//! The second thread: waits for the requests of the open loop, in order, and writes their rows.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use gpubench_record::SampleStatus;

use super::issuer::{ErrorsInARow, await_row};
use super::shared::Shared;
use super::{Part, PartError, Reap};
use crate::clock::{ClockError, Seat, Time};

/// Starts the thread and returns when it takes part in the clock.
pub(super) fn start(
    time: &Arc<dyn Time>,
    part: &Part,
    reap: &Arc<dyn Reap>,
    shared: &Arc<Shared>,
) -> Result<JoinHandle<()>, PartError> {
    // A channel may be waited on here: the calling thread has not joined the clock yet.
    let (tell, hear) = sync_channel(1);
    let reaper = Reaper {
        time: Arc::clone(time),
        reap: Arc::clone(reap),
        shared: Arc::clone(shared),
        t0_ns: part.t0_ns,
        me: part.reaper,
        issuer_cpu: part.issuer_cpu,
        slots: shared.ring.capacity(),
    };
    let thread = std::thread::Builder::new()
        .name("reaper".to_owned())
        .spawn(move || reaper.run(&tell))
        .map_err(PartError::Thread)?;
    hear.recv().map_err(|_| PartError::ReaperPanicked)??;
    Ok(thread)
}

struct Reaper {
    time: Arc<dyn Time>,
    reap: Arc<dyn Reap>,
    shared: Arc<Shared>,
    t0_ns: u64,
    me: u32,
    issuer_cpu: Option<u32>,
    slots: usize,
}

/// Tells the issuer that nobody reaps any more, also when the thread unwinds.
struct DoneOnDrop<'a>(&'a Shared);

impl Drop for DoneOnDrop<'_> {
    fn drop(&mut self) {
        self.0.reaper_done.store(true, Ordering::Release);
    }
}

impl Reaper {
    fn run(self, tell: &SyncSender<Result<(), ClockError>>) {
        self.time.settle_reaper(self.issuer_cpu);
        let seat = match Seat::take(&*self.time, self.me) {
            Ok(seat) => seat,
            Err(error) => {
                // The issuer waits for exactly this answer.
                let _issuer_waits = tell.send(Err(error));
                return;
            }
        };
        let _issuer_waits = tell.send(Ok(()));
        let worked = {
            let _done = DoneOnDrop(&self.shared);
            self.work()
        };
        if let Err(error) = worked.and_then(|()| seat.leave()) {
            self.shared.stop(super::DeviceError {
                what: format!("the reaper's clock: {error}"),
                code: None,
                sticky: true,
            });
        }
    }

    fn work(&self) -> Result<(), ClockError> {
        if let Err(error) = self.reap.enter_thread() {
            self.shared.stop(error);
            return Ok(());
        }
        self.time.sleep_until(self.t0_ns)?;
        let mut errors = ErrorsInARow::default();
        loop {
            // Read before the queue: what is put in before the end is declared is seen after it.
            let closing = self.shared.closing.load(Ordering::Acquire);
            let Some(mut row) = self.shared.take() else {
                if closing {
                    return Ok(());
                }
                self.time.park(self.me)?;
                continue;
            };
            if row.status == SampleStatus::Ok {
                match await_row(&mut row, &*self.reap, self.slots, &*self.time, self.t0_ns) {
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
