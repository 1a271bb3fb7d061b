//! Static analysis of decoded functions.

pub(crate) mod atomic_adds;
pub(crate) mod dataflow;
pub(crate) mod liveness;
pub(crate) mod loops;
