//! Ways past the limits that a mechanism sets: other calls, other ways to the driver's functions,
//! another tenant's memory, and a tenant that drops its environment.
//!
//! Each way to submit work begins in a fresh process, so that no limiter remembers the last one.
//! Nothing is judged here.

use gpubench_kernels::driver::{AllocKind, LOOKUP_ENV, Lookup};
use gpubench_record::{
    BypassWay, CapCall, Condition, EscapeGot, EscapeWay, ProbeAsk, ProbeFound, ProbeTold,
};

use super::limit_bypass::{WATCH, rates_per_ns, submit};
use super::memory::HOG_PIECES;
use super::memory_limit::{allocate_to_limit, allocation, device_bytes, limit, obtained, release};
use super::share::{FullDeviceBaseline, configured_ppm};
use super::{NEIGHBOUR, VICTIM, fresh, step, unexpected};
use crate::mechanism::{Compute, TenantEnv};
use crate::run::RunError;
use crate::run::tenant_set::TenantSet;

/// What a neighbour gives away.
const GIVEN_BYTES: u64 = 1 << 30;
/// `CUDA_ERROR_OUT_OF_MEMORY`: the refusal that a limit gives; and the two that say that the
/// call is not allowed here, whatever the limit: `CUDA_ERROR_NOT_PERMITTED` and
/// `CUDA_ERROR_NOT_SUPPORTED`.
const OUT_OF_MEMORY: i32 = 2;
const NOT_ALLOWED: [i32; 2] = [800, 801];

/// Tries every way.
pub async fn escape(
    tenants: &mut TenantSet,
    baseline: &FullDeviceBaseline,
) -> Result<ProbeFound, RunError> {
    tenants.open_only(VICTIM).await?;
    let (limit_bytes, in_use_bytes) = limit(tenants).await?;
    let limit_ppm = configured_ppm(tenants);
    let mut ways = Vec::new();
    if limit_bytes.is_some() {
        for kind in AllocKind::ALL {
            let got = obtained(tenants, kind).await;
            ways.push(by_call(kind.function().to_owned(), got)?);
        }
        ways.push(unless_refused("cuIpcOpenMemHandle", import(tenants).await)?);
    }
    if limit_ppm.is_some() {
        for way in BypassWay::ALL {
            fresh(tenants).await?;
            let got = submitted(tenants, baseline, way, way.as_str()).await;
            ways.push(unless_refused(way.as_str(), got)?);
        }
    }
    // Tenants that are threads share their process's environment.
    if tenants.config().inside.is_empty() && !ways.is_empty() {
        let config = tenants.config().environments[VICTIM].clone();
        for lookup in Lookup::ALL {
            let mut variables = config.clone();
            variables.insert(LOOKUP_ENV.into(), lookup.as_str().into());
            let how = format!("functions found by {}", lookup.as_str());
            let limits = (limit_bytes, limit_ppm);
            ways.extend(elsewhere(tenants, baseline, &variables, &how, limits).await?);
        }
        if !config.is_empty() {
            let none = TenantEnv::new();
            let how = "environment dropped";
            let limits = (limit_bytes, limit_ppm);
            ways.extend(elsewhere(tenants, baseline, &none, how, limits).await?);
        }
        tenants.close().await?;
        tenants.renew(VICTIM).await?;
        tenants.ensure().await?;
    }
    Ok(ProbeFound::Escape {
        limit_bytes,
        in_use_bytes,
        limit_ppm,
        ways,
    })
}

/// The usual calls of a fresh tenant that has come by other variables.
async fn elsewhere(
    tenants: &mut TenantSet,
    baseline: &FullDeviceBaseline,
    variables: &TenantEnv,
    how: &str,
    (limit_bytes, limit_ppm): (Option<u64>, Option<u32>),
) -> Result<Vec<EscapeWay>, RunError> {
    let mut ways = Vec::new();
    tenants.close().await?;
    tenants.replace(VICTIM, variables).await?;
    let way = format!("{}, {how}", AllocKind::Plain.function());
    match tenants.open_only(VICTIM).await {
        Ok(()) => {}
        Err(RunError::Tenant(error)) => {
            ways.push(untried(&way, error.to_string()));
            return Ok(ways);
        }
        Err(other) => return Err(other),
    }
    let told = tenants.observations();
    let file = told
        .first()
        .and_then(|told| told.facts.get("allocator_file"));
    let file = file.map_or("an unknown file", String::as_str).to_owned();
    let answers = |mut way: EscapeWay| {
        way.evidence = format!("{}; cuMemAlloc_v2 is in {file}", way.evidence);
        way
    };
    if limit_bytes.is_some() {
        let got = obtained(tenants, AllocKind::Plain).await;
        ways.push(answers(by_call(way, got)?));
    }
    if limit_ppm.is_some() {
        let way = format!("{}, {how}", BypassWay::Launches.as_str());
        let got = submitted(tenants, baseline, BypassWay::Launches, &way).await;
        ways.push(answers(unless_refused(&way, got)?));
    }
    Ok(ways)
}

/// The victim takes all that it gets and then maps what the neighbour gives away.
async fn import(tenants: &mut TenantSet) -> Result<EscapeWay, RunError> {
    tenants.arrange(Condition::C).await?;
    let handle = match step(tenants, NEIGHBOUR, ProbeAsk::Export { bytes: GIVEN_BYTES }).await? {
        ProbeTold::Exported { handle } => handle,
        other => return Err(unexpected(tenants, NEIGHBOUR, other)),
    };
    let all = device_bytes(tenants);
    let (own, _) = allocate_to_limit(tenants, VICTIM, allocation(all, HOG_PIECES)).await?;
    let mapped = match step(tenants, VICTIM, ProbeAsk::Import { handle }).await? {
        ProbeTold::Imported { refused_with } => refused_with,
        other => return Err(unexpected(tenants, VICTIM, other)),
    };
    for slot in [VICTIM, NEIGHBOUR] {
        release(tenants, slot).await?;
    }
    tenants.open_only(VICTIM).await?;
    let way = "cuIpcOpenMemHandle";
    Ok(match mapped {
        Some(code) if NOT_ALLOWED.contains(&code) => untried(way, format!("refused with {code}")),
        refused => {
            let more = if refused.is_none() { GIVEN_BYTES } else { 0 };
            let what = refused.map_or_else(
                || "mapped".to_owned(),
                |code| format!("refused with {code}"),
            );
            EscapeWay {
                way: way.to_owned(),
                got: EscapeGot::Memory {
                    bytes: (own + more, own + more),
                    rounds: 1,
                },
                evidence: format!("{GIVEN_BYTES} bytes of a neighbour were {what}"),
            }
        }
    })
}

/// What was taken by a call; a call that the driver has not, or refuses for another reason than
/// want of memory, was not tried.
fn by_call(way: String, got: Result<CapCall, RunError>) -> Result<EscapeWay, RunError> {
    let call = match got {
        Ok(call) => call,
        Err(RunError::Tenant(error)) => return Ok(untried(&way, error.to_string())),
        Err(other) => return Err(other),
    };
    let evidence = match call.refused_with {
        None => "no call was refused".to_owned(),
        Some(code) => format!("refused with {code}"),
    };
    if call.bytes.1 == 0 && call.refused_with != Some(OUT_OF_MEMORY) {
        return Ok(untried(&way, evidence));
    }
    Ok(EscapeWay {
        way,
        got: EscapeGot::Memory {
            bytes: call.bytes,
            rounds: call.rounds,
        },
        evidence,
    })
}

/// The share that a way gets: of the device, or of what the same way gets on the device alone
/// where the mechanism limits time.
async fn submitted(
    tenants: &mut TenantSet,
    baseline: &FullDeviceBaseline,
    way: BypassWay,
    name: &str,
) -> Result<EscapeWay, RunError> {
    let asked = tenants.handles().setup.host.asked();
    let limit = tenants.config().mechanism;
    let limit = limit.and_then(|m| m.configuration(&asked).compute_limit);
    let limits_time = limit.is_some_and(|limit| limit.of == Compute::Time);
    let reference = if limits_time {
        way
    } else {
        BypassWay::Launches
    };
    let native = baseline
        .bypass_rates
        .iter()
        .find(|(known, _)| *known == reference);
    let Some(native) = native.map(|(_, rate)| *rate).filter(|rate| *rate > 0.0) else {
        return Ok(untried(name, "the device alone gave no rate".to_owned()));
    };
    let launched = submit(tenants, way, &baseline.spec, WATCH).await?;
    let shares = rates_per_ns(&launched);
    let share_ppm = shares
        .iter()
        .map(|rate| (rate / native * 1e6).round() as u32);
    let of = if limits_time { "time" } else { "arithmetic" };
    Ok(EscapeWay {
        way: name.to_owned(),
        got: EscapeGot::Compute {
            share_ppm: share_ppm.collect(),
        },
        evidence: format!(
            "{} requests, share of the device's {of}",
            launched.ended_ns.len()
        ),
    })
}

fn untried(way: &str, evidence: String) -> EscapeWay {
    EscapeWay {
        way: way.to_owned(),
        got: EscapeGot::Untried,
        evidence,
    }
}

/// What a tenant could not do was not tried.
fn unless_refused(way: &str, got: Result<EscapeWay, RunError>) -> Result<EscapeWay, RunError> {
    match got {
        Err(RunError::Tenant(error)) => Ok(untried(way, error.to_string())),
        other => other,
    }
}
