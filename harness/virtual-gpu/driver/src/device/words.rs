//! Stream waits for words in memory: entering a wait, and detecting that the word passes.
//!
//! Operations of the device and plain stores of the host change words. The thread that carries out
//! an operation tests the words afterwards. The process that owns the memory detects stores at its
//! next call; no time passes for other threads in between.
#![expect(unsafe_code, reason = "words are read through raw mappings")]

use super::clock::ME;
use super::{Device, DeviceError};
use gpubench_virtual_gpu_model::state::stream_wait::{self, PendingStore};
use gpubench_virtual_gpu_model::state::{Condition, NEVER, NONE, StreamWait};

/// A wait for a word: its row in the table, and the number of the wait.
pub type StreamWaitId = (u32, u64);

/// Why a wait for a word has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// The word has passed, or the wait was dropped.
    Over,
    /// An operation that may have stored to it is done: test it again.
    Look,
}

impl Device {
    /// Enters a wait for a word. The word at `stream_wait.host` must stay readable until its end.
    pub fn arm(&self, stream_wait: StreamWait) -> Result<StreamWaitId, DeviceError> {
        let process = self.process()?;
        self.shared.transact(|state, _| {
            self.shared.set_words_wanted(true);
            let row = state.stream_waits.claim(|stream_wait| !stream_wait.live);
            let row = row.ok_or(DeviceError::Full("wait for a word"))?;
            state.holds_made += 1;
            let number = state.holds_made;
            state.stream_waits.rows[row] = StreamWait {
                live: true,
                number,
                process,
                by: NONE,
                ..stream_wait
            };
            Ok((row as u32, number))
        })?
    }

    /// Waits until the wait for a word is over, and removes it from the table.
    pub fn wait_for_word(&self, (row, number): StreamWaitId) -> Result<Woken, DeviceError> {
        let waited = self.wait_for(Condition::Word, row, number);
        let woken = self.shared.transact(|state, _| {
            let over = stream_wait::is_met_or_gone(state, row as usize, number);
            let stream_wait = &mut state.stream_waits.rows[row as usize];
            if stream_wait.number == number {
                stream_wait.live = false;
            }
            if over { Woken::Over } else { Woken::Look }
        })?;
        waited.map(|()| woken)
    }

    /// Marks the waits that are met now, by an operation (stream and sequence number) or by the
    /// host. Waits for words in `owed` are tested again when those operations are done. `elsewhere`
    /// maps an offset in device memory to a host address, for waits of other processes.
    pub fn notice(
        &self,
        by: Option<(u32, u64)>,
        owed: &[PendingStore],
        elsewhere: &dyn Fn(u64, u64) -> Option<*mut u8>,
    ) -> Result<(), DeviceError> {
        if !self.shared.words_wanted() {
            return Ok(());
        }
        let own = self.process()?;
        let at_ns = match ME.get() {
            Some(me) => me.local_ns,
            None if self.is_virtual_time() => 0,
            None => self.session.wall_now_ns(),
        };
        let met = self.shared.transact(|state, _| {
            let mut met = 0;
            let mut no_waits = true;
            for stream_wait in state
                .stream_waits
                .live_mut()
                .iter_mut()
                .filter(|h| h.live && !h.met)
            {
                no_waits = false;
                let address = match stream_wait.process == own {
                    true => Some(stream_wait.host as *const u8),
                    false if stream_wait.offset == NEVER => None,
                    false => elsewhere(stream_wait.offset, stream_wait.test.bytes.into())
                        .map(<*mut u8>::cast_const),
                };
                let found = address.map(|address| read(address, stream_wait.test.bytes));
                if found.is_some_and(|found| stream_wait.test.accepts(found)) {
                    stream_wait.met = true;
                    stream_wait.met_ns = at_ns;
                    (stream_wait.by, stream_wait.by_seq) = by.unwrap_or((NONE, 0));
                    met += 1;
                } else if stream_wait.process == own {
                    stream_wait.recheck_after(owed);
                }
            }
            // Cleared under the lock, or a wait entered now would never be tested. Cleared only if
            // there was no wait at the start: if this process dies before it publishes the draft,
            // the waits remain, and so must the mark.
            if no_waits {
                self.shared.set_words_wanted(false);
            }
            met
        })?;
        if met > 0 && !self.is_virtual_time() {
            self.shared.notify_change();
        }
        Ok(())
    }

    /// Detects stores of the host.
    pub(super) fn notice_stores(&self) -> Result<(), DeviceError> {
        self.notice(None, &[], &|_, _| None)
    }
}

/// The current value of a word of 4 or 8 bytes.
pub fn read(word: *const u8, bytes: u32) -> u64 {
    // SAFETY: the caller passes an aligned word that stays mapped: device memory is mapped while
    // the process lives, and pinned memory is not freed while a stream waits for it.
    unsafe {
        match bytes {
            4 => u64::from(word.cast::<u32>().read_volatile()),
            _ => word.cast::<u64>().read_volatile(),
        }
    }
}
