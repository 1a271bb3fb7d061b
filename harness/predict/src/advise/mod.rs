//! `advise`: the decision tree, answered by flags, a dialog, or a record.
//!
//! tree (data) -> walk (path and leaf) -> second (the second tree) and evidence (figures of a
//! record for each step, and contradictions to the tree) -> advice -> output, config.

pub mod advice;
pub mod config;
pub mod evidence;
pub mod output;
pub mod tree;

pub use advice::{Advice, advise};
pub use tree::{Answers, Walk, walk};
pub use tree::{Leaf, NODES, Node};
