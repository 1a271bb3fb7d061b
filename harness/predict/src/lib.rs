//! Prediction without a device: the queueing simulation, the packing rule and the decision tree.
//!
//! Pure functions of what the caller read: nothing here opens a device, reads a clock or a file,
//! or prints. Figures from this package are predictions and say so.

pub mod advise;
pub mod calibrate;
pub mod error;
pub mod mig;
pub mod pack;
pub mod parallel;
pub mod percentile;
pub mod rng;
pub mod simulate;
pub mod text;

pub use error::PredictError;
