//! `simulate`: what each sharing mechanism does to a given load, before anyone buys or partitions.
//!
//! scenario -> arrivals -> reference (three queues) or event (what the reference leaves out)
//! -> summary -> replicate, sweep -> output. The reference model is fixed: golden tables and a
//! NumPy program hold it to the last bit, so refinements go into `event`.

pub mod arrivals;
pub mod event;
pub mod from_text;
pub mod hostile;
pub mod output;
pub mod reference;
pub mod replicate;
pub mod report;
pub mod scenario;
pub mod summary;
pub mod sweep;

pub use scenario::Scenario;
pub use summary::{Mode, ModeSummary, Prediction};
