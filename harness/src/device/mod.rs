//! The device under test: the virtual GPU that is started for a run, or the real one that is found,
//! its identity through NVML, the lock that keeps two runs off one GPU, and the threads on which
//! calls run that may hang.

mod blocking;
pub mod identity;
pub mod lock;
pub mod mig;
mod mig_types;
pub mod nvml;
mod readings;
pub mod selector;
pub mod settings;
pub mod virtual_gpu;

pub use blocking::{BlockingCall, NoAnswer, is_abandoned};
pub use nvml::Nvml;
pub use readings::Reading;
pub use selector::DeviceSelector;
pub use virtual_gpu::VirtualGpu;
