//! `gpubench doctor`: checks of this host before a measurement.

use gpubench_record::{ExitCode, Verification};
use gpubench_workloads::timer_selftest::{OVER_NS, Punctuality, Stops};

use super::common::{DeviceFlag, ProfileFlags, TextFormat, exit_codes_help, pretty_json, whole};
use super::spread;
use super::ui::{Ui, table};
use crate::error::ExpectedError;
use crate::judge::device_check::Achieved;
use crate::judge::host_report::{HostReport, TimerTest, check_host, to_json};
use crate::judge::verdict::mechanism_row;

/// The exit codes of this verb.
pub const EXIT_CODES: &[ExitCode] = &[
    ExitCode::Done,
    ExitCode::Internal,
    ExitCode::Usage,
    ExitCode::NothingRan,
    ExitCode::OutputFailed,
    ExitCode::NotRestored,
    ExitCode::Interrupted,
];

/// Most sessions of one call.
const SESSIONS_MAX: u32 = 100;

/// Checks this host: device, mechanisms, clocks, timers, smallest detectable effect
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit_codes_help(EXIT_CODES))]
pub struct Args {
    #[command(flatten)]
    pub(super) device: DeviceFlag,
    #[command(flatten)]
    pub(super) profile: ProfileFlags,
    /// Verify the kernels of every workload on the device
    #[arg(long)]
    verify: bool,
    /// Measure how far equal sessions differ, and keep it for plan and diff
    ///
    /// Each session measures the profile's victims alone on the device, every cell twice. Sessions
    /// of earlier calls count too. Call it on several days: sessions of one call share a driver
    /// load and a temperature. The file is $XDG_STATE_HOME/gpubench/spread/UUID.json.
    #[arg(long)]
    calibrate: bool,
    /// Sessions of one call
    #[arg(
        long,
        value_name = "N",
        requires = "calibrate",
        default_value_t = 3,
        value_parser = whole::<u32>(1, SESSIONS_MAX.into()),
    )]
    pub(super) sessions: u32,
    /// Output format
    #[arg(long, value_enum, default_value = "table")]
    format: TextFormat,
}

/// Checks this host and prints the report. Without a device the exit code is 3.
///
/// # Errors
/// When the profile is wrong, nothing can run on this host, or the output cannot be written.
pub fn run(args: &Args, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let profile = args.profile.load()?;
    if args.calibrate {
        let found = spread::run(args, &profile, ui)?;
        match args.format {
            TextFormat::Json => ui.print(&pretty_json(&found)?)?,
            TextFormat::Table => ui.print_text(&spread::as_text(&found))?,
        }
        return Ok(ExitCode::Done);
    }
    let (device, options) = (args.device.device.as_ref(), args.profile.host_options());
    let (report, limit) = check_host(device, &options, &profile, args.verify)?;
    match args.format {
        TextFormat::Json => ui.print(&pretty_json(&to_json(&report))?)?,
        TextFormat::Table => ui.print_text(&as_text(&report))?,
    }
    if report.verified.iter().any(|(_, found)| matches!(found, Verification::Failed { .. })) {
        return Err(ExpectedError::NothingRan {
            reason: "kernels give wrong results on this device".to_owned(),
        });
    }
    limit.map_or(Ok(ExitCode::Done), Err)
}

/// The device and its facts.
fn device_text(report: &HostReport) -> String {
    match &report.device {
        Ok(device) => {
            let mut rows = vec![
                ["kind".to_owned(), format!("{:?}", device.kind).to_lowercase()],
                ["name".to_owned(), device.name.clone()],
                ["uuid".to_owned(), device.uuid.clone()],
                ["driver".to_owned(), device.driver.clone()],
                ["CUDA".to_owned(), device.cuda.clone()],
                ["compute capability".to_owned(), device.compute_capability.clone()],
                ["SMs".to_owned(), or_unknown(device.sm_count.into(), "")],
                ["memory".to_owned(), format!("{} MiB", device.memory_mib)],
                ["L2".to_owned(), or_unknown(device.l2_kib, " KiB")],
            ];
            rows.extend(device.facts.iter().map(|(name, fact)| [name.clone(), fact.clone()]));
            table(["device", ""], &rows)
        }
        Err(reason) => format!("device: none ({reason})\n"),
    }
}

/// A figure that only a tenant with the whole device can read.
fn or_unknown(figure: u64, unit: &str) -> String {
    match figure {
        0 => "unknown: no tenant can use the whole device".to_owned(),
        known => format!("{known}{unit}"),
    }
}

fn as_text(report: &HostReport) -> String {
    let mut out = device_text(report);
    let user = if report.root { "root" } else { "not root: device settings cannot be changed" };
    out.push_str(&format!("\nuser: {user}\n\n"));
    for line in report.planted.iter().chain(&report.noise) {
        out.push_str(&format!("planted: {line}\n"));
    }
    for label in &report.labels {
        out.push_str(&format!("host: {label}\n"));
    }
    if !report.kernel_log.is_empty() {
        out.push_str(&format!("kernel log: {}\n", report.kernel_log));
    }
    let rows: Vec<[String; 3]> = report.mechanisms.iter().map(mechanism_row).collect();
    if !rows.is_empty() {
        out.push_str(&table(["mechanism", "verdict", "remedy"], &rows));
        out.push('\n');
    }
    let rows: Vec<[String; 6]> = report.timer.iter().map(timer_row).collect();
    let header = ["timer lateness at 1 kHz", "p50", "p99", "p99.9", "max", "wakes"];
    out.push_str(&table(header, &rows));
    for (class, tested) in &report.timer {
        if let Ok((stops, found)) = tested {
            out.push_str(&stops_line(class, stops, found));
        }
    }
    let rows: Vec<[String; 4]> = report.achieved.iter().map(achieved_row).collect();
    if !rows.is_empty() {
        let header = [report.scope, "achieved", "the device's peak by clock and width", "share"];
        out.push('\n');
        out.push_str(&table(header, &rows));
    }
    match &report.clocks {
        Ok(clocks) => out.push_str(&format!("\n{}\n", clocks.as_text())),
        Err(reason) => out.push_str(&format!("\nSM clock under full load: unknown ({reason})\n")),
    }
    out.push_str(&effect_line(report));
    if !report.verified.is_empty() {
        let rows: Vec<[String; 2]> =
            report.verified.iter().map(|(name, found)| [name.clone(), found.to_string()]).collect();
        out.push('\n');
        out.push_str(&table(["kernel check", "result"], &rows));
    }
    out
}

fn timer_row((class, tested): &(&'static str, TimerTest)) -> [String; 6] {
    let us = |ns: u64| format!("{:.1} us", ns as f64 / 1e3);
    let name = format!("scheduling class {class}");
    match tested {
        Ok((_, p)) => {
            [name, us(p.p50_ns), us(p.p99_ns), us(p.p999_ns), us(p.max_ns), p.wakes.to_string()]
        }
        Err(reason) => {
            let dash = || "-".to_owned();
            [format!("{name}: {reason}"), dash(), dash(), dash(), dash(), dash()]
        }
    }
}

/// The causes of lateness. A thread that the host stops while it spins is always late.
fn stops_line(class: &str, stops: &Stops, found: &Punctuality) -> String {
    format!(
        "{class}: wake-ups are set {:.0} us early; of {} wake-ups {} overslept and {} were stopped \
         while spinning, for more than {} us; this host stops a spinning thread {:.0} times a \
         second, {:.2} % of the time, {:.0} us at most\n",
        found.guard_ns as f64 / 1e3,
        found.wakes,
        found.overslept,
        found.stopped,
        OVER_NS / 1_000,
        stops.per_s(),
        100.0 * stops.share(),
        stops.longest_ns as f64 / 1e3,
    )
}

fn effect_line(report: &HostReport) -> String {
    match report.detectable_effect() {
        Ok((spread, effect_log)) => format!(
            "\nsmallest detectable effect: {:.2} % of a rate with the {} blocks of the profile (80 \
             % power, 95 % interval), if cells differ as {} pairs of equal {} ms loops of {} do: \
             sd {:.2} %\n",
            100.0 * (effect_log.exp() - 1.0),
            report.blocks,
            spread.pairs,
            spread.loop_ns / 1_000_000,
            spread.victim,
            100.0 * spread.sd_log,
        ),
        Err(reason) => format!("\nsmallest detectable effect: unknown ({reason})\n"),
    }
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
    [one.name.to_owned(), rate(&one.per_s), rate(&one.peak_per_s), share]
}
