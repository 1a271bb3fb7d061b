//! The tenants' clock as the coordinator uses it: announcing participants, and choosing the instant
//! at which a cell begins.

use std::sync::Arc;

use gpubench_record::wire::Participants;
use gpubench_virtual_gpu::device::Device;

use super::RunError;

/// Time between the message to start and the start, in which every tenant receives the message. On
/// a host with few cores the tenants wait for each other.
const LEAD_WALL_NS: u64 = 50_000_000;
const LEAD_CROWDED_NS: u64 = 200_000_000;
const CROWDED_CORES: usize = 6;
const LEAD_VIRTUAL_NS: u64 = 1_000_000;

/// The clock of the tenants.
#[derive(Clone)]
pub enum RunClock {
    /// `CLOCK_MONOTONIC`.
    Wall,
    /// The virtual GPU's.
    Virtual(Arc<Device>),
}

impl RunClock {
    /// `virtual` or `wall`, as in records.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Wall => "wall",
            Self::Virtual(_) => "virtual",
        }
    }

    /// Whether time is virtual.
    #[must_use]
    pub const fn is_virtual(&self) -> bool {
        matches!(self, Self::Virtual(_))
    }

    /// The present instant.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        match self {
            Self::Wall => gpubench_virtual_gpu::session::monotonic_ns(),
            Self::Virtual(device) => device.now_ns(),
        }
    }

    /// The instant at which a cell that is started now begins.
    #[must_use]
    pub fn start_ns(&self) -> u64 {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let lead = match self {
            Self::Virtual(_) => LEAD_VIRTUAL_NS,
            Self::Wall if cores < CROWDED_CORES => LEAD_CROWDED_NS,
            Self::Wall => LEAD_WALL_NS,
        };
        self.now_ns() + lead
    }

    /// Announces a participant.
    ///
    /// # Errors
    /// When the clock refuses: a bug in the numbering.
    pub fn expect(&self, id: u32) -> Result<(), RunError> {
        match self {
            Self::Wall => Ok(()),
            Self::Virtual(device) => {
                device.expect(id).map_err(|e| refused(&format!("announcing participant {id}"), &e))
            }
        }
    }

    /// Withdraws participants that did not join.
    ///
    /// # Errors
    /// When the clock cannot be reached.
    pub fn abandon(&self, participants: Participants) -> Result<(), RunError> {
        let Self::Virtual(device) = self else {
            return Ok(());
        };
        for id in [participants.issuer, participants.reaper] {
            let doing = format!("withdrawing participant {id}");
            device.abandon(id).map_err(|error| refused(&doing, &error))?;
        }
        Ok(())
    }

    /// Reaps dead processes: frees what they held on the virtual device.
    ///
    /// # Errors
    /// When the clock cannot be reached.
    pub fn reap(&self) -> Result<(), RunError> {
        let Self::Virtual(device) = self else {
            return Ok(());
        };
        device.reap_dead_processes().map_err(|error| refused("reaping dead processes", &error))
    }
}

/// What the virtual GPU's clock was asked for, and why it refused.
fn refused(doing: &str, error: &dyn std::fmt::Display) -> RunError {
    RunError::VirtualClock(format!("{doing}: {error}"))
}

/// A UTC time to the second, such as 2026-01-31T00:00:00Z, checked with the calendar. Such texts
/// sort by time.
///
/// # Errors
/// With what is accepted.
pub fn rfc3339(text: &str) -> Result<String, String> {
    use humantime::{format_rfc3339_seconds, parse_rfc3339};
    let time = parse_rfc3339(text.trim()).map(|time| format_rfc3339_seconds(time).to_string());
    time.map_err(|error| match error {
        humantime::TimestampError::OutOfRange => {
            "the calendar has no such time (accepted: a time in UTC from 1970 on, as \
             2026-01-31T00:00:00Z)"
                .to_owned()
        }
        _ => "accepted: a time in UTC, as 2026-01-31T00:00:00Z".to_owned(),
    })
}

/// The present time of day, for provenance.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the time of day is a fact of the provenance")]
pub fn rfc3339_now() -> String {
    humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string()
}

#[cfg(test)]
mod tests {
    use super::rfc3339;

    #[test]
    fn a_time_is_one_of_the_calendar_and_has_one_form() {
        let form = "2024-02-29T23:59:59Z";
        for text in
            [form, "2024-02-29T23:59:59.5Z", "2024-02-29T23:59:60Z", " 2024-02-29T23:59:59+00:00"]
        {
            assert_eq!(rfc3339(text).as_deref(), Ok(form), "{text}");
        }
        for text in ["2026-99-99T00:00:00Z", "2026-02-29T00:00:00Z", "2026-01-31T24:00:00Z"] {
            let refused = rfc3339(text);
            assert!(refused.is_err_and(|why| why.starts_with("the calendar has no")), "{text}");
        }
        for text in ["", "2026-01-31", "2026-01-31 00:00:00Z", "2026-01-31T00:00:00", "yesterday"] {
            let refused = rfc3339(text);
            assert!(refused.is_err_and(|why| why.starts_with("accepted: ")), "{text}");
        }
    }
}
