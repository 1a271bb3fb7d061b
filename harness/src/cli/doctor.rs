//! `gpubench doctor`: what this host can do, before anything is measured on it.

use std::time::Duration;

use gpubench_record::{DeviceIdentity, ExitCode, Verification};
use gpubench_stats::Confidence;
use gpubench_stats::power::mde80;
use gpubench_virtual_gpu::session::TimeMode;
use gpubench_workloads::timer_selftest::{OVER_NS, Punctuality, punctuality};
use serde_json::{Value, json};

use super::common::{DeviceFlag, ProfileFlags, TextFormat, exit_codes_help};
use super::ui::{Ui, table};
use crate::error::ExpectedError;
use crate::judge::device_check::{Achieved, Clocks, Spread, examine};
use crate::judge::{DeviceSession, capabilities, host_facts, kernel_log, timer};
use crate::mechanism::{self, HostFacts};
use crate::plan::{Availability, Capability};
use crate::profile::Profile;

/// How long each timer self-test runs.
const SELF_TEST: Duration = Duration::from_secs(1);
/// Says what this host can do: device, mechanisms, timer
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit_codes_help(&[
    ExitCode::Done, ExitCode::Internal, ExitCode::Usage, ExitCode::NothingRan,
    ExitCode::OutputFailed,
]))]
pub struct Args {
    #[command(flatten)]
    device: DeviceFlag,
    #[command(flatten)]
    profile: ProfileFlags,
    /// Run every workload's check of its kernels on the device
    #[arg(long)]
    verify: bool,
    /// How to print it
    #[arg(long, value_enum, default_value = "table")]
    format: TextFormat,
}

/// What was found out.
struct Findings {
    device: Result<DeviceIdentity, String>,
    mechanisms: Vec<Capability>,
    /// Circumstances that no mechanism decides, one line each.
    labels: Vec<String>,
    /// Whether the kernel's log can be read.
    kernel_log: String,
    /// Defects that a virtual device plants, one line each.
    planted: Vec<String>,
    /// Noise that it plants, likewise.
    noise: Vec<String>,
    timer: Vec<(&'static str, Result<Punctuality, String>)>,
    verified: Vec<(String, Verification)>,
    achieved: Vec<Achieved>,
    clocks: Result<Clocks, String>,
    /// Spread of equal measurements, and the blocks of the profile.
    spread: Result<Spread, String>,
    /// Of what the tenant that looked had a context.
    looked_at: &'static str,
    blocks: u32,
    root: bool,
}

/// What a tenant without any mechanism has.
const WHOLE_DEVICE: &str = "whole device";
/// What it has while MIG mode is on: the driver's choice.
const FIRST_INSTANCE: &str = "first MIG instance";

impl Findings {
    /// Has a tenant of its own look, where one can have a context; what of this leaves the host
    /// unfit, if anything does. Whatever was found out before is told all the same.
    fn look(
        &mut self,
        session: &DeviceSession,
        facts: &HostFacts,
        profile: &Profile,
        verify: bool,
    ) -> Option<ExpectedError> {
        let nothing = |reason: String| Some(ExpectedError::NothingRan { reason });
        if let Some(reason) = mechanism::without_context(facts) {
            self.spread = Err(reason.clone());
            let mut mechanisms = self.mechanisms.iter();
            let runs = mechanisms.any(|one| one.availability == Availability::Available);
            return match (runs, verify) {
                (true, false) => None,
                (true, true) => nothing(format!("kernels cannot be checked: {reason}")),
                (false, _) => nothing(reason),
            };
        }
        match examine(session, profile, verify) {
            Ok(found) => {
                // What an instance has is not what the device has.
                if self.looked_at == WHOLE_DEVICE {
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
}

/// Looks and tells. Without a device it tells what is there and ends with status 3.
///
/// # Errors
/// When the profile is wrong, or the output cannot be written.
pub fn run(args: &Args, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let profile = args.profile.load()?;
    let opened = DeviceSession::open(args.device.device.as_ref(), profile.seed, TimeMode::Virtual);
    let mut findings = Findings {
        device: Err(String::new()),
        mechanisms: Vec::new(),
        labels: Vec::new(),
        kernel_log: String::new(),
        planted: Vec::new(),
        noise: Vec::new(),
        timer: Vec::new(),
        verified: Vec::new(),
        achieved: Vec::new(),
        clocks: Err("nobody looked".to_owned()),
        spread: Err("there is no device".to_owned()),
        looked_at: WHOLE_DEVICE,
        blocks: profile.blocks.min,
        root: is_root(),
    };
    let wrong = match opened {
        Ok(session) => {
            let facts = host_facts::of_session(&session, &args.profile.host_options(), &profile);
            findings.mechanisms = capabilities(&facts, &profile).mechanisms;
            findings.labels = host_facts::labels(&facts);
            findings.kernel_log = kernel_log::describe(&kernel_log::open(&session));
            findings.planted = session.planted();
            findings.noise = session.noise();
            findings.device = Ok(session.identity().clone());
            if facts.mig == Some(true) {
                findings.looked_at = FIRST_INSTANCE;
            }
            findings.look(&session, &facts, &profile, args.verify)
        }
        Err(error @ ExpectedError::Usage { .. }) => return Err(error),
        Err(error) => {
            findings.device = Err(error.to_string());
            Some(error)
        }
    };
    for (name, class) in timer::CLASSES {
        let tested = punctuality(SELF_TEST, class, 1).map_err(|error| error.to_string());
        findings.timer.push((name, tested));
    }
    let text = match args.format {
        TextFormat::Json => {
            let text = serde_json::to_string_pretty(&as_json(&findings));
            text.map_err(|error| ExpectedError::Internal {
                what: error.to_string(),
            })? + "\n"
        }
        TextFormat::Table => as_text(&findings),
    };
    ui.print(&text)?;
    if findings
        .verified
        .iter()
        .any(|(_, found)| matches!(found, Verification::Failed { .. }))
    {
        return Err(ExpectedError::NothingRan {
            reason: "kernels give wrong results on this device".to_owned(),
        });
    }
    wrong.map_or(Ok(ExitCode::Done), Err)
}

/// Whether this process may change device settings, as far as its user decides that.
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0)
}

fn as_json(findings: &Findings) -> Value {
    let timer: Vec<Value> = findings
        .timer
        .iter()
        .map(|(class, tested)| match tested {
            Ok(p) => json!({
                "scheduling": class, "wakes": p.wakes, "guard_ns": p.guard_ns, "p50_ns": p.p50_ns,
                "p99_ns": p.p99_ns, "p999_ns": p.p999_ns, "max_ns": p.max_ns,
                "late": { "over_ns": OVER_NS, "overslept": p.overslept, "stopped": p.stopped },
                "spinning": {
                    "stops_per_s": p.stops.per_s(), "stopped_share": p.stops.share(),
                    "longest_stop_ns": p.stops.longest_ns,
                },
            }),
            Err(reason) => json!({ "scheduling": class, "outcome": "waived", "reason": reason }),
        })
        .collect();
    let verified: Value = findings
        .verified
        .iter()
        .map(|(name, found)| (name.clone(), json!(found.to_string())))
        .collect();
    let achieved: Vec<Value> = findings.achieved.iter().map(achieved_json).collect();
    let effect = match detectable(findings) {
        Ok((spread, effect_log)) => json!({
            "mde80_ratio": effect_log.exp() - 1.0, "blocks": findings.blocks,
            "sd_log": spread.sd_log, "pairs": spread.pairs, "loop_ns": spread.loop_ns,
            "victim": spread.victim,
        }),
        Err(reason) => json!({ "outcome": "inconclusive", "reason": reason }),
    };
    json!({
        "looked_at": findings.looked_at,
        "device": findings.device.as_ref().ok(),
        "no_device": findings.device.as_ref().err(),
        "root": findings.root,
        "mechanisms": findings.mechanisms,
        "labels": findings.labels,
        "kernel_log": findings.kernel_log,
        "planted": findings.planted,
        "noise": findings.noise,
        "timer_lateness_at_1_khz": timer,
        "achieved": achieved,
        "clocks": match &findings.clocks {
            Ok(clocks) => clocks.as_json(),
            Err(reason) => json!({ "verdict": "unknown", "told": reason }),
        },
        "detectable_effect": effect,
        "kernels": verified,
    })
}

/// The device and what is known of it.
fn device_text(findings: &Findings) -> String {
    match &findings.device {
        Ok(device) => {
            let mut rows = vec![
                [
                    "kind".to_owned(),
                    format!("{:?}", device.kind).to_lowercase(),
                ],
                ["name".to_owned(), device.name.clone()],
                ["uuid".to_owned(), device.uuid.clone()],
                ["driver".to_owned(), device.driver.clone()],
                ["CUDA".to_owned(), device.cuda.clone()],
                [
                    "compute capability".to_owned(),
                    device.compute_capability.clone(),
                ],
                ["SMs".to_owned(), or_unknown(device.sm_count.into(), "")],
                ["memory".to_owned(), format!("{} MiB", device.memory_mib)],
                ["L2".to_owned(), or_unknown(device.l2_kib, " KiB")],
            ];
            rows.extend(
                device
                    .facts
                    .iter()
                    .map(|(name, fact)| [name.clone(), fact.clone()]),
            );
            table(["device", ""], &rows)
        }
        Err(reason) => format!("device: none ({reason})\n"),
    }
}

/// A figure that only a tenant with the whole device can tell.
fn or_unknown(figure: u64, unit: &str) -> String {
    match figure {
        0 => "unknown: nobody could have the whole device".to_owned(),
        known => format!("{known}{unit}"),
    }
}

fn as_text(findings: &Findings) -> String {
    let mut out = device_text(findings);
    let user = if findings.root {
        "root"
    } else {
        "not root: device settings cannot be changed"
    };
    out.push_str(&format!("\nuser: {user}\n\n"));
    for line in findings.planted.iter().chain(&findings.noise) {
        out.push_str(&format!("planted: {line}\n"));
    }
    for label in &findings.labels {
        out.push_str(&format!("seen: {label}\n"));
    }
    if !findings.kernel_log.is_empty() {
        out.push_str(&format!("kernel log: {}\n", findings.kernel_log));
    }
    let rows: Vec<[String; 3]> = findings.mechanisms.iter().map(mechanism_row).collect();
    if !rows.is_empty() {
        out.push_str(&table(["mechanism", "verdict", "remedy"], &rows));
        out.push('\n');
    }
    let rows: Vec<[String; 6]> = findings.timer.iter().map(timer_row).collect();
    let header = [
        "timer lateness at 1 kHz",
        "p50",
        "p99",
        "p99.9",
        "max",
        "wakes",
    ];
    out.push_str(&table(header, &rows));
    for (class, tested) in &findings.timer {
        if let Ok(found) = tested {
            out.push_str(&stops_line(class, found));
        }
    }
    let rows: Vec<[String; 4]> = findings.achieved.iter().map(achieved_row).collect();
    if !rows.is_empty() {
        let header = [
            findings.looked_at,
            "achieved",
            "the device's peak by clock and width",
            "share",
        ];
        out.push('\n');
        out.push_str(&table(header, &rows));
    }
    match &findings.clocks {
        Ok(clocks) => out.push_str(&format!("\n{}\n", clocks.as_text())),
        Err(reason) => out.push_str(&format!("\nSM clock under full load: unknown ({reason})\n")),
    }
    out.push_str(&effect_line(findings));
    if !findings.verified.is_empty() {
        let rows: Vec<[String; 2]> = findings
            .verified
            .iter()
            .map(|(name, found)| [name.clone(), found.to_string()])
            .collect();
        out.push('\n');
        out.push_str(&table(["kernel check", "result"], &rows));
    }
    out
}

pub(super) fn mechanism_row(capability: &Capability) -> [String; 3] {
    let (verdict, remedy) = match &capability.availability {
        Availability::Available => ("available".to_owned(), None),
        Availability::Waived { reason, remedy } => (format!("waived: {reason}"), remedy.clone()),
    };
    [
        capability.variant.variant.clone(),
        verdict,
        remedy.unwrap_or_else(|| "-".to_owned()),
    ]
}

fn timer_row((class, tested): &(&'static str, Result<Punctuality, String>)) -> [String; 6] {
    let us = |ns: u64| format!("{:.1} us", ns as f64 / 1e3);
    let name = format!("scheduling class {class}");
    match tested {
        Ok(p) => [
            name,
            us(p.p50_ns),
            us(p.p99_ns),
            us(p.p999_ns),
            us(p.max_ns),
            p.wakes.to_string(),
        ],
        Err(reason) => {
            let dash = || "-".to_owned();
            [
                format!("{name}: {reason}"),
                dash(),
                dash(),
                dash(),
                dash(),
                dash(),
            ]
        }
    }
}

/// Whose doing lateness is: a thread that is stopped while it spins is late whatever it does.
fn stops_line(class: &str, found: &Punctuality) -> String {
    format!(
        "{class}: woken {:.0} us ahead at the end; of {} wakes {} overslept and {} were stopped \
         while they spun, for more than {} us; this host stops a thread that only spins {:.0} \
         times a second, {:.2} % of the time, {:.0} us at most\n",
        found.guard_ns as f64 / 1e3,
        found.wakes,
        found.overslept,
        found.stopped,
        OVER_NS / 1_000,
        found.stops.per_s(),
        100.0 * found.stops.share(),
        found.stops.longest_ns as f64 / 1e3,
    )
}

/// The smallest change of a rate that the profile's blocks find with 80 % power, as a logarithm.
fn detectable(findings: &Findings) -> Result<(&Spread, f64), String> {
    let spread = findings.spread.as_ref().map_err(Clone::clone)?;
    let effect = mde80(spread.sd_log, findings.blocks, Confidence::P95);
    Ok((spread, effect.map_err(|error| error.to_string())?))
}

fn effect_line(findings: &Findings) -> String {
    match detectable(findings) {
        Ok((spread, effect_log)) => format!(
            "\nsmallest detectable effect: {:.2} % of a rate with the {} blocks of the profile (80 \
             % power, 95 % interval), if its cells differ as {} pairs of equal {} ms loops of {} \
             did: sd {:.2} %\n",
            100.0 * (effect_log.exp() - 1.0),
            findings.blocks,
            spread.pairs,
            spread.loop_ns / 1_000_000,
            spread.victim,
            100.0 * spread.sd_log,
        ),
        Err(reason) => format!("\nsmallest detectable effect: unknown ({reason})\n"),
    }
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

fn achieved_row(one: &Achieved) -> [String; 4] {
    let rate = |per_s: &Result<f64, String>| match per_s {
        Ok(per_s) => format!("{:.1} G{}/s", per_s / 1e9, one.unit),
        Err(reason) => format!("unknown ({reason})"),
    };
    let share = match (&one.per_s, &one.peak_per_s) {
        (Ok(achieved), Ok(peak)) => format!("{:.1} %", 100.0 * achieved / peak),
        _ => "-".to_owned(),
    };
    [
        one.name.to_owned(),
        rate(&one.per_s),
        rate(&one.peak_per_s),
        share,
    ]
}
