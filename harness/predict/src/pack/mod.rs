//! `pack`: how many tenants fit on a GPU, which resource binds, what a fleet costs and idles.
//!
//! demand -> bound (memory and compute) -> layout (MIG) -> fleet and cost -> output. Every price is
//! the user's: none is built in.

pub mod bound;
pub mod chargeback;
pub mod cost;
pub mod demand;
pub mod layout;
pub mod output;
pub mod report;

pub use demand::Demand;
pub use report::{Report, report};
