//! Device settings that a mechanism may change, and facts that decide whether it can run. Reading
//! needs no privileges; writing does.

use nvml_wrapper::enum_wrappers::device::{Clock, ComputeMode};
use nvml_wrapper::error::NvmlError;

use super::nvml::Nvml;

/// Every compute mode with its name, as `nvidia-smi` prints it.
const MODES: [(ComputeMode, &str); 4] = [
    (ComputeMode::Default, "DEFAULT"),
    (ComputeMode::ExclusiveThread, "EXCLUSIVE_THREAD"),
    (ComputeMode::Prohibited, "PROHIBITED"),
    (ComputeMode::ExclusiveProcess, "EXCLUSIVE_PROCESS"),
];

/// Settings of the SM clock; `None` if NVML does not report one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SmClocks {
    /// The maximum of the device.
    pub max_mhz: Option<u32>,
    /// The application clock.
    pub application_mhz: Option<u32>,
    /// The default application clock.
    pub default_mhz: Option<u32>,
}

impl Nvml {
    /// Settings of the SM clock.
    #[must_use]
    pub fn sm_clocks(&self) -> SmClocks {
        let Ok(device) = self.device() else {
            return SmClocks::default();
        };
        SmClocks {
            max_mhz: device.max_clock_info(Clock::SM).ok(),
            application_mhz: device.applications_clock(Clock::SM).ok(),
            default_mhz: device.default_applications_clock(Clock::SM).ok(),
        }
    }

    /// The compute mode, by the vendor's name: which processes may have a context.
    ///
    /// # Errors
    /// When NVML does not report it.
    pub fn compute_mode(&self) -> Result<&'static str, NvmlError> {
        let mode = self.device()?.compute_mode()?;
        let known = MODES.iter().find(|(known, _)| *known == mode);
        known.map(|(_, name)| *name).ok_or(NvmlError::UnexpectedVariant(0))
    }

    /// Sets the compute mode.
    ///
    /// # Errors
    /// When the name is unknown, or the user lacks the privilege.
    pub fn set_compute_mode(&self, name: &str) -> Result<(), NvmlError> {
        let known = MODES.iter().find(|(_, known)| *known == name);
        let (mode, _) = known.ok_or(NvmlError::InvalidArg)?;
        self.device()?.set_compute_mode(*mode)
    }

    /// Process ids of the clients of MPS servers.
    ///
    /// # Errors
    /// When NVML does not report it.
    pub fn mps_client_pids(&self) -> Result<Vec<u32>, NvmlError> {
        let clients = self.device()?.mps_running_compute_processes()?;
        Ok(clients.into_iter().map(|client| client.pid).collect())
    }
}
