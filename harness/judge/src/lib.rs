//! From the samples of a run to figures, gates, scores and verdicts on claims.
//!
//! Modules stand in the order in which data flows; each may use those above it. Pure: no device, no
//! clock, no process.

pub mod gate;

pub mod figures;

pub mod score;

pub mod claims;

pub mod choose;
