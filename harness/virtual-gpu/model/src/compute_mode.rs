//! The compute mode of the device: which processes can create a context (nvml.h,
//! `nvmlComputeMode_t`).
//!
//! Under EXCLUSIVE_PROCESS only the process that already has a context can create another one. An
//! MPS server counts as one process for all of its clients, so the vendor recommends the mode for
//! MPS. A change of the mode does not affect open contexts.

use crate::state::{Context, NONE, State};

/// The compute mode, numbered as in both headers. The mode that the vendor removed is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum ComputeMode {
    #[default]
    Default = 0,
    /// No process.
    Prohibited = 2,
    ExclusiveProcess = 3,
}

impl ComputeMode {
    /// The mode with this number; `None` if there is none or if the vendor removed it.
    pub const fn of_number(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::Default,
            2 => Self::Prohibited,
            3 => Self::ExclusiveProcess,
            _ => return None,
        })
    }
}

/// Whether a process can create another context, as a client of this MPS server or without MPS.
pub fn admits(state: &State, process: u32, server: Option<u32>) -> bool {
    match state.compute_mode {
        ComputeMode::Default => true,
        ComputeMode::Prohibited => false,
        ComputeMode::ExclusiveProcess => {
            let candidate =
                Context { process, server: server.unwrap_or(NONE), ..Context::default() };
            let who = holder(state, &candidate);
            let there = state.contexts.live().iter().filter(|c| c.live);
            there.into_iter().all(|context| holder(state, context) == who)
        }
    }
}

/// The process that the driver counts for a context: for an MPS client, that of its server.
fn holder(state: &State, context: &Context) -> u32 {
    let server = state.servers.rows.get(context.server as usize);
    server.map_or(context.process, |server| server.process)
}

#[cfg(test)]
mod tests {
    use super::{ComputeMode, admits};
    use crate::state::{Context, MpsServer, State};

    /// A device in a mode, with one context of a process and one of a server, where given.
    fn state(mode: ComputeMode, process: Option<u32>, server: Option<u32>) -> Box<State> {
        let mut state = State::new(1, 0);
        state.compute_mode = mode;
        for owner in [process, server].into_iter().flatten() {
            if let Some(row) = state.contexts.claim(|c| !c.live) {
                state.contexts.rows[row] =
                    Context { live: true, process: owner, ..Context::default() };
            }
        }
        if let Some(process) = server {
            state.servers.used = 1;
            state.servers.rows[0] = MpsServer { live: true, process, ..MpsServer::default() };
        }
        state
    }

    #[test]
    fn exclusive_process_admits_only_the_process_that_has_a_context() {
        use ComputeMode::{Default, ExclusiveProcess, Prohibited};
        for (mode, there, candidate, expected) in [
            (Default, Some(1), 2, true),
            (ExclusiveProcess, None, 2, true),
            (ExclusiveProcess, Some(1), 2, false),
            (ExclusiveProcess, Some(1), 1, true),
            (Prohibited, None, 1, false),
            (Prohibited, Some(1), 1, false),
        ] {
            let state = state(mode, there, None);
            assert_eq!(admits(&state, candidate, None), expected, "{mode:?} {there:?}");
        }
    }

    #[test]
    fn clients_count_as_their_server() {
        let state = state(ComputeMode::ExclusiveProcess, None, Some(7));
        assert!(admits(&state, 2, Some(0)), "a client");
        assert!(!admits(&state, 2, None), "a process without MPS");
        let state = state_of_outsider();
        assert!(!admits(&state, 2, Some(0)), "another process has the device");
    }

    fn state_of_outsider() -> Box<State> {
        state(ComputeMode::ExclusiveProcess, Some(1), Some(7))
    }
}
