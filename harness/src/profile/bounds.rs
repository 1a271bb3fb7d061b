//! Bounds of numbers in a profile.

use super::error::Fault;

/// Whether a value lies between two bounds, which are accepted themselves.
pub(super) fn within<T: PartialOrd + std::fmt::Display>(
    key: &str,
    value: T,
    least: T,
    most: T,
) -> Result<(), Fault> {
    let problem = if value < least {
        format!("{value} is too little")
    } else if value > most {
        format!("{value} is too much")
    } else {
        return Ok(());
    };
    Err(Fault::at(key, problem, format!("{least} to {most}")))
}
