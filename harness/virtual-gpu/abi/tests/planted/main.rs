//! Planted figures as a program on the driver interface observes them, not the harness: without
//! noise within one percent, with noise inside an interval of 95 % in 92 to 98 % of 200 seeds. Of a
//! chance the interval is Clopper and Pearson's, which holds it in 95 % or more, so only the lower
//! bound is asked for, and that all trials together come to the chance.
//!
//! `table` has every mechanism with every figure; a test holds it against the cases of the other
//! rooms, each of which is a machine with something planted, a way to share it, what clients do
//! there, and what they must find.
//!
//! What noise does not touch: how far a memory cap is exceeded. The limit and the footprint of a
//! context are compared as numbers, on this device as in a driver, so that the same bytes get
//! through under every seed; that is what is asked for.
//! Whom a fault reaches by the documents' rules has no chance in it either: `mps_faults.rs` and the
//! model's own tests have those rules case by case.

mod case;
mod intervals;
#[path = "../mps_support/mod.rs"]
mod mps_support;
mod parts;
mod shared;
mod table;
mod time_slices;
