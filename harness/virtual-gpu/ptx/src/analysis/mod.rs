//! Static analysis of decoded functions.

pub(crate) mod dataflow;
pub(crate) mod liveness;
pub(crate) mod loops;
