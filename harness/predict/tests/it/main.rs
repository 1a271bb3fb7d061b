//! Tests of predictions, in one program: a program takes longer to link than to run.
#![allow(clippy::disallowed_methods, reason = "tests start processes and read the clock")]

mod advise;
mod closed_forms;
mod config;
mod oracle;
mod pack;
mod properties;
mod readers;
mod record;
mod schemas;
mod simulate;
