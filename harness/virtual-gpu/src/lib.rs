//! A libcuda and a libnvidia-ml without hardware: the model, its clock and the two C interfaces.
//!
//! `state` is what a device is at one instant, `model` what it does as time passes, `pump` whose
//! turn it is in virtual time, `shm` the file in which several processes share it, `device` one
//! process's handle on it, `kernel_log` what the host's log would say of it, `exports` what keeps
//! memory that is passed on. `mig` divides a device, `mps` joins processes on it, and `mpsd` are
//! the programs that do so on a user's behalf; `cgroup` limits the memory of several together.
//! `ptx` executes kernels. `abi` is what programs see.

pub mod abi;
pub mod cgroup;
pub mod compute_mode;
pub mod contents;
pub mod cost;
pub mod crash;
pub mod device;
pub mod exports;
pub mod kernel_log;
pub mod launch;
pub mod life;
pub mod machine;
pub mod memory;
pub mod mig;
pub mod model;
pub mod mps;
pub mod mpsd;
pub mod noise;
pub mod pump;
pub mod session;
pub mod shm;
pub mod smi;
pub mod stall;
pub mod state;
pub mod table;
