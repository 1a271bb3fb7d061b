//! The device under test: a virtual GPU that is started for a run, or a real GPU of this host; its
//! identity through NVML; the allotment of `CUDA_VISIBLE_DEVICES`; the lock that allows one run per
//! GPU; threads for calls that may hang.

#[cfg(not(feature = "virtual-gpu"))]
pub mod absent;
mod blocking;
mod ceiling;
pub mod identity;
pub mod limits;
pub mod lock;
pub mod meters;
pub mod mig;
pub mod nvml;
mod nvml_words;
pub mod private_folder;
pub mod selector;
#[cfg(feature = "virtual-gpu")]
pub mod virtual_gpu;

#[cfg(not(feature = "virtual-gpu"))]
pub use absent as virtual_gpu;
pub use blocking::{BlockingCall, NoAnswer, OUTSET, is_abandoned, limited};
pub use ceiling::{Rated, Reported};
pub use identity::{Reading, THROTTLE_REASONS};
pub use nvml::{Driver, HostGpu, Nvml};
pub use private_folder::PrivateFolder;
pub use selector::Allotment;
pub use selector::{DeviceChoice, DeviceSelector};
pub use virtual_gpu::VirtualGpu;

/// `CLOCK_MONOTONIC`, on which every process of the host agrees.
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}
