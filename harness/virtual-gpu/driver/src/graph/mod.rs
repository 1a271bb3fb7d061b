//! Graphs: work with its dependencies, kept to be launched as a whole, again and again.
//!
//! `entries` holds them as data, `edit` makes them, `instantiate` makes them ready to
//! launch and has the memory of nodes that allocate, `capture` records streams into them.

pub mod capture;
pub mod edit;
pub mod entries;
pub mod instantiate;
