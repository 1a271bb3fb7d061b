//! A device that is ready for work.

use gpubench_kernels::KernelSet;
use gpubench_kernels::driver::{Context, DeviceProps, Stream};

/// A device ready for work: its context, its kernels and the stream of its requests.
#[derive(Debug)]
pub struct Gpu {
    /// The context; current on the issuing thread.
    pub context: Context,
    pub kernels: KernelSet,
    pub stream: Stream,
    pub props: DeviceProps,
    /// Whether a waiting thread spins.
    pub spin: bool,
}
