//! `pack`: tenants per GPU, the binding resource, and the cost of a fleet.
//!
//! demand -> bound (memory and compute) -> layout (MIG) -> fleet and cost -> output. Prices come
//! from the user; none is built in.

pub mod bound;
pub mod demand;
pub mod layout;
pub mod output;

pub use demand::Demand;
pub use demand::{Report, report};
