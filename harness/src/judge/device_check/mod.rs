//! What a tenant of its own finds out for `doctor`: facts from inside a context, checks of the
//! kernels, rates to hold against the device's peak, and how far equal measurements differ.

mod clocks;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gpubench_record::wire::Participants;
use gpubench_record::{
    DeviceIdentity, FromTenant, LoadSpec, TelemetryRow, ToTenant, Verification, WorkloadSpec,
};
use gpubench_workloads::log::read_log;

use super::DeviceSession;
use crate::device::Nvml;
use crate::error::ExpectedError;
use crate::gate::closed_rate_per_s;
use crate::profile::Profile;
use crate::run::sampler::{SAMPLER, Sampled, Sampler, Times};
use crate::run::{RunClock, participants_of};
use crate::tenant::{Spawner, Tenant};
pub use clocks::Clocks;

/// Longest wait for a tenant's answer.
const ANSWER: Duration = Duration::from_secs(120);
/// Requests of a canary in those of the profile's victims: launches then cost next to nothing.
const LONGER: u64 = 4;
/// Pairs of equal measurements.
const PAIRS: u32 = 8;
/// Parts of one of them. Short, so that `doctor` is quick; longer cells differ less.
const WARMUP_NS: u64 = 30_000_000;
const LOOP_NS: u64 = 150_000_000;
/// The workload beside which the clocks are looked at, and how often.
const FULL_LOAD: &str = "fma-hog";
const LOOK_NS: u64 = 10_000_000;
/// The victim whose rate is measured twice.
const VICTIM: &str = "compute";

/// Everything that was found out.
pub struct Examined {
    /// The device, completed from inside a context.
    pub identity: DeviceIdentity,
    /// Each workload with the result of its check; empty if none was asked for.
    pub verified: Vec<(String, Verification)>,
    /// Rates of the whole device.
    pub achieved: Vec<Achieved>,
    /// Clocks under full load, or why they are not known.
    pub clocks: Result<Clocks, String>,
    /// How far equal measurements differ, or why that is not known.
    pub spread: Result<Spread, String>,
}

/// One rate of the whole device and what it could be.
pub struct Achieved {
    /// `copy` or `FMA`.
    pub name: &'static str,
    /// What was reached, or why nothing.
    pub per_s: Result<f64, String>,
    /// The peak by the maximal clocks and the widths that NVML tells, or why there is none.
    pub peak_per_s: Result<f64, String>,
    /// Unit of the work.
    pub unit: &'static str,
}

/// How far the two halves of an A/A pair lie apart.
pub struct Spread {
    /// Pairs measured.
    pub pairs: u32,
    /// Standard deviation of the logarithm of their ratio.
    pub sd_log: f64,
    /// Length of one measurement.
    pub loop_ns: u64,
    /// What was measured.
    pub victim: &'static str,
}

/// Starts a tenant and has it find out.
///
/// # Errors
/// When no tenant can be started or open the device.
pub fn examine(
    session: &DeviceSession,
    profile: &Profile,
    verify: bool,
) -> Result<Examined, ExpectedError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| internal(&format!("event loop: {error}")))?;
    runtime.block_on(async {
        let spawner = Spawner::new(session.environment()).map_err(|e| internal(&e))?;
        let participants = participants_of(0);
        let none = BTreeMap::new();
        let tenant = spawner
            .spawn("probe", participants, &none)
            .await
            .map_err(|e| nothing(&e))?;
        let mut probe = Probe {
            tenant,
            participants,
            clock: session.clock(),
        };
        let found = look(&mut probe, session, profile, verify).await;
        probe.tenant.stop().await;
        found
    })
}

async fn look(
    probe: &mut Probe,
    session: &DeviceSession,
    profile: &Profile,
    verify: bool,
) -> Result<Examined, ExpectedError> {
    let mut identity = session.identity().clone();
    let open = ToTenant::Open {
        ordinal: 0,
        // As the victims of a run wait.
        spin: true,
        participants: probe.participants,
        inside: None,
    };
    if let FromTenant::Opened { facts } = probe.ask(&open).await.map_err(|e| nothing(&e))? {
        crate::device::identity::complete(&mut identity, &facts);
    }
    let mut verified = Vec::new();
    if verify {
        let workloads = gpubench_workloads::load::CATALOGUE
            .iter()
            .map(|workload| workload.name.to_owned())
            .collect();
        let answer = probe.ask(&ToTenant::Verify { workloads }).await;
        if let FromTenant::Verified { results } = answer.map_err(|e| nothing(&e))? {
            verified.extend(results);
        }
    }
    let achieved = achieved(probe, &session.nvml(), profile.service.ns).await;
    let clocks = clocks(probe, &session.nvml(), profile.service.ns).await;
    let spread = spread(probe, profile).await;
    probe.ask(&ToTenant::Close).await.map_err(|e| nothing(&e))?;
    Ok(Examined {
        identity,
        verified,
        achieved,
        clocks,
        spread,
    })
}

/// The clocks beside a loop that keeps every SM at work.
async fn clocks(probe: &mut Probe, nvml: &Arc<Nvml>, service_ns: u64) -> Result<Clocks, String> {
    let found = probe.calibrate(FULL_LOAD, 1.0, LONGER * service_ns).await?;
    let folder = Scratch::new()?;
    probe.prepare(&found, &folder.0.join("clocks")).await?;
    Clocks::seen(nvml, &probe.go(Some(nvml)).await?)
}

/// The full-device canaries of memory and arithmetic.
async fn achieved(probe: &mut Probe, nvml: &Nvml, service_ns: u64) -> Vec<Achieved> {
    let told = |error: nvml_wrapper::error::NvmlError| error.to_string();
    let mut out = Vec::new();
    for (name, workload, peak_per_s, unit) in [
        ("copy", "dram-copy", nvml.memory_peak_bytes_per_s(), "bytes"),
        ("FMA", FULL_LOAD, nvml.fp32_peak_flops_per_s(), "operations"),
    ] {
        let found = probe.calibrate(workload, 1.0, LONGER * service_ns).await;
        out.push(Achieved {
            name,
            per_s: found.map(|found| found.rate_per_s * found.work_per_request),
            peak_per_s: peak_per_s.map_err(told),
            unit,
        });
    }
    out
}

/// The same closed loop twice, pair after pair, the second half of the pairs in reverse.
async fn spread(probe: &mut Probe, profile: &Profile) -> Result<Spread, String> {
    let found = probe
        .calibrate(VICTIM, profile.share.value(), profile.service.ns)
        .await?;
    let folder = Scratch::new()?;
    let mut logs = Vec::new();
    for pair in 0..PAIRS {
        let mut rates = [0.0; 2];
        for (half, rate) in rates.iter_mut().enumerate() {
            let log = folder.0.join(format!("{pair}-{half}"));
            *rate = probe.closed_loop(&found, log).await?;
        }
        logs.push((rates[1] / rates[0]).ln());
    }
    let mean = logs.iter().sum::<f64>() / f64::from(PAIRS);
    let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
    Ok(Spread {
        pairs: PAIRS,
        sd_log: (squares / f64::from(PAIRS - 1)).sqrt(),
        loop_ns: LOOP_NS,
        victim: VICTIM,
    })
}

/// A calibrated workload.
struct Found {
    spec: WorkloadSpec,
    rate_per_s: f64,
    work_per_request: f64,
}

/// The tenant.
struct Probe {
    tenant: Tenant,
    participants: Participants,
    clock: RunClock,
}

impl Probe {
    async fn ask(&mut self, message: &ToTenant) -> Result<FromTenant, String> {
        let told = |error: &dyn std::fmt::Display| error.to_string();
        self.clock
            .expect(self.participants.issuer)
            .map_err(|e| told(&e))?;
        self.exchange(message).await
    }

    /// Tells the tenant, whose participants are announced, and waits for its answer.
    async fn exchange(&mut self, message: &ToTenant) -> Result<FromTenant, String> {
        let told = |error: &dyn std::fmt::Display| error.to_string();
        self.tenant.send(message).await.map_err(|e| told(&e))?;
        let answer = self.tenant.receive("looking", ANSWER).await;
        // One that answered without touching the device never joined.
        self.clock
            .abandon(self.participants)
            .map_err(|e| told(&e))?;
        answer.map_err(|e| told(&e))
    }

    async fn calibrate(
        &mut self,
        workload: &str,
        share: f64,
        service_ns: u64,
    ) -> Result<Found, String> {
        let message = ToTenant::Calibrate {
            workload: workload.to_owned(),
            share,
            service_ns,
        };
        match self.ask(&message).await? {
            FromTenant::Calibrated {
                spec,
                rate_per_s,
                work_per_request,
                ..
            } => Ok(Found {
                spec,
                rate_per_s,
                work_per_request,
            }),
            other => Err(format!("calibrating was answered with {other:?}")),
        }
    }

    /// One closed loop; its rate.
    async fn closed_loop(&mut self, found: &Found, log: PathBuf) -> Result<f64, String> {
        self.prepare(found, &log).await?;
        self.go(None).await?;
        let contents = read_log(&log).map_err(|error| error.to_string())?;
        closed_rate_per_s(&contents.rows).ok_or_else(|| {
            let ms = LOOP_NS / 1_000_000;
            format!("a closed loop of {ms} ms completed too few requests for a rate")
        })
    }

    /// Has the tenant do what it prepared; what NVML told meanwhile, if it was to be asked.
    async fn go(&mut self, asked: Option<&Arc<Nvml>>) -> Result<Vec<TelemetryRow>, String> {
        // All are announced before any begins, or time would go on without the others.
        let sampler = asked.map(|_| SAMPLER);
        let own = [self.participants.issuer, self.participants.reaper];
        for id in own.into_iter().chain(sampler) {
            self.clock.expect(id).map_err(|error| error.to_string())?;
        }
        let t0_ns = self.clock.start_ns();
        let times = Times {
            t0_ns: t0_ns + WARMUP_NS,
            length_ns: LOOP_NS,
            period_ns: LOOK_NS,
        };
        let sampler = asked.map(|nvml| Sampler::start(&self.clock, nvml, "doctor", times));
        let answer = self.exchange(&ToTenant::Go { t0_ns }).await;
        let sampled = match sampler {
            Some(sampler) => sampler.map_err(|e| e.to_string())?.finish().await,
            None => Sampled::default(),
        };
        match (answer?, sampled.failure) {
            (FromTenant::Done { .. }, None) => Ok(sampled.rows),
            (FromTenant::Done { .. }, Some(failure)) => Err(failure),
            (other, _) => Err(format!("a closed loop was answered with {other:?}")),
        }
    }

    async fn prepare(&mut self, found: &Found, log: &Path) -> Result<(), String> {
        let closed_end_ns = WARMUP_NS + LOOP_NS;
        let seconds = closed_end_ns as f64 / 1e9;
        let load = LoadSpec::Victim {
            warmup_end_ns: WARMUP_NS,
            closed_end_ns,
            // No open loop: it begins and ends here.
            open_start_ns: closed_end_ns,
            open_end_ns: closed_end_ns,
            rate_per_s: found.rate_per_s,
            bursts: None,
            seed: 1,
            outstanding_max: 1,
        };
        let message = ToTenant::Prepare {
            cell: "doctor".to_owned(),
            workload: Some(found.spec.clone()),
            load,
            log: log.display().to_string(),
            capacity_rows: (found.rate_per_s * seconds * 2.0) as u64 + 4096,
            cpu: None,
        };
        self.ask(&message).await.map(|_| ())
    }
}

/// A folder for the logs of the closed loops, there until dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("gpubench-doctor-{}", std::process::id()));
        std::fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Litter in a temporary folder is no failure of the verb.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn internal(what: &dyn std::fmt::Display) -> ExpectedError {
    ExpectedError::Internal {
        what: what.to_string(),
    }
}

fn nothing(error: &dyn std::fmt::Display) -> ExpectedError {
    ExpectedError::NothingRan {
        reason: error.to_string(),
    }
}
