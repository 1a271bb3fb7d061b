//! GPM, the performance monitor of Hopper and newer: counters between two samples.

use std::ffi::{CStr, c_char};
use std::mem::offset_of;
use std::ptr::null;

use super::returns::{self, Return};
use super::{DeviceHandle, check_not_null, put, read};
use gpubench_virtual_gpu_driver::code::refuse;
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::nvml::gpm::{self, Sample};
use gpubench_virtual_gpu_driver::nvml::library::{check_initialised, target};

pub use gpubench_virtual_gpu_driver::nvml::gpm::METRICS;

/// `NVML_GPM_SUPPORT_VERSION` and `NVML_GPM_METRICS_GET_VERSION`.
const VERSION: u32 = 1;

/// `nvmlGpmSupport_t`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct GpmSupport {
    pub version: u32,
    pub is_supported: u32,
}

/// `nvmlGpmMetric_t`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct GpmMetric {
    pub metric_id: u32,
    pub result: i32,
    pub value: f64,
    pub short_name: *const c_char,
    pub long_name: *const c_char,
    pub unit: *const c_char,
}

/// `nvmlGpmMetricsGet_t`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct GpmMetricsGet {
    pub version: u32,
    pub count: u32,
    pub first: Handle,
    pub second: Handle,
    pub metrics: [GpmMetric; METRICS],
}

entries! {
    fn nvmlGpmQueryDeviceSupport(handle: DeviceHandle, support: *mut GpmSupport) {
        let (device, _) = target(handle)?;
        let request = read(support)?;
        refuse(request.version != VERSION, returns::ARGUMENT_VERSION_MISMATCH)?;
        let is_supported = u32::from(gpm::is_supported(&device));
        put(support, GpmSupport { is_supported, ..request })
    }

    fn nvmlGpmSampleAlloc(sample: *mut Handle) {
        check_initialised()?;
        check_not_null(sample)?;
        put(sample, gpm::allocate()?)
    }

    fn nvmlGpmSampleFree(sample: Handle) { Ok(gpm::free(sample)?) }
    fn nvmlGpmSampleGet(handle: DeviceHandle, sample: Handle) {
        let (device, target) = target(handle)?;
        Ok(gpm::sample(&device, target, sample)?)
    }

    fn nvmlGpmMigSampleGet(handle: DeviceHandle, instance_id: u32, sample: Handle) {
        let (device, _) = target(handle)?;
        Ok(gpm::sample_of_instance(&device, instance_id, sample)?)
    }

    fn nvmlGpmMetricsGet(get: *mut GpmMetricsGet) {
        check_not_null(get)?;
        // Only as many metrics are read as the count says that there are.
        let version = read(get.cast::<u32>())?;
        let count = read(&raw const (*get).count)?;
        let handles = [read(&raw const (*get).first)?, read(&raw const (*get).second)?];
        refuse(version != VERSION, returns::ARGUMENT_VERSION_MISMATCH)?;
        refuse(count as usize > METRICS, returns::INVALID_ARGUMENT)?;
        let [first, second] = gpm::both(handles)?;
        for index in 0..count as usize {
            let offset = offset_of!(GpmMetricsGet, metrics) + index * size_of::<GpmMetric>();
            let metric = get.cast::<u8>().add(offset).cast::<GpmMetric>();
            put(metric, evaluate(read(metric)?, &first, &second))?;
        }
        Ok(())
    }
}

fn evaluate(request: GpmMetric, first: &Sample, second: &Sample) -> GpmMetric {
    let known = NAMES.iter().find(|(id, ..)| *id == request.metric_id);
    let (short_name, long_name, unit) = known.map_or((null(), null(), null()), |known| {
        (known.1.as_ptr(), known.2.as_ptr(), known.3.as_ptr())
    });
    let (result, value) = match gpm::metric(request.metric_id, first, second) {
        Ok(value) => (0, value),
        Err(error) => (Return::from(error).0, 0.0),
    };
    GpmMetric { metric_id: request.metric_id, result, value, short_name, long_name, unit }
}

const PERCENT: &CStr = c"%";
const RATE: &CStr = c"MiB/s";

/// Number, short name, long name and unit of every metric that there is.
const NAMES: [(u32, &CStr, &CStr, &CStr); 17] = [
    (1, c"GRACT", c"Graphics Engine Active", PERCENT),
    (2, c"SMUTIL", c"SM Activity", PERCENT),
    (3, c"SMOCC", c"SM Occupancy", PERCENT),
    (4, c"INTUTIL", c"Integer Activity", PERCENT),
    (5, c"TENSOR", c"Tensor Activity", PERCENT),
    (6, c"DFMAT", c"DFMA Tensor Activity", PERCENT),
    (7, c"HMMAT", c"HMMA Tensor Activity", PERCENT),
    (8, c"DMMAT", c"DMMA Tensor Activity", PERCENT),
    (9, c"IMMAT", c"IMMA Tensor Activity", PERCENT),
    (10, c"DRAMA", c"DRAM Activity", PERCENT),
    (11, c"FP64A", c"FP64 Activity", PERCENT),
    (12, c"FP32A", c"FP32 Activity", PERCENT),
    (13, c"FP16A", c"FP16 Activity", PERCENT),
    (20, c"PCITX", c"PCIe Bytes Sent", RATE),
    (21, c"PCIRX", c"PCIe Bytes Received", RATE),
    (60, c"NVLRX", c"NVLink Bytes Received", RATE),
    (61, c"NVLTX", c"NVLink Bytes Sent", RATE),
];
