//! Stand-ins for the vendor's commands: the MPS control daemon and server, and `nvidia-smi`.

pub mod mpsd;
pub mod smi;
