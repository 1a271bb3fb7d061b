//! Limits of each tenant in the units of the disciplines.

use super::options::EventOptions;
use super::sharing::Width;
use super::token_bucket::Bucket;
use crate::simulate::scenario::Scenario;

/// Speed of each tenant's MIG instance, relative to the whole device.
pub fn slice_speeds(options: &EventOptions, scenario: &Scenario) -> Vec<f64> {
    let of_layout = layout_speeds(options);
    let equal = 1.0 / scenario.slice_service_s(1.0);
    (0..scenario.tenants as usize)
        .map(|tenant| of_layout.get(tenant).copied().unwrap_or(equal))
        .collect()
}

fn layout_speeds(options: &EventOptions) -> Vec<f64> {
    let Ok(table) = options.mig_table() else {
        return Vec::new();
    };
    let speed = |name: &String| table.profile(name).ok().and_then(|p| table.speed(p));
    options.mig.iter().filter_map(speed).collect()
}

/// MPS: SMs that a request of each tenant requests and gets.
pub fn widths(options: &EventOptions, scenario: &Scenario) -> Vec<Width> {
    let equal = options.width.unwrap_or(1.0 / f64::from(scenario.tenants));
    let of_tenant = |index| {
        let change = options.tenant.iter().find(|change| change.index == index);
        let percent = change.and_then(|c| c.mps_percent).unwrap_or(options.mps_percent);
        let width = change.and_then(|c| c.width).unwrap_or(equal);
        Width { wanted: width, granted: width.min(percent / 100.0) }
    };
    (0..scenario.tenants).map(of_tenant).collect()
}

/// HAMi: the token bucket of each tenant.
pub fn buckets(options: &EventOptions, scenario: &Scenario) -> Vec<Bucket> {
    let equal = options.hami_percent.unwrap_or(100.0 / f64::from(scenario.tenants));
    let of_tenant = |index| {
        let change = options.tenant.iter().find(|change| change.index == index);
        let percent = change.and_then(|c| c.hami_percent).unwrap_or(equal);
        let refill_s = options.hami_refill_ms / 1000.0;
        let added_s = refill_s * percent / 100.0;
        let max_s = options.hami_bucket_ms.map_or(added_s, |ms| ms / 1000.0);
        Bucket { refill_s, added_s, max_s }
    };
    (0..scenario.tenants).map(of_tenant).collect()
}
