//! Records on screen.
//!
//! Two rooms. [`matrix`] says who is isolated from whom, in what and how sure that is.
//! [`format`](mod@format) renders a record for people and programs. Both use the record alone; what
//! reports show of its other files comes from `gpubench-store`.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests start processes"))]

pub mod format;
pub mod matrix;
pub mod schemas;

pub use format::{CATALOGUE, Format, RenderError, RenderOptions, View};
pub use matrix::Selection;
