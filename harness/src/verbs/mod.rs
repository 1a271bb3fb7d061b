//! Between a run and the terminal: everything that a verb needs and a test can use without one.
//!
//! Before a run: the device session, the facts and capabilities of the host, the diagnostic checks.
//! After a run: from its folder to a scored record, and from the record to the exit code.

mod after_cells;
pub mod calibration;
pub mod capabilities;
pub mod device_check;
mod device_session;
#[cfg(feature = "virtual-gpu")]
pub mod fault_answers;
#[cfg(feature = "virtual-gpu")]
pub mod fidelity;
pub mod host_facts;
pub mod host_report;
mod integrity;
pub mod listing;
mod matrix_setup;
mod open;
pub mod profile;
pub mod provenance;
mod record;
pub mod recovery;
pub mod resume;
pub mod run_folder;
pub mod session;
pub mod signing;
pub mod targets;
#[cfg(test)]
mod tests;
pub mod verdict;
pub mod watch;

pub use after_cells::{AfterCells, FaultRequest, add as add_after_cells, planned};
pub use calibration::{KeptCalibrations, published};
pub use capabilities::capabilities;
pub use device_session::{DeviceSession, find as find_device};
pub use host_facts::{HostOptions, Reconfigure};
pub use matrix_setup::{MatrixRequest, MatrixSetup, matrix_setup, resumed_setup};
pub use matrix_setup::{RehearsalOutcome, Rehearsed, rehearse};
pub use open::report_options;
pub use open::{
    Concluded, Opened, Repair, Verified, conclude, newest, open, open_comparable, open_scored,
    verified,
};
pub use provenance::ptx_hash;
pub use record::{JudgeError, rescore, shown, without_verdicts};
