//! Set-ups that are killed at every step, on a host whose state is a file.

mod kills;
mod mig_restore;
