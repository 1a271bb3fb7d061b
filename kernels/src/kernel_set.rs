//! The kernels of a context, each loaded at its first use.

use std::sync::OnceLock;

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
}

impl KernelSet {
    /// A set with nothing loaded yet.
    pub fn new(context: &Context) -> Self {
        let loaded = CATALOGUE.iter().map(|_| OnceLock::new()).collect();
        Self { context: context.clone(), loaded }
    }

    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Loads these kernels now.
    pub fn prepare(&self, kernels: &[Kernel]) -> Result<(), DriverError> {
        kernels.iter().try_for_each(|kernel| self.function(*kernel).map(|_| ()))
    }

    /// The function of a kernel; loads it if necessary.
    pub fn function(&self, kernel: Kernel) -> Result<&Function, DriverError> {
        let slot = &self.loaded[kernel.index()];
        if let Some(function) = slot.get() {
            return Ok(function);
        }
        let info = kernel.info();
        let function = Module::load(&self.context, info.name, info.ptx)?.function(info.name)?;
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
