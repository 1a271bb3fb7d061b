//! NVML about virtualization, confidential computing and application clocks, at which the model
//! runs.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use crate::driver_support::call;
use crate::nvml_support::{Error, figure, machine, no_tenant, nvml_device, observed_on, ok};
use gpubench_virtual_gpu_abi::nvml::calls::*;
use gpubench_virtual_gpu_abi::nvml::types::ConfComputeSystemState;
use gpubench_virtual_gpu_driver::cost::cycle_model;
use gpubench_virtual_gpu_driver::session::{Session, TimeMode};
use gpubench_virtual_gpu_model::machine::{Machine, Virtualization};

/// SM clock of the machine, and the application clock.
const MAX_MHZ: u32 = 1590;
const SET_MHZ: u32 = 1005;

/// Everything that NVML reports about them.
#[derive(Debug, PartialEq, Eq)]
struct Report {
    virtualization: u32,
    /// Environment and feature, or the code: chips before Ampere do not support it (nvml.h).
    confidential: Result<(u32, u32), i32>,
    /// Current, application, default application and maximum clock.
    sm_clocks_mhz: [u32; 4],
}

fn report() -> Result<Report, Error> {
    let device = nvml_device()?;
    let mut state = ConfComputeSystemState::default();
    let code = call!(nvmlSystemGetConfComputeState(&raw mut state));
    let mut sm_clocks_mhz = [0; 4];
    let getters = [
        nvmlDeviceGetClockInfo,
        nvmlDeviceGetApplicationsClock,
        nvmlDeviceGetDefaultApplicationsClock,
        nvmlDeviceGetMaxClockInfo,
    ];
    for (getter, mhz) in getters.iter().zip(&mut sm_clocks_mhz) {
        // SAFETY: a valid pointer; 1 is NVML_CLOCK_SM.
        ok(unsafe { getter(device, 1, mhz) })?;
    }
    Ok(Report {
        virtualization: figure(nvmlDeviceGetVirtualizationMode, device)?,
        confidential: if code == 0 { Ok((state.environment, state.feature)) } else { Err(code) },
        sm_clocks_mhz,
    })
}

#[test]
fn circumstances_are_reported() -> Result<(), Error> {
    let mut machine = machine()?;
    machine.circumstances.virtualization = Virtualization::Vgpu;
    machine.circumstances.confidential_computing = true;
    machine.circumstances.application_sm_clock_mhz = Some(SET_MHZ);
    // The model runs at the application clock.
    assert_eq!(cycle_model(&machine).clock_mhz, SET_MHZ);
    let want = Report {
        virtualization: 2,
        confidential: Ok((2, 1)),
        sm_clocks_mhz: [SET_MHZ, SET_MHZ, MAX_MHZ, MAX_MHZ],
    };
    let (test, session) = (test_name!(), Session::new(TimeMode::Wall, 1));
    observed_on(test, &session, &machine, no_tenant, || {
        assert_eq!(report()?, want);
        Ok(())
    })
}

#[test]
fn a_clock_above_the_maximum_is_refused() {
    let text = gpubench_profiles::TURING.to_owned();
    let text = text + "\n[circumstances]\napplication_sm_clock_mhz = 1591\n";
    let error = Machine::parse("m.toml", &text).err().map(|e| e.to_string());
    let want = "circumstances.application_sm_clock_mhz is 1591, accepted is 1 to gpu.sm_clock_mhz";
    assert!(error.as_ref().is_some_and(|error| error.contains(want)), "{error:?}");
}
