//! Between a run and the terminal: everything that a verb needs and a test can use without one.
//!
//! Before a run: the device session, the facts and capabilities of the host, the diagnostic checks.
//! After a run: from its folder to a scored record, and from the record to the exit code.

mod after_cells;
pub mod calibration;
mod capabilities;
mod cells;
pub mod device_check;
mod device_file;
mod device_session;
mod device_speed;
pub mod expected;
pub mod fault_answers;
mod fault_trials;
pub mod fidelity;
pub mod guard_process;
pub mod host_facts;
pub mod host_report;
mod integrity;
pub mod journal;
mod kept_calibrations;
pub mod kernel_log;
pub mod labels;
mod latency_charts;
pub mod listing;
mod matrix_setup;
pub mod mechanism_rows;
mod open;
mod other_work;
pub mod provenance;
mod ptx_hash;
mod record;
pub mod recovery;
mod rehearse;
mod report_options;
pub mod resume;
pub mod run_folder;
pub mod session;
mod settings;
pub mod signing;
pub mod spread;
pub mod targets;
#[cfg(test)]
mod tests;
pub mod timer;
mod top_up;
pub mod verdict;

pub use after_cells::{AfterCells, FaultRequest, add as add_after_cells};
pub use capabilities::capabilities;
pub use device_session::{DeviceSession, find as find_device};
pub use host_facts::{HostOptions, Reconfigure};
pub use kept_calibrations::KeptCalibrations;
pub use matrix_setup::{MatrixRequest, MatrixSetup, matrix_setup, resumed_setup};
pub use open::{
    Concluded, Opened, Repair, Verified, conclude, newest, open, open_scored, verified,
};
pub use ptx_hash::ptx_hash;
pub use record::{JudgeError, rescore};
pub use rehearse::{RehearsalOutcome, Rehearsed, rehearse};
pub use report_options::report_options;
