//! Comparison of sessions: pure functions of plain data.
//!
//! [`session`] is what a comparison needs of one record. [`diff`](mod@diff) compares two sides and
//! judges each row, [`history`] follows rows over many nights, [`outliers`] compares devices of one
//! kind, [`side_by_side`] lists records without a verdict, and [`fidelity`] holds a model against
//! hardware; [`render`] prints the results. No I/O, no clock, no device.

pub mod diff;
pub mod fidelity;
pub mod history;
mod metric;
pub mod outliers;
pub mod render;
mod series;
pub mod session;
pub mod side_by_side;

pub use session::{Dose, Metric, Row, RowKey, Series, Session};
