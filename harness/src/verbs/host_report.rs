//! What this host can do, for `doctor`: device, mechanisms, timers, and the checks of a diagnostic
//! tenant.

use std::time::Duration;

use gpubench_host::device::virtual_gpu::TimeMode;
use gpubench_host::device::{DeviceSelector, monotonic_ns};
use gpubench_host::mechanism;
use gpubench_host::mechanism::HostFacts;
use gpubench_host::mechanism::fitness::Finding;
use gpubench_plan::profile::{Profile, Wanted};
use gpubench_plan::{Availability, Capability};
use gpubench_record::{DeviceIdentity, Verification};
use gpubench_stats::Confidence;
use gpubench_stats::power::mde80;
use gpubench_workloads::timer_selftest::{OVER_NS, Punctuality, Stops, with_stops};
use serde_json::{Value, json};

use super::device_check::{Achieved, Clocks, Spread, check_device};
use super::{DeviceSession, HostOptions, capabilities, host_facts, provenance};
use crate::error::ExpectedError;

/// How long each timer self-test runs.
const SELF_TEST: Duration = Duration::from_secs(1);
/// A check that failed only after so long waited for the driver.
const LATE_NS: u64 = 6_000_000_000;
/// The context of a tenant without a mechanism.
const WHOLE_DEVICE: &str = "whole device";
/// The same while MIG mode is on: the driver chooses the instance.
const FIRST_INSTANCE: &str = "first MIG instance";

/// The timer of a scheduling class, or why it was not measured.
pub type TimerTest = Result<(Stops, Punctuality), String>;

pub struct HostReport {
    /// The device, or why there is none.
    pub device: Result<DeviceIdentity, String>,
    pub mechanisms: Vec<Capability>,
    /// What stands between this host and verdicts, in the order of its effect.
    pub findings: Vec<Finding>,
    /// Processes that computed on the device before the check.
    pub holders: Vec<u32>,
    /// Circumstances of the host that readers of figures must know, one line each.
    pub labels: Vec<String>,
    /// Whether the kernel log can be read; empty without a device.
    pub kernel_log: String,
    /// Defects that a virtual device plants, one line each.
    pub planted: Vec<String>,
    /// Noise that a virtual device plants, one line each.
    pub noise: Vec<String>,
    pub timer: Vec<(&'static str, TimerTest)>,
    /// Each workload with the result of its verification.
    pub verified: Vec<(String, Verification)>,
    /// Rates of the device beside its peaks.
    pub achieved: Vec<Achieved>,
    /// The SM clock under load, or why it is unknown.
    pub clocks: Result<Clocks, String>,
    /// The spread of equal measurements, or why it is unknown.
    pub spread: Result<Spread, String>,
    /// The part of the device that the diagnostic tenant had.
    pub scope: &'static str,
    pub blocks: u32,
    /// Whether the user is root.
    pub root: bool,
}

/// Checks this host. Returns the report with everything found, and the error that limits what can
/// run here, if there is one.
pub fn check_host(
    device: Option<&DeviceSelector>,
    options: &HostOptions,
    profile: &Profile,
    verify: bool,
) -> Result<(HostReport, Option<ExpectedError>), ExpectedError> {
    let begun_ns = monotonic_ns();
    let mut report = HostReport::empty(profile);
    let limit = match DeviceSession::open(device, profile.seed, TimeMode::Virtual) {
        Ok(session) => report.fill(&session, options, profile, verify),
        Err(error @ ExpectedError::Usage { .. }) => return Err(error),
        Err(error) => {
            report.device = Err(error.to_string());
            Some(error)
        }
    };
    // Last, so that no tenant runs beside it.
    for (name, class) in provenance::CLASSES {
        if limit.is_some() && monotonic_ns() - begun_ns > LATE_NS {
            report.timer.push((name, Err("not tested: the driver hangs".to_owned())));
            continue;
        }
        let tested = with_stops(SELF_TEST, class, 1).map_err(|error| error.to_string());
        report.timer.push((name, tested));
    }
    Ok((report, limit))
}

impl HostReport {
    fn empty(profile: &Profile) -> Self {
        Self {
            device: Err(String::new()),
            mechanisms: Vec::new(),
            findings: Vec::new(),
            holders: Vec::new(),
            labels: Vec::new(),
            kernel_log: String::new(),
            planted: Vec::new(),
            noise: Vec::new(),
            timer: Vec::new(),
            verified: Vec::new(),
            achieved: Vec::new(),
            clocks: Err("not sampled".to_owned()),
            spread: Err("there is no device".to_owned()),
            scope: WHOLE_DEVICE,
            blocks: profile.blocks.min,
            root: is_root(),
        }
    }

    fn fill(
        &mut self,
        session: &DeviceSession,
        options: &HostOptions,
        profile: &Profile,
        verify: bool,
    ) -> Option<ExpectedError> {
        let facts = match host_facts::of_session(session, options, profile) {
            Ok(facts) => facts,
            Err(error) => {
                self.device = Ok(session.identity().clone());
                self.spread = Err(error.to_string());
                return Some(error);
            }
        };
        self.findings.clone_from(&facts.findings);
        self.holders.clone_from(&facts.holders);
        self.mechanisms = capabilities(&facts, profile).mechanisms;
        self.labels = host_facts::labels(&facts);
        self.labels.extend(session.memory_on_disk());
        self.kernel_log = host_facts::describe(&host_facts::open(session));
        self.planted = session.planted();
        self.noise = session.noise();
        self.device = Ok(session.identity().clone());
        if facts.mig == Some(true) {
            self.scope = FIRST_INSTANCE;
        }
        self.check(session, &facts, profile, verify)
    }

    /// Checks the device with a diagnostic tenant, where one can have a context.
    fn check(
        &mut self,
        session: &DeviceSession,
        facts: &HostFacts,
        profile: &Profile,
        verify: bool,
    ) -> Option<ExpectedError> {
        let nothing = |reason: String| Some(ExpectedError::NothingRan { reason });
        if let Some(reason) = mechanism::without_context(facts) {
            self.spread = Err(reason.clone());
            let wanted = |one: &&Capability| match &profile.mechanisms {
                Wanted::All => true,
                Wanted::Names(names) => names.contains(&one.variant.mechanism),
            };
            let mut mechanisms = self.mechanisms.iter().filter(wanted);
            let runs = mechanisms.any(|one| one.availability == Availability::Available);
            return match (runs, verify) {
                (true, false) => None,
                (true, true) => nothing(format!("kernels cannot be verified: {reason}")),
                (false, _) => nothing(reason),
            };
        }
        match check_device(session, facts, profile, verify) {
            Ok(found) => {
                // An instance does not have the facts of the device.
                if self.scope == WHOLE_DEVICE {
                    self.device = Ok(found.identity);
                }
                self.verified = found.verified;
                self.achieved = found.achieved;
                self.clocks = found.clocks;
                self.spread = found.spread;
                None
            }
            Err(error) => {
                self.spread = Err(error.to_string());
                Some(error)
            }
        }
    }

    /// Whether this host can give verdicts, and what to fix, in the order of its effect.
    pub fn verdicts(&self, limit: Option<&ExpectedError>) -> Vec<String> {
        let available = |one: &&Capability| one.availability == Availability::Available;
        let count = self.mechanisms.iter().filter(available).count();
        let blocks = self.findings.iter().find(|found| found.blocks);
        let first = match (blocks, limit) {
            (Some(found), _) => format!("this host gives no verdicts: {}", found.what),
            (None, Some(ExpectedError::NothingRan { reason })) => {
                format!("this host gives no verdicts: {reason}")
            }
            (None, Some(error)) => format!("this host gives no verdicts: {error}"),
            (None, None) if !self.holders.is_empty() => format!(
                "this host gives no verdicts while other processes use the GPU: {:?}",
                self.holders
            ),
            (None, None) if count == 0 => {
                "this host gives no verdicts: every mechanism is waived".to_owned()
            }
            (None, None) => format!(
                "this host can give verdicts: {count} of {} mechanisms are available",
                self.mechanisms.len()
            ),
        };
        let to_fix = self.findings.iter().enumerate().map(|(at, found)| {
            let remedy = found.remedy.as_ref().map(|remedy| format!(" ({remedy})"));
            format!("{}. {}{}", at + 1, found.what, remedy.unwrap_or_default())
        });
        std::iter::once(first).chain(to_fix).collect()
    }

    /// The smallest change of a rate that the profile's blocks find with 80 % power, as a
    /// logarithm.
    pub fn detectable_effect(&self) -> Result<(&Spread, f64), String> {
        let spread = self.spread.as_ref().map_err(Clone::clone)?;
        let effect = mde80(spread.sd_log, self.blocks, Confidence::P95);
        Ok((spread, effect.map_err(|error| error.to_string())?))
    }
}

/// Whether this process runs as root.
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0)
}

// The host report as JSON, for programs.

pub fn to_json(report: &HostReport, limit: Option<&ExpectedError>) -> Value {
    let timer: Vec<Value> = report
        .timer
        .iter()
        .map(|(class, tested)| match tested {
            Ok((stops, p)) => json!({
                "scheduling": class, "wakes": p.wakes, "guard_ns": p.guard_ns, "p50_ns": p.p50_ns,
                "p99_ns": p.p99_ns, "p999_ns": p.p999_ns, "max_ns": p.max_ns,
                "late": { "over_ns": OVER_NS, "overslept": p.overslept, "stopped": p.stopped },
                "spinning": {
                    "stops_per_s": stops.per_s(), "stopped_share": stops.share(),
                    "longest_stop_ns": stops.longest_ns,
                },
            }),
            Err(reason) => json!({ "scheduling": class, "outcome": "waived", "reason": reason }),
        })
        .collect();
    let verified: Value = report
        .verified
        .iter()
        .map(|(name, found)| (name.clone(), json!(found.to_string())))
        .collect();
    let achieved: Vec<Value> = report.achieved.iter().map(achieved_json).collect();
    let effect = match report.detectable_effect() {
        Ok((spread, effect_log)) => json!({
            "mde80_ratio": effect_log.exp() - 1.0, "blocks": report.blocks,
            "sd_log": spread.sd_log, "pairs": spread.pairs, "loop_ns": spread.loop_ns,
            "victim": spread.victim,
        }),
        Err(reason) => json!({ "outcome": "inconclusive", "reason": reason }),
    };
    json!({
        "verdicts": report.verdicts(limit).first(),
        "findings": report.findings,
        "scope": report.scope,
        "device": report.device.as_ref().ok(),
        "no_device": report.device.as_ref().err(),
        "root": report.root,
        "mechanisms": report.mechanisms,
        "labels": report.labels,
        "kernel_log": report.kernel_log,
        "planted": report.planted,
        "noise": report.noise,
        "timer_lateness_at_1_khz": timer,
        "achieved": achieved,
        "clocks": match &report.clocks {
            Ok(clocks) => clocks.as_json(),
            Err(reason) => json!({ "verdict": "unknown", "text": reason }),
        },
        "detectable_effect": effect,
        "kernels": verified,
    })
}

fn achieved_json(one: &Achieved) -> Value {
    let share = one.per_s.as_ref().ok().zip(one.peak_per_s.as_ref().ok());
    json!({
        "name": one.name, "unit": one.unit,
        "achieved_per_s": one.per_s.as_ref().ok(), "not_achieved": one.per_s.as_ref().err(),
        "peak_per_s": one.peak_per_s.as_ref().ok(), "no_peak": one.peak_per_s.as_ref().err(),
        "share_of_peak": share.map(|(achieved, peak)| achieved / peak),
    })
}
