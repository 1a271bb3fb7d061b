//! gpubench: coordinator, tenants and reports behind one command line.
//!
//! Modules stand in the order in which data flows; a room may use the rooms above it, the
//! catalogues and `error`, never a room below. Only `cli` uses all of them.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests start processes"))]

pub mod error;

pub mod axis;
pub mod catalogue;

pub mod profile;

pub mod plan;

pub mod device;

pub mod mechanism;

pub mod tenant;

pub mod run;

pub mod gate;

pub mod figures;

pub mod score;

pub mod claims;

pub mod judge;

pub mod cli;
