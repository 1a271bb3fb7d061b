//! Entry points of the commonest form: a device, and a place for one figure.
#![expect(unsafe_code, reason = "the caller's places are raw pointers")]

use super::returns::Return;
use super::target::device;
use super::{DeviceHandle, check_place, put};
use gpubench_virtual_gpu_driver::device::Device;

/// Defines exported entry points of the commonest form: a device, and a place for one figure.
macro_rules! figures {
    ($( fn $name:ident($device:pat_param) -> $ty:ty $body:block )*) => {
        $(
            #[unsafe(no_mangle)]
            #[allow(
                non_snake_case,
                clippy::missing_safety_doc,
                reason = "names and contracts are the vendor's"
            )]
            pub unsafe extern "C" fn $name(
                device: $crate::nvml::DeviceHandle,
                figure: *mut $ty,
            ) -> i32 {
                $crate::nvml::entry::guard(stringify!($name), || {
                    // SAFETY: the caller's place.
                    unsafe { $crate::nvml::figures::answer(device, figure, |$device| $body) }
                })
            }
        )*
    };
}
pub(super) use figures;

/// Stores a figure of a device where the caller wants it.
///
/// # Safety
/// `figure` is null or valid for a write of `T`.
pub(super) unsafe fn answer<T>(
    handle: DeviceHandle,
    figure: *mut T,
    body: impl FnOnce(&Device) -> Result<T, Return>,
) -> Result<(), Return> {
    let device = device(handle)?;
    check_place(figure)?;
    let found = body(&device)?;
    // SAFETY: the caller's place, checked for null.
    unsafe { put(figure, found) }
}
