//! `advise`: the decision tree, answered by flags or a dialog; of a record it is the second opinion
//! beside what `choose` finds.
//!
//! tree (data) -> walk (path and leaf) -> second (the second tree) -> advice -> output, config.
//! evidence has the answers that a record gives.

pub mod advice;
pub mod config;
pub mod evidence;
pub mod output;
pub mod tree;

pub use advice::{Advice, advise};
pub use tree::{Answers, Walk, walk};
pub use tree::{Leaf, NODES, Node};
