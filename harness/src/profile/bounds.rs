//! Bounds of numbers in a profile.

use super::error::Fault;

/// Checks that a value lies between two bounds, both included.
pub(super) fn within<T: PartialOrd + std::fmt::Display>(
    key: &str,
    value: T,
    min: T,
    max: T,
) -> Result<(), Fault> {
    let problem = if value < min {
        format!("{value} is too small")
    } else if value > max {
        format!("{value} is too large")
    } else {
        return Ok(());
    };
    Err(Fault::at(key, problem, format!("{min} to {max}")))
}
