//! The kernels of a context, each loaded when it is first asked for.

use std::sync::OnceLock;

use crate::catalogue::{CATALOGUE, Kernel};
use crate::cost::Cost;
use crate::driver::{Args, Context, DriverError, Function, Grid, Module, Stream};

/// Kernels loaded into one context.
///
/// Compilation by the driver takes milliseconds: a tenant calls `prepare` for what it will launch
/// before its measured phase.
#[derive(Debug)]
pub struct KernelSet {
    context: Context,
    loaded: Vec<OnceLock<Function>>,
}

impl KernelSet {
    /// A set with nothing loaded yet.
    pub fn new(context: &Context) -> Self {
        let loaded = CATALOGUE.iter().map(|_| OnceLock::new()).collect();
        Self {
            context: context.clone(),
            loaded,
        }
    }

    /// The context.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Loads these kernels now.
    pub fn prepare(&self, kernels: &[Kernel]) -> Result<(), DriverError> {
        kernels
            .iter()
            .try_for_each(|kernel| self.function(*kernel).map(|_| ()))
    }

    /// The function of a kernel, loaded if it was not.
    pub fn function(&self, kernel: Kernel) -> Result<&Function, DriverError> {
        let slot = &self.loaded[kernel.index()];
        if let Some(function) = slot.get() {
            return Ok(function);
        }
        let info = kernel.info();
        let function = Module::load(&self.context, info.name, info.ptx)?.function(info.name)?;
        // Two threads may both load; one wins and the other's copy is unloaded.
        Ok(slot.get_or_init(|| function))
    }
}

/// A launch with everything it needs but the context.
pub trait Launcher {
    /// Which kernel.
    fn kernel(&self) -> Kernel;

    /// Its shape.
    fn grid(&self) -> Grid;

    /// Its arguments.
    fn args(&self) -> Args;

    /// What it asks of the device.
    fn cost(&self) -> Cost;

    /// Queues it.
    fn launch(&self, kernels: &KernelSet, stream: &Stream) -> Result<(), DriverError> {
        kernels
            .function(self.kernel())?
            .launch(self.grid(), stream, &self.args())
    }
}
