//! Codes with which the driver refuses a context, with meaning and remedy. A mechanism under which
//! a tenant gets such a code is waived; the tenant did not fail.

use super::waivers::DEFAULT_MODE;

/// Why no tenant can be added, and the remedy; `None` for a code that is a failure.
#[must_use]
pub fn of_code(code: i32) -> Option<(&'static str, &'static str)> {
    // Numbers and names of cuda.h.
    match code {
        46 => Some((
            "the compute mode refuses a second process (46, CUDA_ERROR_DEVICE_UNAVAILABLE)",
            DEFAULT_MODE,
        )),
        808 => Some((
            "the MPS server takes no more clients (808, CUDA_ERROR_MPS_MAX_CLIENTS_REACHED)",
            "fewer tenants",
        )),
        809 => Some((
            "the MPS server has no more connections (809, CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED)",
            "fewer tenants, or a smaller CUDA_DEVICE_MAX_CONNECTIONS",
        )),
        _ => None,
    }
}
