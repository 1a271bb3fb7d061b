//! What the tests share.

pub mod device;
pub mod fault;
pub mod mechanism;
pub mod probe;
