//! The device under test: a virtual GPU that is started for a run, or a real GPU of this host; its
//! identity through NVML; the allotment of `CUDA_VISIBLE_DEVICES`; the lock that allows one run per
//! GPU; threads for calls that may hang.

mod blocking;
mod ceiling;
pub mod identity;
pub mod lock;
pub mod mig;
pub mod nvml;
pub mod private_folder;
pub mod selector;
pub mod virtual_gpu;

pub use blocking::{BlockingCall, NoAnswer, is_abandoned};
pub use ceiling::{Rated, Reported};
pub use identity::{Reading, THROTTLE_REASONS};
pub use nvml::{HostGpu, Nvml};
pub use private_folder::PrivateFolder;
pub use selector::Allotment;
pub use selector::{DeviceChoice, DeviceSelector};
pub use virtual_gpu::VirtualGpu;
