//! Reads every value once through the C interface.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::collections::BTreeMap;
use std::ptr::null_mut;

use gpubench_virtual_gpu_abi::nvml::DeviceHandle;
use gpubench_virtual_gpu_abi::nvml::calls::*;
use gpubench_virtual_gpu_abi::nvml::gpm::GpmSupport;
use gpubench_virtual_gpu_abi::nvml::types::{
    ConfComputeSystemState, FieldValue, MemoryV2, ProcessInfo, ProcessUtilizationSample,
    Utilization, version_of,
};
use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_driver::handles::Handle;

use super::MS;
use crate::driver_support::call;
use crate::nvml_support::gpm::metrics;
use crate::nvml_support::mig::{mode, out};
use crate::nvml_support::{Error, Getter, events_of, next_event, ok};

/// Each value by the name of its row, or the code.
pub type Answers = BTreeMap<&'static str, Result<f64, i32>>;

/// Handles that persist between readings.
pub struct Reader {
    device: DeviceHandle,
    events: Handle,
    answers: Answers,
}

fn plain<T: Default + Into<f64>>(getter: Getter<T>, device: DeviceHandle) -> Result<f64, i32> {
    // SAFETY: a valid pointer.
    out(T::default(), |to| unsafe { getter(device, to) }).map(Into::into)
}

impl Reader {
    /// Registers for events, so that none is missed.
    pub fn new(device: DeviceHandle) -> Result<Self, Error> {
        Ok(Self { device, events: events_of(device, 8)?, answers: Answers::new() })
    }

    fn put(&mut self, name: &'static str, answer: Result<f64, i32>) {
        assert!(self.answers.insert(name, answer).is_none(), "{name} twice");
    }

    /// Reads every value.
    pub fn read(&mut self, clock: &Device) -> Result<Answers, Error> {
        self.utilisation();
        self.monitor(clock)?;
        self.memory_and_processes();
        self.power_and_clocks();
        self.health();
        self.surroundings();
        Ok(std::mem::take(&mut self.answers))
    }

    fn utilisation(&mut self) {
        let device = self.device;
        let rates =
            out(Utilization::default(), |to| call!(nvmlDeviceGetUtilizationRates(device, to)));
        self.put("utilisation gpu", rates.map(|rates| rates.gpu.into()));
        self.put("utilisation memory", rates.map(|rates| rates.memory.into()));
        let mut samples = [ProcessUtilizationSample::default(); 8];
        let mut count = 8;
        // SAFETY: an array of that length.
        let code = unsafe {
            nvmlDeviceGetProcessUtilization(device, samples.as_mut_ptr(), &raw mut count, 0)
        };
        let used = (code == 0).then(|| samples[0].sm_util.into()).ok_or(code);
        self.put("process utilisation", used);
    }

    fn monitor(&mut self, clock: &Device) -> Result<(), Error> {
        let device = self.device;
        let support = GpmSupport { version: 1, is_supported: 7 };
        let support = out(support, |to| call!(nvmlGpmQueryDeviceSupport(device, to)));
        self.put("gpm supported", support.map(|found| found.is_supported.into()));
        let mut pair: [Handle; 2] = [null_mut(); 2];
        let mut codes = [0; 2];
        for (sample, code) in pair.iter_mut().zip(&mut codes) {
            clock.sleep_until(clock.now_ns() + 120 * MS)?;
            ok!(nvmlGpmSampleAlloc(sample))?;
            *code = call!(nvmlGpmSampleGet(device, *sample));
        }
        let found = metrics(pair, &GPM.map(|(id, _)| id));
        for (at, (_, name)) in GPM.into_iter().enumerate() {
            let answer = match codes {
                [0, 0] => found.as_ref().map_err(|code| *code).and_then(|all| match all[at] {
                    (0, value) => Ok(value),
                    (code, _) => Err(code),
                }),
                [code, _] => Err(code),
            };
            self.put(name, answer);
        }
        for sample in pair {
            ok!(nvmlGpmSampleFree(sample))?;
        }
        Ok(())
    }

    fn memory_and_processes(&mut self) {
        let device = self.device;
        let version = version_of::<MemoryV2>(2);
        let request = MemoryV2 { version, ..MemoryV2::default() };
        let memory = out(request, |to| call!(nvmlDeviceGetMemoryInfo_v2(device, to)));
        self.put("memory v2 used", memory.map(|memory| memory.used as f64));
        let mut infos = [ProcessInfo::default(); 8];
        let (mut count, mut clients) = (8, 8);
        // SAFETY: arrays of that length.
        let codes = unsafe {
            let mps = nvmlDeviceGetMPSComputeRunningProcesses_v3;
            [
                mps(device, &raw mut clients, infos.as_mut_ptr()),
                nvmlDeviceGetComputeRunningProcesses_v3(device, &raw mut count, infos.as_mut_ptr()),
            ]
        };
        let or_code = |code: i32, value: f64| if code == 0 { Ok(value) } else { Err(code) };
        self.put("mps clients", or_code(codes[0], clients.into()));
        self.put("processes", or_code(codes[1], count.into()));
        self.put("processes' memory", or_code(codes[1], infos[0].used_gpu_memory as f64));
    }

    fn power_and_clocks(&mut self) {
        let device = self.device;
        self.put("power usage", plain(nvmlDeviceGetPowerUsage, device));
        let energy = out(0, |to| call!(nvmlDeviceGetTotalEnergyConsumption(device, to)));
        self.put("energy", energy.map(|mj| mj as f64));
        let clock = out(0, |to| call!(nvmlDeviceGetClockInfo(device, 1, to)));
        self.put("sm clock", clock.map(Into::into));
        let reasons = out(0, |to| call!(nvmlDeviceGetCurrentClocksEventReasons(device, to)));
        self.put("clock reasons", reasons.map(|bits| bits as f64));
        for (counter, name) in [(0, "pcie sent"), (1, "pcie received")] {
            let rate = out(0, |to| call!(nvmlDeviceGetPcieThroughput(device, counter, to)));
            self.put(name, rate.map(Into::into));
        }
        for (id, name) in [
            (185, "field 185 average power"),
            (186, "field 186 instant power"),
            (74, "field 74 power cap"),
            (269, "field 269 sw thermal"),
            (270, "field 270 hw thermal"),
            (271, "field 271 power brake"),
            (143, "field 143 remapped rows"),
            (144, "field 144 remap pending"),
            (230, "field 230 recovery"),
        ] {
            let found = field(device, id);
            self.put(name, found);
        }
    }

    fn health(&mut self) {
        let device = self.device;
        for (kind, name) in [(0, "ecc corrected"), (1, "ecc uncorrected")] {
            let count = out(0, |to| call!(nvmlDeviceGetTotalEccErrors(device, kind, 0, to)));
            self.put(name, count.map(|count| count as f64));
        }
        let event = next_event(self.events, 0);
        self.put("xid", event.map(|event| event.event_data as f64));
    }

    fn surroundings(&mut self) {
        let device = self.device;
        self.put("mig mode", mode(device).map(|(current, _)| current.into()));
        self.put("virtualisation", plain(nvmlDeviceGetVirtualizationMode, device));
        let state =
            out(ConfComputeSystemState::default(), |to| call!(nvmlSystemGetConfComputeState(to)));
        self.put("confidential state", state.map(|state| state.feature.into()));
    }
}

/// GPM metrics by number, with their rows.
const GPM: [(u32, &str); 17] = [
    (1, "gpm 1 graphics"),
    (2, "gpm 2 sm"),
    (3, "gpm 3 occupancy"),
    (4, "gpm 4 integer"),
    (5, "gpm 5 tensor"),
    (6, "gpm 6 dfma"),
    (7, "gpm 7 hmma"),
    (8, "gpm 8 dmma"),
    (9, "gpm 9 imma"),
    (10, "gpm 10 dram"),
    (11, "gpm 11 fp64"),
    (12, "gpm 12 fp32"),
    (13, "gpm 13 fp16"),
    (20, "gpm 20 pcie sent"),
    (21, "gpm 21 pcie received"),
    (60, "gpm 60 nvlink received"),
    (61, "gpm 61 nvlink sent"),
];

fn field(device: DeviceHandle, field_id: u32) -> Result<f64, i32> {
    let request = FieldValue { field_id, result: 999, ..FieldValue::default() };
    let found = out(request, |to| call!(nvmlDeviceGetFieldValues(device, 1, to)))?;
    match found.result {
        0 => Ok(found.value as f64),
        code => Err(code),
    }
}
