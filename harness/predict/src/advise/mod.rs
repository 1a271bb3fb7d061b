//! `advise`: the decision tree, walked from flags, from questions, or from a record.
//!
//! tree (data) -> walk (path and leaf) -> second (the other tree) and evidence (what a record
//! measured beside each step, and where it contradicts the tree) -> advice -> output, config.

pub mod advice;
pub mod config;
pub mod evidence;
pub mod output;
pub mod second;
pub mod traps;
pub mod tree;
pub mod walk;

pub use advice::{Advice, advise};
pub use tree::{Leaf, NODES, Node};
pub use walk::{Answers, Walk, walk};
