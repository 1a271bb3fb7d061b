//! Streams that wait for words in memory: entering such a wait, and noticing that a word says what
//! somebody waits for.
//!
//! Words change by operations of the device and by plain stores of the host. Whoever carries out an
//! operation looks afterwards, and names it. Stores are noticed by the process whose memory it is,
//! at its next call: nobody else can have seen time pass in between.
#![expect(unsafe_code, reason = "words are read through raw mappings")]

use super::clock::ME;
use super::{Device, DeviceError};
use gpubench_virtual_gpu_model::state::hold::{self, Owed};
use gpubench_virtual_gpu_model::state::{Condition, Hold, NEVER, NONE};

/// A wait for a word: its row and its number there.
pub type HoldId = (u32, u64);

/// Why a wait for a word has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// The word was met, or nobody waits for it any more.
    Over,
    /// Something is done that may have stored to it: look again.
    Look,
}

impl Device {
    /// Enters a wait for a word. The word at `hold.host` has to stay readable until it is over.
    ///
    /// # Errors
    /// When there is no room, or the lock cannot be had.
    pub fn arm(&self, hold: Hold) -> Result<HoldId, DeviceError> {
        let process = self.process()?;
        self.shared.transact(|state, _| {
            self.shared.set_words_wanted(true);
            let row = state.holds.claim(|hold| !hold.live);
            let row = row.ok_or(DeviceError::Full("wait for a word"))?;
            state.holds_made += 1;
            let number = state.holds_made;
            state.holds.rows[row] = Hold {
                live: true,
                number,
                process,
                by: NONE,
                ..hold
            };
            Ok((row as u32, number))
        })?
    }

    /// Waits until the wait for a word is over, and takes it off the table.
    ///
    /// # Errors
    /// When the clock stalls or the lock cannot be had.
    pub fn wait_for_word(&self, (row, number): HoldId) -> Result<Woken, DeviceError> {
        let waited = self.wait_for(Condition::Word, row, number);
        let woken = self.shared.transact(|state, _| {
            let over = hold::is_met_or_gone(state, row as usize, number);
            let hold = &mut state.holds.rows[row as usize];
            if hold.number == number {
                hold.live = false;
            }
            if over { Woken::Over } else { Woken::Look }
        })?;
        waited.map(|()| woken)
    }

    /// Marks the waits that are met now: by the operation at that place of a stream, or by the
    /// host. Those that are not, and whose word `owed` tells of, look again when that is done.
    /// `elsewhere` gives the address of a place in device memory, for waits of other processes.
    ///
    /// # Errors
    /// When the lock cannot be had.
    pub fn notice(
        &self,
        by: Option<(u32, u64)>,
        owed: &[Owed],
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
            let mut none_waits = true;
            for hold in state
                .holds
                .live_mut()
                .iter_mut()
                .filter(|h| h.live && !h.met)
            {
                none_waits = false;
                let place = match hold.process == own {
                    true => Some(hold.host as *const u8),
                    false if hold.offset == NEVER => None,
                    false => {
                        elsewhere(hold.offset, hold.test.bytes.into()).map(<*mut u8>::cast_const)
                    }
                };
                let found = place.map(|place| read(place, hold.test.bytes));
                if found.is_some_and(|found| hold.test.accepts(found)) {
                    hold.met = true;
                    hold.met_ns = at_ns;
                    (hold.by, hold.by_seq) = by.unwrap_or((NONE, 0));
                    met += 1;
                } else if hold.process == own {
                    hold.look_after(owed);
                }
            }
            // Under the lock, or a wait that somebody enters now would never be looked at. And only
            // where nothing waited to begin with: who dies before this is published leaves the
            // waits as they were, and the mark must still stand for them.
            if none_waits {
                self.shared.set_words_wanted(false);
            }
            met
        })?;
        if met > 0 && !self.is_virtual_time() {
            self.shared.notify_change();
        }
        Ok(())
    }

    /// Notices the host's own stores.
    pub(super) fn notice_stores(&self) -> Result<(), DeviceError> {
        self.notice(None, &[], &|_, _| None)
    }
}

/// A word of 4 or 8 bytes as it stands now.
#[must_use]
pub fn read(place: *const u8, bytes: u32) -> u64 {
    // SAFETY: the caller vouches for an aligned word that stays mapped: device memory is for the
    // life of the process, and pinned memory is not freed while somebody waits for it.
    unsafe {
        match bytes {
            4 => u64::from(place.cast::<u32>().read_volatile()),
            _ => place.cast::<u64>().read_volatile(),
        }
    }
}
