//! What a process remembers of its launches, as data that the tables of the process hold.
//!
//! `key` names a launch, `profile` is what one did and cost, `effects` what one left in memory,
//! `deferred` what has to be done once more, `costs` what sampled launches cost on this device.
//! The functions on them are in `launch`.

pub mod costs;
pub mod deferred;
pub mod effects;
pub mod key;
pub mod profile;
pub mod shape;
