//! Planted figures as a program on the driver API measures them, without the harness: within one
//! percent without noise, and with noise inside 92 to 98 % of the 95 % intervals of 200 seeds. For
//! a probability the interval is Clopper and Pearson's, which contains it in at least 95 %, so only
//! the lower bound and the mean over all trials are checked.
//!
//! `table` lists every mechanism with every figure; a test compares it with the cases of the other
//! modules. A case is a machine with a planted value, a mechanism, the scripts of the clients, and
//! the expected values.
//!
//! Noise does not affect the excess of a memory cap: limit and footprint are compared as sizes, so
//! the same bytes are allocated under every seed. Faults that follow the documents' rules have no
//! probability either: `mps_faults.rs` and the model's tests cover those rules.

mod case;
mod contention;
mod intervals;
mod limits;
mod table;
mod time_slices;
