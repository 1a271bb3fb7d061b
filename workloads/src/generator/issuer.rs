//! Issues one request and, where the load needs it, waits for it on the same thread.

use gpubench_record::CpuGaps;
use gpubench_record::sample::{MISSING, Phase, SampleRow, SampleStatus};

use super::gaps::{self, GapCounter};
use super::shared::Shared;
use super::{CellRun, DeviceError, ERRORS_IN_A_ROW_MAX, Reap, Submit};
use crate::clock::Time;

/// The issuing thread's state.
pub(super) struct Issuer<'a> {
    pub(super) time: &'a dyn Time,
    pub(super) run: &'a CellRun,
    pub(super) submit: &'a mut dyn Submit,
    pub(super) shared: &'a Shared,
    reap: &'a dyn Reap,
    seq: u64,
    errors: ErrorsInARow,
    /// Its gaps; `None` where they are not counted.
    gaps: Option<GapCounter<'a>>,
}

impl<'a> Issuer<'a> {
    pub(super) fn new(
        time: &'a dyn Time,
        run: &'a CellRun,
        submit: &'a mut dyn Submit,
        reap: &'a dyn Reap,
        shared: &'a Shared,
    ) -> Self {
        Self {
            time,
            run,
            submit,
            shared,
            reap,
            seq: 0,
            errors: ErrorsInARow::default(),
            gaps: GapCounter::new(time, reap),
        }
    }

    /// Time since the common start.
    pub(super) fn now_ns(&self) -> u64 {
        self.time.now_ns().saturating_sub(self.run.t0_ns)
    }

    /// Sleeps to an instant since the common start.
    pub(super) fn sleep_until(&mut self, t_ns: u64) -> Result<(), crate::clock::ClockError> {
        let (now_ns, t0_ns) = (self.gaps.is_some().then(|| self.now_ns()), self.run.t0_ns);
        let until_ns = t0_ns.saturating_add(t_ns);
        let (Some(gaps), Some(now_ns)) = (&mut self.gaps, now_ns) else {
            return self.time.sleep_until(until_ns);
        };
        gaps.tick(now_ns);
        gaps.block();
        let mut tick = |spun_ns: u64| gaps.tick(spun_ns.saturating_sub(t0_ns));
        self.time.sleep_and_spin(until_ns, &mut tick)
    }

    /// Begins a phase; what the thread did since its last request is part of none.
    pub(super) fn enter(&mut self, phase: Phase) {
        if let Some(gaps) = &mut self.gaps {
            gaps.enter(phase);
            gaps.block();
        }
    }

    /// Its gaps, where they are counted.
    pub(super) fn counted_gaps(&self) -> Option<CpuGaps> {
        self.gaps.as_ref().map(GapCounter::of_issuer)
    }

    pub(super) fn issued(&self) -> u64 {
        self.seq
    }

    /// Submits the next request. A driver error is recorded in the row, and ends the run if it is
    /// final.
    pub(super) fn issue(&mut self, t_sched_ns: u64, phase: Phase, issuer_idle: bool) -> SampleRow {
        let seq = self.seq;
        self.seq += 1;
        let slot = slot_of(seq, self.submit.slots());
        let t_issue_ns = self.now_ns();
        if let Some(gaps) = &mut self.gaps {
            gaps.enter(phase);
            gaps.tick(t_issue_ns);
        }
        let submitted = self.submit.submit(slot);
        let t_ret_ns = self.now_ns();
        if let Some(gaps) = &mut self.gaps {
            gaps.resume(t_ret_ns);
        }
        let mut row = SampleRow {
            seq,
            t_sched_ns,
            t_issue_ns,
            t_ret_ns,
            t_done_ns: MISSING,
            gpu_ns: MISSING,
            error: 0,
            phase,
            status: SampleStatus::Ok,
            issuer_idle,
        };
        match submitted {
            Ok(()) => self.errors.clear(),
            Err(error) => {
                fail(&mut row, &error);
                if self.is_answer(&row) && !error.sticky {
                    self.errors.clear();
                } else if self.errors.is_final(&error) {
                    self.shared.stop(error);
                }
            }
        }
        row
    }

    /// Whether the request failed with a code that answers its workload.
    pub(super) fn is_answer(&self, row: &SampleRow) -> bool {
        row.status == SampleStatus::Error && self.run.answers.contains(&row.error)
    }

    /// Waits for a request on this thread and writes its row; returns when it ended.
    pub(super) fn finish(&mut self, mut row: SampleRow) -> u64 {
        if row.status == SampleStatus::Ok
            && let Err(error) = await_row(
                &mut row,
                self.reap,
                self.submit.slots(),
                self.time,
                self.run.t0_ns,
                self.gaps.as_mut(),
            )
            && self.errors.is_final(&error)
        {
            self.shared.stop(error);
        }
        self.shared.write(&row);
        if row.t_done_ns == MISSING { row.t_ret_ns } else { row.t_done_ns }
    }
}

/// The event pair of a request. Requests end in the order of issue, and fewer are outstanding than
/// there are pairs, so the pair is free when it is used again.
pub(super) fn slot_of(seq: u64, slots: usize) -> usize {
    // The remainder is below a usize.
    (seq % slots as u64) as usize
}

/// Waits for a request and records its end. The end of a failed request is the instant at which the
/// error was returned.
pub(super) fn await_row(
    row: &mut SampleRow,
    reap: &dyn Reap,
    slots: usize,
    time: &dyn Time,
    t0_ns: u64,
    mut gaps: Option<&mut GapCounter<'_>>,
) -> Result<(), DeviceError> {
    let slot = slot_of(row.seq, slots);
    let now_ns = || time.now_ns().saturating_sub(t0_ns);
    let (waited, done_ns) = match gaps.as_deref_mut() {
        Some(gaps) => gaps::poll(slot, row.t_ret_ns, reap, now_ns, gaps),
        None => (reap.wait(slot), now_ns()),
    };
    row.t_done_ns = done_ns;
    let gpu_ns = waited.and_then(|()| reap.gpu_ns(slot));
    if let Some(gaps) = gaps {
        // The driver works for this call, so it is longer than an iteration without a gap.
        gaps.resume(now_ns());
    }
    match gpu_ns {
        Ok(gpu_ns) => {
            row.gpu_ns = gpu_ns;
            Ok(())
        }
        Err(error) => {
            fail(row, &error);
            Err(error)
        }
    }
}

fn fail(row: &mut SampleRow, error: &DeviceError) {
    row.status = SampleStatus::Error;
    row.error = error.code.unwrap_or(-1);
}

/// Distinguishes a temporary driver error from a final one.
#[derive(Debug, Default)]
pub(super) struct ErrorsInARow(u32);

impl ErrorsInARow {
    /// Resets the count after a success.
    pub(super) fn clear(&mut self) {
        self.0 = 0;
    }

    /// Counts an error; true if the run must end.
    pub(super) fn is_final(&mut self, error: &DeviceError) -> bool {
        self.0 += 1;
        error.sticky || self.0 >= ERRORS_IN_A_ROW_MAX
    }
}
