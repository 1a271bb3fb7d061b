//! What mechanisms change on the host, and how it gets back to how it was found.
//!
//! Every change is a value that can be written down. [`Guard::make`] writes it into the journal of
//! its GPU, makes sure that the line is on disk, and only then makes the change; [`Guard::restore`]
//! undoes all of them, last first, and then holds what is there against what was found. Whatever
//! dies in between, the journal says what is left to undo, and `gpubench cleanup` undoes it.

mod change;
pub mod command;
mod control;
mod daemon;
#[cfg(test)]
mod fake;
mod found;
mod guard;
mod journal;
#[cfg(test)]
mod kill_tests;
mod leftovers;
#[cfg(test)]
mod mig_restore_tests;
pub mod mps_control;
mod process;
mod real;

pub use change::{Change, Made};
pub use control::{Control, ControlError};
pub use daemon::DaemonPlace;
pub use found::Found;
pub use guard::{Guard, HostError, JournalPlace, Recovery, recover};
pub use journal::{Journal, JournalError, state_dir};
pub use leftovers::{Left, leftovers, unclean};
pub use process::{end_processes, mps_processes};
pub use real::RealHost;
