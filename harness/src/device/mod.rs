//! The device under test: a virtual GPU that is started for a run, or a real GPU of this host; its
//! identity through NVML; the allotment of `CUDA_VISIBLE_DEVICES`; the lock that allows one run per
//! GPU; threads for calls that may hang.

mod blocking;
mod ceiling;
pub mod identity;
pub mod lock;
pub mod mig;
mod mig_types;
pub mod nvml;
pub mod private_folder;
mod readings;
pub mod selector;
pub mod settings;
pub mod virtual_gpu;
pub mod visible;

pub use blocking::{BlockingCall, NoAnswer, is_abandoned};
pub use ceiling::{Rated, Reported};
pub use nvml::{HostGpu, Nvml};
pub use private_folder::PrivateFolder;
pub use readings::{Reading, THROTTLE_REASONS};
pub use selector::{DeviceChoice, DeviceSelector};
pub use virtual_gpu::VirtualGpu;
pub use visible::Allotment;
