//! Graphs: work with its dependencies, kept to be launched as a whole, again and again.
//!
//! `entries` holds them as data, `edit` makes them, `memory` is for nodes that allocate,
//! `instantiate` makes them ready to launch, `capture` records streams into them.

pub mod capture;
pub mod edit;
pub mod entries;
pub mod instantiate;
pub mod memory;
