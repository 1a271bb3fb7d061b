//! Xids, errors that the driver reports, and faults whose Xids are not logged yet. The state keeps
//! the last ones.

use super::{Cause, Process, State, WHOLE};

/// Xid events kept.
pub const XIDS: usize = 64;

#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Xid {
    /// Number in the vendor's catalogue.
    pub number: u32,
    /// It is a line of the kernel's log only, without an NVML event.
    pub log_only: bool,
    /// Process that it names; 0 for none.
    pub pid: u32,
    /// Name of that process, cut to fit.
    pub name: [u8; 32],
    /// `CUresult` of the fault, 0 without one.
    pub fault: i32,
    pub time_ns: u64,
    /// Ids of its GPU instance and compute instance; none outside MIG.
    pub instance: Option<(u32, u32)>,
}

impl Xid {
    /// An Xid without a number that names the process of a context and its instance.
    pub fn of_context(state: &State, context: u32, fault: i32) -> Self {
        let source = &state.contexts.rows[context as usize];
        let engine = &state.engines.rows[source.engine as usize];
        let instance = (source.engine != WHOLE).then(|| {
            let gpu_instance = &state.instances.rows[engine.instance as usize];
            (gpu_instance.id, engine.id)
        });
        Self { fault, instance, ..Self::default() }.naming(state, source.process)
    }

    pub fn naming(self, state: &State, process: u32) -> Self {
        let Process { pid, name, .. } = state.processes.rows[process as usize];
        Self { pid, name, ..self }
    }
}

impl State {
    pub fn log_xid(&mut self, xid: Xid) {
        let at = (self.xids_raised % XIDS as u64) as usize;
        self.xids.rows[at] = Xid { time_ns: self.now_ns, ..xid };
        self.xids.used = self.xids.used.max(at as u32 + 1);
        self.xids.touch();
        self.xids_raised += 1;
    }

    /// The Xids after the first `before`, as far as they are kept.
    pub fn xids_since(&self, before: u64) -> Vec<Xid> {
        let kept = before.max(self.xids_raised.saturating_sub(XIDS as u64));
        (kept..self.xids_raised)
            .map(|number| self.xids.rows[(number % XIDS as u64) as usize])
            .collect()
    }
}

/// Maximum number of them. The answer to one more is logged at once.
pub const PENDING_FAULTS: usize = 32;

/// One fault until its Xids are logged.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct PendingFault {
    /// When they are; 0 if the slot is free.
    pub due_ns: u64,
    pub cause: Option<Cause>,
    /// Row of the MPS server of the culprit, [`NONE`](super::NONE) without MPS.
    pub server: u32,
    /// The Xid with the name of the culprit, without a number.
    pub xid: Xid,
}

#[cfg(test)]
mod tests {
    use super::{State, XIDS, Xid};

    #[test]
    fn xids_since_a_count_are_returned_as_far_as_they_are_kept() {
        let mut state = State::new(0, 0);
        let numbers = |state: &State, before| -> Vec<u32> {
            state.xids_since(before).iter().map(|xid| xid.number).collect()
        };
        let log = |state: &mut State, number| {
            state.log_xid(Xid { number, ..Xid::default() });
        };
        for number in 0..5 {
            log(&mut state, number);
        }
        assert_eq!(numbers(&state, 3), [3, 4]);
        assert!(numbers(&state, 5).is_empty());
        for number in 5..XIDS as u32 + 3 {
            log(&mut state, number);
        }
        let all = numbers(&state, 0);
        assert_eq!((all.len(), all[0]), (XIDS, 3), "the first three are lost");
    }
}
