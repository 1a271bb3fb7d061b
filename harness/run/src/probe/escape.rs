//! `escape`: routes past the limits that a mechanism sets: other calls, other lookups of the
//! driver's functions, another tenant's memory, and a tenant that drops its environment.
//!
//! Each route that submits work begins in a new process, in which a limiter has no history.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use gpubench_host::mechanism::{Compute, InForce, TenantEnv};
use gpubench_kernels::driver::{AllocKind, LOOKUP_ENV, Lookup};
use gpubench_record::probe::step::{ExportMemory, ImportMemory, LimitBypass};
use gpubench_record::{
    BypassRun, CapCall, CompletedRequests, Condition, EscapeOutcome, EscapeRoute, ProbeFound,
    SubmitRoute, WorkloadSpec,
};

use super::arithmetic::{FullDeviceBaseline, configured_ppm, per_window};
use super::memory::{HOG_PIECES, ROUNDS, allocate, allocate_by, device_bytes, limit, release};
use super::{Flag, NEIGHBOUR, Probe, Run, VICTIM, restart_victim, step};
use crate::RunError;
use crate::tenant_set::TenantSet;

pub(super) const ESCAPE: Probe = Probe {
    name: "escape",
    summary: "does another call, another lookup of the driver's functions or a dropped environment \
              get a tenant past its limits of memory and of compute?",
    sub_axis: "memory/cap",
    flag: Flag::Escape,
    runs: &[Run::AgainstBaseline(|tenants, baseline| Box::pin(escape(tenants, baseline)))],
    ..super::PROBE
};

/// Memory that a neighbour exports.
const EXPORTED_BYTES: u64 = 1 << 30;
/// `CUDA_ERROR_OUT_OF_MEMORY`: the refusal of a limit.
const OUT_OF_MEMORY: i32 = 2;
/// `CUDA_ERROR_NOT_PERMITTED` and `CUDA_ERROR_NOT_SUPPORTED`: the call is not allowed here,
/// whatever the limit.
const NOT_ALLOWED: [i32; 2] = [800, 801];

#[derive(Debug, Clone, Copy)]
struct Limits {
    bytes: Option<u64>,
    share_ppm: Option<u32>,
}

async fn escape(
    tenants: &mut TenantSet,
    baseline: &FullDeviceBaseline,
) -> Result<ProbeFound, RunError> {
    tenants.open_only(VICTIM).await?;
    let (limit_bytes, in_use_bytes) = limit(tenants).await?;
    let limit_ppm = configured_ppm(tenants);
    let mut routes = Vec::new();
    if limit_bytes.is_some() {
        for kind in AllocKind::ALL {
            let allocated = allocate_by(tenants, kind, ROUNDS).await;
            routes.push(of_call(kind.function().to_owned(), allocated)?);
        }
        let imported = import(tenants).await;
        routes.push(unless_refused("cuIpcOpenMemHandle", imported)?);
    }
    if limit_ppm.is_some() {
        for route in SubmitRoute::ALL {
            restart_victim(tenants).await?;
            let found = submitted(tenants, baseline, route, route.as_str()).await;
            routes.push(unless_refused(route.as_str(), found)?);
        }
    }
    // Tenants that are threads share the environment of their process.
    if tenants.config().inside.is_empty() && !routes.is_empty() {
        let limits = Limits { bytes: limit_bytes, share_ppm: limit_ppm };
        let own = tenants.config().environments[VICTIM].clone();
        for lookup in Lookup::ALL {
            let mut variables = own.clone();
            variables.insert(LOOKUP_ENV.into(), lookup.as_str().into());
            let label = format!("functions found by {}", lookup.as_str());
            routes.extend(with_environment(tenants, baseline, &variables, &label, limits).await?);
        }
        for (label, variables) in other_environments(&own, &tenants.config().set_up) {
            routes.extend(with_environment(tenants, baseline, &variables, label, limits).await?);
        }
        if limit_bytes.is_some() {
            let found = second_process(tenants, &own).await;
            routes.push(unless_refused(SECOND, found)?);
        }
        tenants.close().await?;
        tenants.renew(VICTIM).await?;
        tenants.ensure().await?;
    }
    Ok(ProbeFound::Escape { limit_bytes, in_use_bytes, limit_ppm, routes })
}

/// Two processes of one tenant.
const SECOND: &str = "cuMemAlloc, a second process of the tenant";

/// Environments by which a tenant may drop its limits, by their names. What they did on driver
/// 615.71.09 is in the documentation of Dynamo, "Per-GPU Compute and Memory Limits with MPS".
fn other_environments(own: &TenantEnv, set_up: &InForce) -> Vec<(&'static str, TenantEnv)> {
    const PIPES: &str = "CUDA_MPS_PIPE_DIRECTORY";
    const LIMIT: &str = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT";
    /// A device that no tenant sees.
    const OTHER_DEVICE: &str = "63=1G";
    let mut all = Vec::new();
    if own.is_empty() {
        return all;
    }
    all.push(("environment dropped", TenantEnv::new()));
    let Some(daemon) =
        set_up.daemon.as_ref().filter(|_| own.contains_key(PIPES.as_ref() as &OsStr))
    else {
        return all;
    };
    let with = |name: &str, value: OsString| {
        let mut variables = own.clone();
        variables.insert(name.into(), value);
        variables
    };
    let misspelled = daemon.pipes.join("none");
    all.push(("pipe folder misspelled", with(PIPES, misspelled.into())));
    let mut limits = own.get(LIMIT.as_ref() as &OsStr).cloned().unwrap_or_default();
    if !limits.is_empty() {
        limits.push(",");
    }
    limits.push(OTHER_DEVICE);
    all.push(("a limit of another GPU added", with(LIMIT, limits)));
    let server = daemon.server_folder();
    let folder = own.get(PIPES.as_ref() as &OsStr).map(Path::new);
    if folder.and_then(Path::parent) == Some(server.as_path()) {
        all.push(("the server's own namespace", with(PIPES, server.into())));
    }
    all
}

/// Two processes with the environment and the control group of the victim each allocate all that
/// they can.
async fn second_process(tenants: &mut TenantSet, own: &TenantEnv) -> Result<EscapeRoute, RunError> {
    tenants.close().await?;
    tenants.renew(VICTIM).await?;
    tenants.ensure().await?;
    tenants.replace_as(NEIGHBOUR, VICTIM, own).await?;
    tenants.arrange(Condition::C).await?;
    let device_bytes = device_bytes(tenants);
    let first = allocate(tenants, VICTIM, device_bytes, HOG_PIECES).await?;
    let second = allocate(tenants, NEIGHBOUR, device_bytes, HOG_PIECES).await?;
    for slot in [VICTIM, NEIGHBOUR] {
        release(tenants, slot).await?;
    }
    tenants.close().await?;
    tenants.renew(NEIGHBOUR).await?;
    Ok(EscapeRoute {
        route: SECOND.to_owned(),
        outcome: EscapeOutcome::Memory { bytes: (first + second, first + second), rounds: 1 },
        evidence: format!("{first} and {second} bytes"),
    })
}

/// The usual calls of a new tenant with other environment variables.
async fn with_environment(
    tenants: &mut TenantSet,
    baseline: &FullDeviceBaseline,
    variables: &TenantEnv,
    label: &str,
    limits: Limits,
) -> Result<Vec<EscapeRoute>, RunError> {
    tenants.close().await?;
    tenants.replace(VICTIM, variables).await?;
    let name = format!("{}, {label}", AllocKind::Plain.function());
    match tenants.open_only(VICTIM).await {
        Ok(()) => {}
        Err(RunError::Tenant(error)) => return Ok(vec![untried(&name, error.to_string())]),
        Err(other) => return Err(other),
    }
    let observations = tenants.observations();
    let victim = observations.first();
    let file = victim.and_then(|victim| victim.facts.get("allocator_file"));
    let file = file.map_or("an unknown file", String::as_str).to_owned();
    let with_file = |mut route: EscapeRoute| {
        route.evidence = format!("{}; cuMemAlloc_v2 is in {file}", route.evidence);
        route
    };
    let mut routes = Vec::new();
    if limits.bytes.is_some() {
        let allocated = allocate_by(tenants, AllocKind::Plain, ROUNDS).await;
        routes.push(with_file(of_call(name, allocated)?));
    }
    if limits.share_ppm.is_some() {
        let route = SubmitRoute::Launches;
        let name = format!("{}, {label}", route.as_str());
        let found = submitted(tenants, baseline, route, &name).await;
        routes.push(with_file(unless_refused(&name, found)?));
    }
    Ok(routes)
}

/// The victim allocates all that it can and then maps memory that the neighbour exports.
async fn import(tenants: &mut TenantSet) -> Result<EscapeRoute, RunError> {
    tenants.arrange(Condition::C).await?;
    let export = ExportMemory { bytes: EXPORTED_BYTES };
    let handle = step(tenants, NEIGHBOUR, export).await?.handle;
    let device_bytes = device_bytes(tenants);
    let own = allocate(tenants, VICTIM, device_bytes, HOG_PIECES).await?;
    let refused_with = step(tenants, VICTIM, ImportMemory { handle }).await?.refused_with;
    for slot in [VICTIM, NEIGHBOUR] {
        release(tenants, slot).await?;
    }
    tenants.open_only(VICTIM).await?;
    let route = "cuIpcOpenMemHandle";
    let (mapped, result) = match refused_with {
        Some(code) if NOT_ALLOWED.contains(&code) => {
            return Ok(untried(route, format!("refused with {code}")));
        }
        Some(code) => (0, format!("refused with {code}")),
        None => (EXPORTED_BYTES, "mapped".to_owned()),
    };
    Ok(EscapeRoute {
        route: route.to_owned(),
        outcome: EscapeOutcome::Memory { bytes: (own + mapped, own + mapped), rounds: 1 },
        evidence: format!("{EXPORTED_BYTES} bytes of a neighbour were {result}"),
    })
}

/// The route of one call. A call that the driver lacks, or refuses with another code than
/// out-of-memory, counts as untried.
fn of_call(route: String, call: Result<CapCall, RunError>) -> Result<EscapeRoute, RunError> {
    let call = match call {
        Ok(call) => call,
        Err(RunError::Tenant(error)) => return Ok(untried(&route, error.to_string())),
        Err(other) => return Err(other),
    };
    let evidence = match call.refused_with {
        None => "no call was refused".to_owned(),
        Some(code) => format!("refused with {code}"),
    };
    if call.bytes.1 == 0 && call.refused_with != Some(OUT_OF_MEMORY) {
        return Ok(untried(&route, evidence));
    }
    Ok(EscapeRoute {
        route,
        outcome: EscapeOutcome::Memory { bytes: call.bytes, rounds: call.rounds },
        evidence,
    })
}

/// The share that a route reaches: of the device, or, where the mechanism limits time, of what the
/// same route reaches on the device without a mechanism.
async fn submitted(
    tenants: &mut TenantSet,
    baseline: &FullDeviceBaseline,
    route: SubmitRoute,
    name: &str,
) -> Result<EscapeRoute, RunError> {
    let context = tenants.context();
    let limit = tenants.config().mechanism;
    let limit = limit.and_then(|m| m.configuration(&context).compute_limit);
    let limits_time = limit.is_some_and(|limit| limit.of == Compute::Time);
    let reference = if limits_time { route } else { SubmitRoute::Launches };
    let native = baseline.route_rates.iter().find(|native| native.route == reference);
    let Some(native) = native else {
        return Ok(untried(name, "the device alone gave no rate".to_owned()));
    };
    let run = submit(tenants, route, &baseline.spec, WATCH).await?;
    let of = if limits_time { "time" } else { "arithmetic" };
    Ok(EscapeRoute {
        route: name.to_owned(),
        outcome: EscapeOutcome::Compute {
            share_ppm: ppm_of(&rates_per_ns(&run), native.per_ns),
            native_ppm: native.windows_ppm.clone(),
        },
        evidence: format!("{} requests, share of the device's {of}", run.ended_ns.len()),
    })
}

fn untried(route: &str, evidence: String) -> EscapeRoute {
    EscapeRoute { route: route.to_owned(), outcome: EscapeOutcome::Untried, evidence }
}

/// Counts a route as untried where the tenant failed.
fn unless_refused(
    route: &str,
    found: Result<EscapeRoute, RunError>,
) -> Result<EscapeRoute, RunError> {
    match found {
        Err(RunError::Tenant(error)) => Ok(untried(route, error.to_string())),
        other => other,
    }
}

// Work submitted without a pause by one route or another, counted once a limiter has had time to
// act.

/// How long work is submitted by each route, and from when on it counts. A limiter that lets a
/// burst pass has acted by then: HAMi-core samples the utilisation of the last second every 120 ms.
pub const WATCH: Duration = Duration::from_millis(2_400);
const SETTLED: Duration = Duration::from_millis(1_200);
/// Windows of that time: of six values the smallest and the largest bound the median with 97 %.
const WINDOWS: u64 = 6;

/// The rate of a route on the device without a mechanism.
#[derive(Debug, Clone)]
pub struct NativeRate {
    pub route: SubmitRoute,
    pub per_ns: f64,
    /// Each window over the mean, in millionths.
    pub windows_ppm: Vec<u32>,
}

/// The rate of each route on the device without a mechanism; none for a route without work.
pub async fn native(
    tenants: &mut TenantSet,
    spec: &WorkloadSpec,
) -> Result<Vec<NativeRate>, RunError> {
    let mut rates = Vec::new();
    for route in SubmitRoute::ALL {
        let windows = rates_per_ns(&submit(tenants, route, spec, WATCH).await?);
        let per_ns = windows.iter().sum::<f64>() / windows.len().max(1) as f64;
        if per_ns > 0.0 {
            rates.push(NativeRate { route, per_ns, windows_ppm: ppm_of(&windows, per_ns) });
        }
    }
    Ok(rates)
}

pub fn ppm_of(rates: &[f64], whole: f64) -> Vec<u32> {
    let ppm = |rate: &f64| (rate / whole * 1e6).round() as u32;
    rates.iter().map(ppm).collect()
}

/// Has the victim submit work by a route.
pub async fn submit(
    tenants: &mut TenantSet,
    route: SubmitRoute,
    spec: &WorkloadSpec,
    watch: Duration,
) -> Result<BypassRun, RunError> {
    let request = LimitBypass { route, spec: spec.clone(), watch_ns: watch.as_nanos() as u64 };
    step(tenants, VICTIM, request).await
}

/// Work in a nanosecond, window by window, once a limiter has had time to act.
pub fn rates_per_ns(run: &BypassRun) -> Vec<f64> {
    let last = run.ended_ns.last().copied().unwrap_or(0);
    let from = SETTLED.as_nanos() as u64;
    let window_ns = last.saturating_sub(from) / WINDOWS;
    if window_ns == 0 {
        return Vec::new();
    }
    let completed =
        CompletedRequests { host_ns: (0, last), began_ns: 0, ended_ns: run.ended_ns.clone() };
    let series = per_window(&completed, window_ns, (from, last));
    let per_ns = run.work_per_request / 1e3 / window_ns as f64;
    let done = series.milli_requests.iter();
    done.map(|&milli| f64::from(milli) * per_ns).collect()
}

#[cfg(test)]
mod tests {
    use super::{BypassRun, WINDOWS, rates_per_ns};

    #[test]
    fn a_burst_before_the_limiter_acts_does_not_count() {
        let ms = 1_000_000;
        // A hundred requests at once, then one every 50 ms.
        let burst = (1..=100).map(|k| k * ms);
        let later = (1..=60).map(|k| 100 * ms + k * 50 * ms);
        let run = BypassRun {
            work_per_request: 10.0,
            from_ns: 7,
            ended_ns: burst.chain(later).collect(),
        };
        let rates = rates_per_ns(&run);
        assert_eq!(rates.len() as u64, WINDOWS);
        for rate in rates {
            assert!((rate - 10.0 / 50e6).abs() < 1e-9, "{rate}");
        }
        assert!(rates_per_ns(&BypassRun::default()).is_empty());
    }
}
