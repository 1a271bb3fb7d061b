//! `simulate`: latencies of a given load under each sharing mechanism, without a device.
//!
//! scenario -> arrivals -> reference (three queues) or event (the discrete-event model)
//! -> summary -> replicate, sweep -> output. The reference model is fixed: golden tables and a
//! NumPy program pin it to the last bit. Refinements go into `event`.

pub mod arrivals;
pub mod chart;
pub mod event;
pub mod limits;
pub mod output;
pub mod reference;
pub mod report;
pub mod scenario;
pub mod summary;
pub mod sweep;

pub use scenario::Scenario;
pub use summary::{Mode, ModeSummary, Prediction};
