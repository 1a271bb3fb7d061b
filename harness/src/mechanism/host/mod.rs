//! The changes that mechanisms make to the host, and how the host is restored.
//!
//! Every change is a value that can be written to a file. [`Guard::make`] writes it to the journal
//! of its GPU, syncs the line to disk, and then makes the change; [`Guard::restore`] undoes all
//! changes, last first, and compares the host with the state that was found. If gpubench dies in
//! between, the journal lists the changes that are left to undo. The guard process undoes them
//! ([`recover`]); if that is dead too, the next run or `gpubench cleanup` does.

mod change;
pub mod command;
mod control;
mod daemon;
#[cfg(test)]
mod fake;
mod found;
mod guard;
mod journal;
mod leftovers;
pub mod mps_control;
mod nvidia_smi;
mod process;
mod real;
mod recover;
mod run_id;
mod run_processes;
mod slice;
#[cfg(test)]
mod tests;
mod undo;

pub use change::{Change, Made};
pub use control::{Control, ControlError};
pub use daemon::DaemonConfig;
pub use found::Found;
pub use guard::{DIE_AFTER_STEPS, Guard, HostError, JournalLocation};
pub use journal::{Journal, JournalError, state_dir};
pub use leftovers::{Leftover, leftovers};
pub use nvidia_smi::found_time_slice;
pub use process::{end_processes, mps_processes};
pub use real::{Haste, RealHost};
pub use recover::{Recovered, Recovery, recover};
pub use run_id::{Life, NoRun, RunId};
pub use run_processes::{Kind, end_run_processes};
pub use undo::When;
