//! Xids: errors that the driver reports. The state keeps the last ones.

use super::State;

/// Xid events kept.
pub const XIDS: usize = 64;

/// One Xid event.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Xid {
    /// Number in the vendor's catalogue.
    pub number: u32,
    /// Process that caused it.
    pub pid: u32,
    /// Name of that process, cut to fit.
    pub name: [u8; 32],
    /// `CUresult` of the fault, 0 without one.
    pub fault: i32,
    /// When.
    pub time_ns: u64,
    /// Ids of its GPU instance and compute instance; none outside MIG.
    pub instance: Option<(u32, u32)>,
}

impl State {
    /// The Xids after the first `before`, as far as they are kept.
    #[must_use]
    pub fn xids_since(&self, before: u64) -> Vec<Xid> {
        let kept = before.max(self.xids_raised.saturating_sub(XIDS as u64));
        (kept..self.xids_raised)
            .map(|number| self.xids.rows[(number % XIDS as u64) as usize])
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{State, XIDS};
    use crate::simulation::fault::log;

    #[test]
    fn xids_since_a_count_are_returned_as_far_as_they_are_kept() {
        let mut state = State::new(0, 0);
        let numbers = |state: &State, before| -> Vec<u32> {
            state
                .xids_since(before)
                .iter()
                .map(|xid| xid.number)
                .collect()
        };
        for number in 0..5 {
            log(&mut state, 0, number, 0);
        }
        assert_eq!(numbers(&state, 3), [3, 4]);
        assert!(numbers(&state, 5).is_empty());
        for number in 5..XIDS as u32 + 3 {
            log(&mut state, 0, number, 0);
        }
        let all = numbers(&state, 0);
        assert_eq!((all.len(), all[0]), (XIDS, 3), "the first three are lost");
    }
}
