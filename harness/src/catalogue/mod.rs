//! Lists of names that every room may read: mechanisms and probes.
//!
//! Data flows from left to right, and a profile is read before any mechanism is asked. So the list
//! of mechanisms holds names only: each name with the module in `mechanism/` that has everything
//! else about it. What plans need of a mechanism they get with its
//! [`Capability`](crate::plan::Capability), and scores with the plan in the record.

mod mechanisms;
pub mod probes;

pub(crate) use mechanisms::mechanisms;
pub use mechanisms::{REFERENCE, names};
