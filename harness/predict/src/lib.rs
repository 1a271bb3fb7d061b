//! Prediction without a device: the queueing simulation, the packing rule and the decision tree.
//!
//! Pure functions of their arguments: this package opens no device, reads no clock or file, and
//! does not print. Its figures are predictions, and its output says so.

pub mod advise;
pub mod calibrate;
pub mod error;
pub mod mig;
pub mod pack;
pub mod parallel;
pub mod rng;
pub mod simulate;

pub use error::PredictError;
