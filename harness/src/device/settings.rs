//! Settings of the device that a mechanism may have to change, and the facts that decide whether
//! one can run. Reading needs no rights; writing does.

use nvml_wrapper::enum_wrappers::device::{Clock, ComputeMode};
use nvml_wrapper::error::NvmlError;

use super::nvml::Nvml;

/// Every compute mode with its word, as `nvidia-smi` prints it.
const MODES: [(ComputeMode, &str); 4] = [
    (ComputeMode::Default, "DEFAULT"),
    (ComputeMode::ExclusiveThread, "EXCLUSIVE_THREAD"),
    (ComputeMode::Prohibited, "PROHIBITED"),
    (ComputeMode::ExclusiveProcess, "EXCLUSIVE_PROCESS"),
];

/// What NVML tells of the SMs' clock beside where it stands; absent what it does not tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SmClocks {
    /// The greatest that the device has.
    pub greatest_mhz: Option<u32>,
    /// What applications get.
    pub application_mhz: Option<u32>,
    /// The default.
    pub default_mhz: Option<u32>,
}

impl Nvml {
    /// Settings of the SMs' clock.
    #[must_use]
    pub fn sm_clocks(&self) -> SmClocks {
        let Ok(device) = self.device() else {
            return SmClocks::default();
        };
        SmClocks {
            greatest_mhz: device.max_clock_info(Clock::SM).ok(),
            application_mhz: device.applications_clock(Clock::SM).ok(),
            default_mhz: device.default_applications_clock(Clock::SM).ok(),
        }
    }

    /// Which processes may have a context, by the vendor's word.
    ///
    /// # Errors
    /// When NVML does not tell.
    pub fn compute_mode(&self) -> Result<&'static str, NvmlError> {
        let mode = self.device()?.compute_mode()?;
        let known = MODES.iter().find(|(known, _)| *known == mode);
        known
            .map(|(_, word)| *word)
            .ok_or(NvmlError::UnexpectedVariant(0))
    }

    /// Sets which processes may have a context.
    ///
    /// # Errors
    /// When the word is none of the vendor's, or the user may not.
    pub fn set_compute_mode(&self, word: &str) -> Result<(), NvmlError> {
        let known = MODES.iter().find(|(_, known)| *known == word);
        let (mode, _) = known.ok_or(NvmlError::InvalidArg)?;
        self.device()?.set_compute_mode(*mode)
    }

    /// Process ids of the clients of MPS servers.
    ///
    /// # Errors
    /// When NVML does not tell.
    pub fn mps_client_pids(&self) -> Result<Vec<u32>, NvmlError> {
        let clients = self.device()?.mps_running_compute_processes()?;
        Ok(clients.into_iter().map(|client| client.pid).collect())
    }
}
