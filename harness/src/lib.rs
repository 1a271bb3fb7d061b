//! gpubench: coordinator, tenants and reports behind one command line.
//!
//! The rooms are packages, in the order in which data flows: `gpubench-catalogue`, `gpubench-plan`,
//! `gpubench-host`, `gpubench-run`, `gpubench-judge`. `verbs` does what a command asks of them, and
//! `cli` reads arguments and prints.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests start processes"))]

pub mod error;

pub mod verbs;

pub mod cli;
