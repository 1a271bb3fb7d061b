//! Crash points, at which a test kills a process to show that the others continue.
//!
//! Random kills almost never hit the few instructions under the lock. The environment variable
//! names a point and a number of passes: `published:40` kills the process at the fortieth.
#![expect(unsafe_code, reason = "a signal to oneself has no safe form in std")]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Environment variable that names the place and the number of the pass.
pub const ENV: &str = "GPUBENCH_VIRTUAL_GPU_CRASH";

/// A place in the protocol of the shared state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The lock is held and nothing has been done.
    Locked,
    /// The published copy has been copied, the draft not yet changed.
    Copied,
    /// The draft has been changed, and rings and spans beside it, and is not yet published.
    Changed,
    /// The draft is published, the lock still held.
    Published,
    /// The lock is held to read.
    Reading,
    /// A participant was granted the clock and has not been woken yet.
    Granted,
    /// An event was taken outside of the lock.
    Claimed,
}

impl Place {
    /// Every place, in the order of the protocol.
    pub const ALL: [Self; 7] = [
        Self::Locked,
        Self::Copied,
        Self::Changed,
        Self::Published,
        Self::Reading,
        Self::Granted,
        Self::Claimed,
    ];

    /// Its name in the environment variable.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Locked => "locked",
            Self::Copied => "copied",
            Self::Changed => "changed",
            Self::Published => "published",
            Self::Reading => "reading",
            Self::Granted => "granted",
            Self::Claimed => "claimed",
        }
    }
}

/// Kills the process here if the environment variable says so.
pub fn pass(place: Place) {
    static WANTED: OnceLock<Option<(Place, u64)>> = OnceLock::new();
    static PASSED: AtomicU64 = AtomicU64::new(0);
    let wanted = WANTED.get_or_init(|| parse(&std::env::var(ENV).ok()?));
    if let Some((at, count)) = wanted
        && *at == place
        && PASSED.fetch_add(1, Ordering::Relaxed) + 1 == *count
    {
        // SAFETY: plain call; it ends this process as a kill from outside does.
        unsafe { libc::raise(libc::SIGKILL) };
    }
}

/// Parses a place and a number; anything else is ignored.
fn parse(text: &str) -> Option<(Place, u64)> {
    let (name, count) = text.split_once(':')?;
    let place = Place::ALL.into_iter().find(|place| place.name() == name)?;
    Some((place, count.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::{Place, parse};

    #[test]
    fn a_crash_point_is_a_name_and_a_number() {
        assert_eq!(parse("published:40"), Some((Place::Published, 40)));
        for wrong in ["published", "elsewhere:1", "locked:x", ""] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
