//! A device that is ready for work.

use gpubench_kernels::KernelSet;
use gpubench_kernels::driver::{Context, DeviceProps, Stream};

/// A device ready for work: its context, its kernels and the stream of its requests.
#[derive(Debug)]
pub struct Gpu {
    /// The context; current on the issuing thread.
    pub context: Context,
    /// The kernels of the context.
    pub kernels: KernelSet,
    /// The stream of the requests.
    pub stream: Stream,
    /// The properties that size loads.
    pub props: DeviceProps,
    /// Whether a waiting thread spins.
    pub spin: bool,
}
