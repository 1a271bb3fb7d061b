//! Between a run and the terminal: everything that a verb needs and a test can use without one.
//!
//! Before a run: the device session, the facts and capabilities of the host, the diagnostic checks.
//! After a run: from its folder to a scored record, and from the record to the exit code.

pub mod calibration;
mod capabilities;
mod cells;
pub mod device_check;
mod device_session;
pub mod expected;
mod fault_trials;
pub mod host_facts;
pub mod host_report;
pub mod journal;
pub mod kernel_log;
mod latency_charts;
pub mod listing;
mod matrix_setup;
pub mod measured_faults;
pub mod mechanism_rows;
mod open;
pub mod provenance;
mod ptx_hash;
mod record;
mod rehearse;
pub mod run_folder;
#[cfg(test)]
mod tests;
pub mod timer;
pub mod verdict;

pub use capabilities::capabilities;
pub use device_session::DeviceSession;
pub use host_facts::HostOptions;
pub use latency_charts::latency_charts;
pub use matrix_setup::{MatrixRequest, matrix_setup};
pub use open::{Opened, conclude, newest, open};
pub use ptx_hash::ptx_hash;
pub use record::{JudgeError, rescore, score_folder};
pub use rehearse::{RehearsalOutcome, Rehearsed, rehearse};
