//! The kernels of a context, each loaded at its first use.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::catalogue::{CATALOGUE, Kernel};
use crate::driver::{Args, Context, DriverError, Function, Grid, Module, Stream};
use crate::kernel::Cost;

/// Kernels loaded into one context.
///
/// The driver compiles a kernel in milliseconds, so a tenant calls `prepare` before its measured
/// phase.
#[derive(Debug)]
pub struct KernelSet {
    context: Context,
    loaded: Vec<OnceLock<Function>>,
    clock: Option<Clock>,
    loading_ns: AtomicU64,
}

/// Reads a clock, in ns.
struct Clock(Box<dyn Fn() -> u64 + Send + Sync>);

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

impl KernelSet {
    /// A set with nothing loaded yet.
    pub fn new(context: &Context) -> Self {
        let loaded = CATALOGUE.iter().map(|_| OnceLock::new()).collect();
        Self { context: context.clone(), loaded, clock: None, loading_ns: AtomicU64::new(0) }
    }

    /// Sums the time of loading by this clock.
    pub fn time_by(&mut self, clock: impl Fn() -> u64 + Send + Sync + 'static) {
        self.clock = Some(Clock(Box::new(clock)));
    }

    /// How long loading took so far; 0 without a clock.
    pub fn loading_ns(&self) -> u64 {
        self.loading_ns.load(Ordering::Relaxed)
    }

    pub fn context(&self) -> &Context {
        &self.context
    }

    pub fn prepare(&self, kernels: &[Kernel]) -> Result<(), DriverError> {
        kernels.iter().try_for_each(|kernel| self.function(*kernel).map(|_| ()))
    }

    pub fn function(&self, kernel: Kernel) -> Result<&Function, DriverError> {
        let slot = &self.loaded[kernel.index()];
        if let Some(function) = slot.get() {
            return Ok(function);
        }
        let info = kernel.info();
        let now_ns = || self.clock.as_ref().map_or(0, |clock| (clock.0)());
        let began_ns = now_ns();
        let function = Module::load(&self.context, info.name, info.ptx)?.function(info.name)?;
        self.loading_ns.fetch_add(now_ns().saturating_sub(began_ns), Ordering::Relaxed);
        // Two threads may both load it; one copy is kept and the other one is unloaded.
        Ok(slot.get_or_init(|| function))
    }
}

/// A launch without its context.
pub trait Launcher {
    fn kernel(&self) -> Kernel;

    fn grid(&self) -> Grid;

    fn args(&self) -> Args;

    /// Its work; none for a thread that faults at once, and for an empty launch.
    fn cost(&self) -> Cost {
        Cost::default()
    }

    fn launch(&self, kernels: &KernelSet, stream: &Stream) -> Result<(), DriverError> {
        kernels.function(self.kernel())?.launch(self.grid(), stream, &self.args())
    }
}
