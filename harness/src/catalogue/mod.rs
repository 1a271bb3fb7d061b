//! The list of mechanisms, which every room may read.
//!
//! Data flows from left to right, and a profile is read before a mechanism is used. So the list has
//! names only: each name with its module in `mechanism/`, which has everything else. Plans get the
//! facts of a mechanism with its [`Capability`](crate::plan::Capability), and scores with the plan
//! in the record.

mod mechanisms;

pub(crate) use mechanisms::mechanisms;
pub use mechanisms::{REFERENCE, names};
