//! NVML values that come from the machine file, and device lookup.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::ffi::CString;
use std::ptr::null_mut;

use crate::driver_support::call;
use crate::nvml_support::{
    Error, NUMBERS, figure, machine, no_tenant, nvml_device, observed, ok, text,
};
use gpubench_virtual_gpu_abi::nvml::DeviceHandle;
use gpubench_virtual_gpu_abi::nvml::calls::*;
use gpubench_virtual_gpu_abi::nvml::types::PciInfo;
use gpubench_virtual_gpu_driver::session::TimeMode;

const INVALID_ARGUMENT: i32 = 2;
const NOT_FOUND: i32 = 6;

#[test]
fn identity_is_the_machine_files() -> Result<(), Error> {
    observed(test_name!(), TimeMode::Wall, no_tenant, || {
        let device = nvml_device()?;
        for (index, (getter, expected)) in NUMBERS.iter().enumerate() {
            assert_eq!(figure(*getter, device)?, *expected, "number {index} of the list");
        }
        names_are_the_machine_files(device)?;
        clocks_are_the_machine_files(device)?;
        let (mut major, mut minor, mut cuda) = (0, 0, 0);
        // SAFETY: valid pointers.
        unsafe {
            let capability = nvmlDeviceGetCudaComputeCapability;
            ok(capability(device, &raw mut major, &raw mut minor))?;
            ok(nvmlSystemGetCudaDriverVersion_v2(&raw mut cuda))?;
        }
        assert_eq!((major, minor, cuda), (7, 5, 13_000));
        Ok(())
    })
}

fn names_are_the_machine_files(device: DeviceHandle) -> Result<(), Error> {
    let machine = machine()?;
    let program = std::env::args().next().ok_or("no name of this program")?;
    for (found, expected) in [
        (text(96, |p, n| call!(nvmlDeviceGetName(device, p, n)))?, machine.gpu.product.as_str()),
        (text(96, |p, n| call!(nvmlDeviceGetUUID(device, p, n)))?, &machine.uuid()),
        (text(80, |p, n| call!(nvmlSystemGetDriverVersion(p, n)))?, "580.00.virtual"),
        (text(32, |p, n| call!(nvmlDeviceGetVbiosVersion(device, p, n)))?, "00.00.virtual"),
        (text(9, |p, n| call!(nvmlSystemGetProcessName(std::process::id(), p, n)))?, &program[..8]),
    ] {
        assert_eq!(found, expected);
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
    observed(test_name!(), TimeMode::Wall, no_tenant, || {
        let device = nvml_device()?;
        let uuid = machine()?.uuid();
        let wrong = uuid.replace(&uuid[4..8], "0000");
        let by_uuid = |uuid: &str| {
            let (uuid, mut found) = (CString::new(uuid)?, null_mut());
            let code = call!(nvmlDeviceGetHandleByUUID(uuid.as_ptr(), &raw mut found));
            Ok::<_, Error>((code, found == device))
        };
        assert_eq!(by_uuid(&uuid)?, (0, true));
        assert_eq!(by_uuid(&wrong)?, (NOT_FOUND, false));
        assert_eq!(by_uuid("Tesla")?, (INVALID_ARGUMENT, false));
        let by_bus = |id: &str| {
            let (id, mut found) = (CString::new(id)?, null_mut());
            let code = call!(nvmlDeviceGetHandleByPciBusId_v2(id.as_ptr(), &raw mut found));
            Ok::<_, Error>((code, found == device))
        };
        for id in ["00000000:01:00.0", "0000:01:00.0", "0:1:0", "01:00.0"] {
            assert_eq!(by_bus(id)?, (0, true), "{id}");
        }
        assert_eq!(by_bus("0000:02:00.0")?, (NOT_FOUND, false));
        assert_eq!(by_bus("nowhere")?, (INVALID_ARGUMENT, false));
        pci_info_is_complete(device)
    })
}

fn pci_info_is_complete(device: DeviceHandle) -> Result<(), Error> {
    // SAFETY: plain data for which all zero bits are valid.
    let mut info: PciInfo = unsafe { std::mem::zeroed() };
    ok!(nvmlDeviceGetPciInfo_v3(device, &raw mut info))?;
    let text = |field: &[i8]| {
        let bytes = field.iter().take_while(|c| **c != 0);
        bytes.map(|c| char::from(c.cast_unsigned())).collect::<String>()
    };
    assert_eq!(text(&info.bus_id_legacy), "0000:01:00.0");
    assert_eq!(text(&info.bus_id), "00000000:01:00.0");
    assert_eq!((info.domain, info.bus, info.device), (0, 1, 0));
    Ok(())
}
