//! Probes, the tenant's side: the steps of checks that do not produce a throughput.
//!
//! To add a step, write its file with its `impl RunStep` and add its line to `catalogue!`. Memory
//! that a step keeps stays allocated until [`ReleaseMemory`] or until the context closes. Nothing
//! is judged here.
//!
//! [`ReleaseMemory`]: gpubench_record::probe::step::ReleaseMemory

mod canary;
mod limit_bypass;
mod memory;
mod timing;
use gpubench_kernels::driver::{DeviceBuffer, DriverError, Event, EventKind};
use gpubench_record::RefusalKind;
use gpubench_record::probe::step::{ProbeReply, ProbeStep, Step};

use crate::clock::{ClockError, Time};
use crate::generator::DeviceError;
use crate::load::{Gpu, LoadError};

pub use canary::Canary;

/// Memory that is kept between two steps.
pub type KeptMemory = Vec<DeviceBuffer<u32>>;

/// What a step works with. The context is current and the thread has joined the clock.
pub struct StepContext<'a> {
    pub gpu: &'a Gpu,
    pub time: &'a dyn Time,
    /// Memory that is kept between two steps.
    pub kept: &'a mut KeptMemory,
    /// The workloads of the canary, kept between two windows.
    pub canary: &'a mut Option<Canary>,
}

trait RunStep: Step {
    fn run(&self, cx: &mut StepContext<'_>) -> Result<Self::Reply, ProbeError>;
}

/// Declares the module of each group of steps and dispatches to them.
macro_rules! catalogue {
    ($( $step:ident, )*) => {
        /// Does one step.
        /// Fails when the driver refuses a call that the step does not expect it to refuse.
        pub fn run(step: &ProbeStep, cx: &mut StepContext<'_>) -> Result<ProbeReply, ProbeError> {
            match step {
                $( ProbeStep::$step(step) => step.run(cx).map(ProbeReply::$step), )*
            }
        }
    };
}

catalogue! {
    MarkPages,
    ScanPages,
    AllocateByCall,
    AllocateAndKeep,
    ReleaseMemory,
    ExhaustMemory,
    ReadMemoryInfo,
    ReadAddresses,
    TraceTimeSlices,
    RunRequests,
    TimeLaunches,
    LimitBypass,
    ExportMemory,
    ImportMemory,
    TimeDriverCalls,
    RunCanary,
}

/// Events that mark the ends of this many requests; they block or spin as the tenant does.
fn end_events(gpu: &Gpu, count: usize) -> Result<Vec<Event>, DriverError> {
    let kind = if gpu.spin { EventKind::Mark } else { EventKind::MarkBlocking };
    (0..count).map(|_| Event::new(&gpu.context, kind)).collect()
}

#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The workload could not be prepared.
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Clock(#[from] ClockError),
    /// A request failed.
    #[error(transparent)]
    Request(#[from] DeviceError),
    /// A parameter of the step is not valid.
    #[error("{what}")]
    Parameter { what: String },
}

impl ProbeError {
    pub fn kind(&self) -> RefusalKind {
        match self {
            Self::Driver(DriverError::HostMemory) => RefusalKind::Waived,
            _ => RefusalKind::of_code(self.code()),
        }
    }

    /// The `CUresult` of a refusal by the driver.
    pub fn code(&self) -> Option<i32> {
        match self {
            Self::Driver(error) => error.code(),
            Self::Load(error) => error.code(),
            Self::Request(error) => error.code,
            Self::Clock(_) | Self::Parameter { .. } => None,
        }
    }

    fn parameter(error: impl std::fmt::Display) -> Self {
        Self::Parameter { what: error.to_string() }
    }
}
