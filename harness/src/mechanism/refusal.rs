//! What the driver says to a tenant that it does not let in: the code, what it means, and what
//! would help. A mechanism that its tenants cannot enter cannot be measured here, which is no
//! failure of theirs.

use super::waivers::DEFAULT_MODE;

/// Why no tenant can be added, and what would help; nothing for a code that is a failure.
#[must_use]
pub fn of_code(code: i32) -> Option<(&'static str, &'static str)> {
    // Numbers and names of cuda.h.
    match code {
        46 => Some((
            "the compute mode keeps a second process out (46, CUDA_ERROR_DEVICE_UNAVAILABLE)",
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
