//! The kills under each mechanism.

use crate::mps_support::mechanisms::Mechanism;
use crate::mps_support::sharing::{HALVES, Sharing};

/// Allocates, frees, and works in a second context until it is killed.
const SCRIPT: &str = "open; alloc 256; close; open; alloc 64; busy";
/// Works in streams of green contexts, or of several priorities, until it is killed.
const GREENS: &str = "open; alloc 64; recreate green 1000000";
const PRIORITIES: &str = "open; alloc 64; recreate priority 1000000";

const LIMIT_MIB: u64 = 8192;

pub struct Kills {
    pub count: usize,
    pub sharing: Sharing,
    pub script: &'static str,
}

/// The kills under a mechanism; none if the harness's tests have them.
pub const fn kills(mechanism: Mechanism) -> Option<Kills> {
    let (count, sharing, script) = match mechanism {
        Mechanism::Exclusive => (30, Sharing::NoSetup(mechanism), SCRIPT),
        Mechanism::ExclusiveProcess => (30, Sharing::ExclusiveProcess, SCRIPT),
        Mechanism::TimeSlicing => (70, Sharing::NoSetup(mechanism), SCRIPT),
        Mechanism::Mps => (60, Sharing::Mps, SCRIPT),
        Mechanism::MpsQuota => (50, Sharing::Quota(["50", "30"]), SCRIPT),
        Mechanism::MpsStatic => (50, Sharing::Static([8, 4]), SCRIPT),
        Mechanism::MpsMemory => (50, Sharing::Memory([LIMIT_MIB; 2]), SCRIPT),
        Mechanism::Mig => (60, HALVES, SCRIPT),
        Mechanism::MigMps => (50, Sharing::MigMps(["50", "100"]), SCRIPT),
        Mechanism::GreenContext => (50, Sharing::NoSetup(mechanism), GREENS),
        Mechanism::StreamPriority => (50, Sharing::NoSetup(mechanism), PRIORITIES),
        // Its clients have contexts of their own, as under time-slicing.
        Mechanism::Hami | Mechanism::TimeSlicingCapped => return None,
    };
    Some(Kills { count, sharing, script })
}

/// The harness's test of kills under the HAMi stand-in, which needs the harness's library.
pub const UNDER_HAMI: (&str, &str) =
    ("hami.rs", "fn clients_that_die_at_random_instants_leave_nothing_behind()");
