//! GPM metrics with results instead of output structures.

use std::ptr::null;

use crate::driver_support::call;
use gpubench_virtual_gpu_abi::nvml::calls::nvmlGpmMetricsGet;
use gpubench_virtual_gpu_abi::nvml::gpm::{GpmMetric, GpmMetricsGet, METRICS};
use gpubench_virtual_gpu_driver::handles::Handle;

/// These metrics between two samples, each with its own code and value, or the code of the call.
pub fn metrics(pair: [Handle; 2], ids: &[u32]) -> Result<Vec<(i32, f64)>, i32> {
    let [first, second] = pair;
    let nothing = GpmMetric {
        metric_id: 0,
        result: 9,
        value: -1.0,
        short_name: null(),
        long_name: null(),
        unit: null(),
    };
    let mut get = Box::new(GpmMetricsGet {
        version: 1,
        count: ids.len() as u32,
        first,
        second,
        metrics: [nothing; METRICS],
    });
    for (metric, id) in get.metrics.iter_mut().zip(ids) {
        metric.metric_id = *id;
    }
    match call!(nvmlGpmMetricsGet(&raw mut *get)) {
        0 => Ok(get.metrics[..ids.len()].iter().map(|m| (m.result, m.value)).collect()),
        code => Err(code),
    }
}
