//! The capacity of a sample log, allocated in full before a cell starts.

/// Rows that do not depend on the rate: requests that answer at once, such as refused ones.
const ROWS_MIN: u64 = 4096;
/// Room above the native rate. A tenant is never twice as fast as natively.
const FACTOR: f64 = 2.0;

/// Rows for a tenant of this native rate and length of run.
#[must_use]
pub fn rows(native_rate_per_s: f64, length_ns: u64) -> u64 {
    let seconds = length_ns as f64 / 1e9;
    (native_rate_per_s * seconds * FACTOR) as u64 + ROWS_MIN
}

#[cfg(test)]
mod tests {
    use super::rows;

    #[test]
    fn a_log_has_room_for_twice_the_native_rate() {
        for (rate_per_s, length_ns, expected) in [
            (0.0, 1_000_000_000, 4096),
            (1_000.0, 1_000_000_000, 6096),
            (1_000.0, 180_000_000, 4456),
        ] {
            assert_eq!(rows(rate_per_s, length_ns), expected);
        }
    }
}
