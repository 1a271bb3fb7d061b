//! NVML values that come from the machine file, and device lookup.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::ffi::CString;
use std::ptr::null_mut;

use crate::nvml_support::{
    Error, Getter, NUMBERS, figure, machine, nvml_device, observed, ok, text,
};
use gpubench_virtual_gpu_abi::nvml::DeviceHandle;
use gpubench_virtual_gpu_abi::nvml::calls::*;
use gpubench_virtual_gpu_abi::nvml::types::{PciInfo, PciInfoExt, Uuid, version_of};
use gpubench_virtual_gpu_driver::session::TimeMode;

const INVALID_ARGUMENT: i32 = 2;
const NOT_FOUND: i32 = 6;
const ARGUMENT_VERSION_MISMATCH: i32 = 25;

#[test]
fn identity_is_the_machine_files() -> Result<(), Error> {
    let test = test_name!("identity_is_the_machine_files");
    observed(
        test,
        TimeMode::Wall,
        || Ok(()),
        || {
            let device = nvml_device()?;
            for (index, (getter, expected)) in NUMBERS.iter().enumerate() {
                assert_eq!(
                    figure(*getter, device)?,
                    *expected,
                    "number {index} of the list"
                );
            }
            names_are_the_machine_files(device)?;
            clocks_are_the_machine_files(device)?;
            let (mut major, mut minor, mut cuda) = (0, 0, 0);
            let (mut least, mut most) = (0, 0);
            let constraints = nvmlDeviceGetPowerManagementLimitConstraints;
            // SAFETY: valid pointers.
            unsafe {
                let capability = nvmlDeviceGetCudaComputeCapability;
                ok(capability(device, &raw mut major, &raw mut minor))?;
                ok(nvmlSystemGetCudaDriverVersion_v2(&raw mut cuda))?;
                ok(constraints(device, &raw mut least, &raw mut most))?;
            }
            assert_eq!((major, minor, cuda), (7, 5, 13_000));
            assert_eq!((least, most), (70_000, 70_000));
            Ok(())
        },
    )
}

fn names_are_the_machine_files(device: DeviceHandle) -> Result<(), Error> {
    let machine = machine()?;
    let program = std::env::args().next().ok_or("no name of this program")?;
    // SAFETY: buffers of the given length.
    unsafe {
        for (found, expected) in [
            (
                text(96, |p, n| nvmlDeviceGetName(device, p, n))?,
                machine.gpu.product.as_str(),
            ),
            (
                text(96, |p, n| nvmlDeviceGetUUID(device, p, n))?,
                &machine.uuid(),
            ),
            (
                text(80, |p, n| nvmlSystemGetDriverVersion(p, n))?,
                "580.00.virtual",
            ),
            (
                text(80, |p, n| nvmlSystemGetNVMLVersion(p, n))?,
                "13.580.00.virtual",
            ),
            (
                text(32, |p, n| nvmlDeviceGetVbiosVersion(device, p, n))?,
                "00.00.virtual",
            ),
            (
                text(80, |p, n| nvmlDeviceGetBoardPartNumber(device, p, n))?,
                "virtual-turing",
            ),
            (
                text(9, |p, n| nvmlSystemGetProcessName(std::process::id(), p, n))?,
                &program[..8],
            ),
        ] {
            assert_eq!(found, expected);
        }
    }
    Ok(())
}

fn clocks_are_the_machine_files(device: DeviceHandle) -> Result<(), Error> {
    for (kind, expected) in [(0, (0, 1590)), (1, (0, 1590)), (2, (0, 5001)), (3, (3, 0))] {
        for getter in [
            nvmlDeviceGetClockInfo,
            nvmlDeviceGetMaxClockInfo,
            nvmlDeviceGetApplicationsClock,
            nvmlDeviceGetDefaultApplicationsClock,
        ] {
            let mut mhz = 0;
            // SAFETY: a valid pointer.
            let code = unsafe { getter(device, kind, &raw mut mhz) };
            assert_eq!((code, mhz), expected, "{kind}");
        }
    }
    Ok(())
}

#[test]
fn a_device_is_found_by_every_identifier() -> Result<(), Error> {
    let test = test_name!("a_device_is_found_by_every_identifier");
    observed(
        test,
        TimeMode::Wall,
        || Ok(()),
        || {
            let device = nvml_device()?;
            let uuid = machine()?.uuid();
            let wrong = uuid.replace(&uuid[4..8], "0000");
            let by_uuid = |uuid: &str| {
                let (uuid, mut found) = (CString::new(uuid)?, null_mut());
                // SAFETY: a valid text and pointer.
                let code = unsafe { nvmlDeviceGetHandleByUUID(uuid.as_ptr(), &raw mut found) };
                Ok::<_, Error>((code, found == device))
            };
            assert_eq!(by_uuid(&uuid)?, (0, true));
            assert_eq!(by_uuid(&wrong)?, (NOT_FOUND, false));
            assert_eq!(by_uuid("Tesla")?, (INVALID_ARGUMENT, false));
            let by_bus = |id: &str| {
                let (id, mut found) = (CString::new(id)?, null_mut());
                // SAFETY: a valid text and pointer.
                let code = unsafe { nvmlDeviceGetHandleByPciBusId_v2(id.as_ptr(), &raw mut found) };
                Ok::<_, Error>((code, found == device))
            };
            for id in ["00000000:01:00.0", "0000:01:00.0", "0:1:0", "01:00.0"] {
                assert_eq!(by_bus(id)?, (0, true), "{id}");
            }
            assert_eq!(by_bus("0000:02:00.0")?, (NOT_FOUND, false));
            assert_eq!(by_bus("nowhere")?, (INVALID_ARGUMENT, false));
            let mut request = Uuid {
                version: version_of::<Uuid>(1),
                kind: 1,
                value: [0; 41],
            };
            request.value[..40].copy_from_slice(uuid.as_bytes());
            let binary = u128::from_str_radix(&uuid[4..].replace('-', ""), 16)?.to_be_bytes();
            // SAFETY: valid structures and pointers.
            unsafe {
                let mut found = null_mut();
                ok(nvmlDeviceGetHandleByUUIDV(
                    &raw const request,
                    &raw mut found,
                ))?;
                assert_eq!(found, device);
                request.kind = 2;
                request.value[..16].copy_from_slice(&binary);
                ok(nvmlDeviceGetHandleByUUIDV(
                    &raw const request,
                    &raw mut found,
                ))?;
                request.value[0] ^= 1;
                let code = nvmlDeviceGetHandleByUUIDV(&raw const request, &raw mut found);
                assert_eq!(code, NOT_FOUND);
                request.version = 1;
                let code = nvmlDeviceGetHandleByUUIDV(&raw const request, &raw mut found);
                assert_eq!(code, ARGUMENT_VERSION_MISMATCH);
            }
            pci_info_has_every_version(device)
        },
    )
}

/// Each version writes exactly the bytes of its structure.
fn pci_info_has_every_version(device: DeviceHandle) -> Result<(), Error> {
    for (getter, bytes) in [
        (nvmlDeviceGetPciInfo as Getter<u8>, 32),
        (nvmlDeviceGetPciInfo_v2 as Getter<u8>, 36),
        (nvmlDeviceGetPciInfo_v3 as Getter<u8>, 68),
    ] {
        let mut raw = [0x55u8; size_of::<PciInfo>()];
        // SAFETY: the largest version fits.
        ok(unsafe { getter(device, raw.as_mut_ptr()) })?;
        assert_eq!(&raw[..13], b"0000:01:00.0\0");
        assert_eq!(raw[20..24], 1u32.to_le_bytes(), "the bus");
        assert!(
            raw[bytes..].iter().all(|byte| *byte == 0x55),
            "version of {bytes} bytes"
        );
        if bytes == 68 {
            assert_eq!(&raw[36..53], b"00000000:01:00.0\0");
        }
    }
    // SAFETY: plain data for which all zero bits are valid.
    let mut extended: PciInfoExt = unsafe { std::mem::zeroed() };
    // SAFETY: a valid pointer.
    unsafe {
        let code = nvmlDeviceGetPciInfoExt(device, &raw mut extended);
        assert_eq!(code, ARGUMENT_VERSION_MISMATCH);
        extended.version = version_of::<PciInfoExt>(1);
        ok(nvmlDeviceGetPciInfoExt(device, &raw mut extended))?;
    }
    assert_eq!(
        (extended.bus, extended.base_class, extended.sub_class),
        (1, 3, 2)
    );
    Ok(())
}
