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
            Self::Virtual(device) => device.expect(id).map_err(|e| RunError::Clock(e.to_string())),
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
            device.abandon(id).map_err(|error| RunError::Clock(error.to_string()))?;
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
        device.reap_dead_processes().map_err(|error| RunError::Clock(error.to_string()))
    }
}

/// The present time of day, for provenance.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the time of day is a fact of the provenance")]
pub fn rfc3339_now() -> String {
    humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string()
}
