//! The timer floor of the host, measured before a run on the wall clock. Jitter below it has no
//! level.

use std::collections::BTreeMap;
use std::time::Duration;

use gpubench_workloads::timer_selftest::{Class, Punctuality, punctuality};

/// How long the self-test takes.
const SELF_TEST: Duration = Duration::from_secs(2);

/// Key of the class, or of the reason for no floor, among the facts of the host.
pub const SELF_TEST_KEY: &str = "timer_self_test";

/// The scheduling classes; tenants prefer the first.
pub const CLASSES: [(&str, Class); 2] = [("fifo", Class::Fifo), ("other", Class::Other)];

/// Lateness of wake-ups in nanoseconds, by the names in records.
#[must_use]
pub fn by_name(found: &Punctuality) -> BTreeMap<String, u64> {
    [("p50", found.p50_ns), ("p99", found.p99_ns), ("p999", found.p999_ns), ("max", found.max_ns)]
        .map(|(name, ns)| (name.to_owned(), ns))
        .into()
}

/// Measures in the scheduling class of the tenants' issuer threads: real-time if this user may use
/// it, else the default class. Returns the figures and the class, or the reason for no figures.
#[must_use]
pub fn floor() -> (BTreeMap<String, u64>, String) {
    let mut refused = Vec::new();
    for (name, class) in CLASSES {
        match punctuality(SELF_TEST, class, 1) {
            Ok(found) => return (by_name(&found), name.to_owned()),
            Err(error) => refused.push(error.to_string()),
        }
    }
    let why = format!("not measured: {}", refused.join("; "));
    (BTreeMap::new(), why)
}
