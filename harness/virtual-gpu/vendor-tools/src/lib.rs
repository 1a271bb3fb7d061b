//! Stand-ins for the vendor's commands: the MPS control daemon and server, and `nvidia-smi`.

pub mod nvidia_cuda_mps;
pub mod nvidia_smi;

pub const NAMES: [&str; 3] = [nvidia_cuda_mps::CONTROL, nvidia_cuda_mps::SERVER, nvidia_smi::NAME];
