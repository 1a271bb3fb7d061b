//! Probes, the tenant's side: checks that do not produce a throughput, one step after another.
//!
//! Memory that a step keeps stays with the tenant until `release` or until its context closes.
//! Nothing is judged here.

mod allocate_to_limit;
mod calls;
mod exhaust;
mod launches;
mod limit_bypass;
mod memory_visibility;
mod other;
mod pages;
mod stamp;
mod time_slice_trace;
mod work;

use gpubench_kernels::driver::{DeviceBuffer, DriverError, Event, EventKind};
use gpubench_record::{ProbeAsk, ProbeTold};

use crate::clock::{ClockError, Time};
use crate::load::{Gpu, LoadError};

/// Events that mark the ends of this many requests, waited for as the tenant waits.
fn marks(gpu: &Gpu, count: usize) -> Result<Vec<Event>, DriverError> {
    let kind = if gpu.spin {
        EventKind::Mark
    } else {
        EventKind::MarkBlocking
    };
    (0..count).map(|_| Event::new(&gpu.context, kind)).collect()
}

/// Memory that is kept between two steps.
#[derive(Debug, Default)]
pub struct Kept {
    pieces: Vec<DeviceBuffer<u32>>,
}

/// Why a step could not be done.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The driver refused.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The workload could not be prepared.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The clock refused.
    #[error(transparent)]
    Clock(#[from] ClockError),
    /// It was asked for with parameters that mean nothing.
    #[error("{what}")]
    Asked {
        /// What was wrong, and what is accepted.
        what: String,
    },
}

impl ProbeError {
    /// `CUresult`, where the driver said so.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        match self {
            Self::Driver(error) => error.code(),
            Self::Load(error) => error.code(),
            Self::Clock(_) | Self::Asked { .. } => None,
        }
    }

    fn asked(error: impl std::fmt::Display) -> Self {
        Self::Asked {
            what: error.to_string(),
        }
    }
}

/// Does one step. The context is current and the thread has joined the clock.
///
/// # Errors
/// When the driver refuses what no probe expects it to refuse.
pub fn step(
    gpu: &Gpu,
    time: &dyn Time,
    kept: &mut Kept,
    ask: &ProbeAsk,
) -> Result<ProbeTold, ProbeError> {
    match ask {
        ProbeAsk::Mark {
            pages,
            page_bytes,
            seed,
        } => {
            let canary = pages::Canary::new(*page_bytes, *seed)?;
            pages::mark(gpu, &mut kept.pieces, *pages, canary)
        }
        ProbeAsk::Scan {
            pages,
            page_bytes,
            seed,
        } => pages::scan(gpu, *pages, pages::Canary::new(*page_bytes, *seed)?),
        ProbeAsk::Grab { call, most_bytes } => allocate_to_limit::grab(gpu, call, *most_bytes),
        ProbeAsk::Hold { most_bytes, pieces } => {
            allocate_to_limit::hold(gpu, &mut kept.pieces, *most_bytes, *pieces)
        }
        ProbeAsk::Exhaust { most_bytes } => exhaust::exhaust(gpu, time, *most_bytes),
        ProbeAsk::Release => {
            kept.pieces.drain(..).try_for_each(DeviceBuffer::free)?;
            Ok(ProbeTold::Released)
        }
        ProbeAsk::Look => memory_visibility::look(gpu),
        ProbeAsk::Trace {
            watch_ns,
            threshold_ns,
        } => time_slice_trace::trace(gpu, *watch_ns, *threshold_ns),
        ProbeAsk::Read { addresses, seed } => memory_visibility::read(gpu, addresses, *seed),
        ProbeAsk::Work {
            spec,
            watch_ns,
            requests_max,
        } => work::work(gpu, time, spec, *watch_ns, *requests_max),
        ProbeAsk::Launches {
            rate_per_s,
            watch_ns,
            seed,
        } => launches::launches(gpu, time, *rate_per_s, *watch_ns, *seed),
        ProbeAsk::LimitBypass {
            way,
            spec,
            watch_ns,
        } => limit_bypass::limit_bypass(gpu, time, *way, spec, *watch_ns),
        ProbeAsk::Export { bytes } => other::export(gpu, &mut kept.pieces, *bytes),
        ProbeAsk::Import { handle } => other::import(gpu, handle),
        ProbeAsk::Calls { contexts, modules } => calls::calls(gpu, time, *contexts, *modules),
    }
}
