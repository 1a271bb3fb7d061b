//! `gpubench doctor`: checks of this host before a measurement.

use std::borrow::Cow;
use std::path::PathBuf;

use gpubench_catalogue::mechanism::REFERENCE;
use gpubench_host::device::PrivateFolder;
use gpubench_judge::score;
use gpubench_plan::profile::{OpenLoops, Profile, Wanted};
use gpubench_record::{Axis, ExitCode, Spread, Verification, counted};
use gpubench_run::{RunEnd, Silent};
use gpubench_show::{Block, Labels, Line, Page, Table};
use gpubench_workloads::timer_selftest::{OVER_NS, Punctuality, Stops};

use super::common::{
    DeviceFlag, ProfileFlags, TextFormat, exit_codes_help, pretty_json, versioned_json, whole,
};
use super::signals::run_until_signal;
use super::ui::Ui;
use crate::error::ExpectedError;
use crate::verbs::device_check::Achieved;
use crate::verbs::host_report::{HostReport, TimerTest, check_host, to_json};
use crate::verbs::verdict::mechanism_row;
use crate::verbs::{
    AfterCells, DeviceSession, FaultRequest, MatrixRequest, calibration, conclude, host_facts,
    matrix_setup,
};

pub const EXIT_CODES: &[ExitCode] = &[
    ExitCode::Done,
    ExitCode::Internal,
    ExitCode::Usage,
    ExitCode::NothingRan,
    ExitCode::TrialFailed,
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
    #[arg(long, value_enum, default_value = "text")]
    format: TextFormat,
}

/// Checks this host and prints the report. Without a device the exit code is 3.
pub fn run(args: &Args, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let profile = args.profile.load()?;
    if args.calibrate {
        let (found, kept) = measure_spread(args, &profile, ui)?;
        match args.format {
            TextFormat::Json => ui.print(&pretty_json(&found)?)?,
            TextFormat::Text => ui.page(&spread_page(&found))?,
        }
        ui.note(&format!("kept in {}", kept?.display()));
        return Ok(ExitCode::Done);
    }
    let (device, options) = (args.device.device.as_ref(), args.profile.host_options());
    let (report, limit) = check_host(device, &options, &profile, args.verify)?;
    match args.format {
        TextFormat::Json => {
            ui.print(&versioned_json("doctor", &to_json(&report, limit.as_ref()))?)?
        }
        TextFormat::Text => {
            let variants = report.mechanisms.iter().map(|row| row.variant.variant.as_str());
            ui.page(&Labels::of(variants).on(page(&report, limit.as_ref())))?;
        }
    }
    if report.verified.iter().any(|(_, found)| matches!(found, Verification::Failed { .. })) {
        return Err(ExpectedError::NothingRan {
            reason: "kernels give wrong results on this device".to_owned(),
        });
    }
    limit.map_or(Ok(ExitCode::Done), Err)
}

fn device(report: &HostReport) -> Block {
    match &report.device {
        Ok(device) => {
            let own = [
                ("kind", format!("{:?}", device.kind).to_lowercase()),
                ("name", device.name.clone()),
                ("uuid", device.uuid.clone()),
                ("driver", device.driver.clone()),
                ("CUDA", device.cuda.clone()),
                ("compute capability", device.compute_capability.clone()),
                ("SMs", or_unknown(device.sm_count.into(), "")),
                ("memory", format!("{} MiB", device.memory_mib)),
                ("L2", or_unknown(device.l2_kib, " KiB")),
            ];
            let own = own.map(|(name, fact)| (Cow::Borrowed(name), fact));
            let others = device.facts.iter();
            let others = others.map(|(name, fact)| (name.clone().into(), fact.clone()));
            Block::Facts(own.into_iter().chain(others).collect())
        }
        Err(reason) => Line::new(format!("device: none ({reason})")).into(),
    }
}

/// A figure that only a tenant with the whole device can read.
fn or_unknown(figure: u64, unit: &str) -> String {
    match figure {
        0 => "unknown: no tenant can use the whole device".to_owned(),
        known => format!("{known}{unit}"),
    }
}

fn page(report: &HostReport, limit: Option<&ExpectedError>) -> Page {
    let mut page = Page::default();
    report.verdicts(limit).into_iter().for_each(|line| page.say(line));
    page.push(Block::Gap);
    page.push(device(report));
    page.push(Block::Gap);
    let user = if report.root { "root" } else { "not root: device settings cannot be changed" };
    page.say(format!("user: {user}"));
    page.push(Block::Gap);
    let planted = report.planted.iter().chain(&report.noise);
    planted.for_each(|line| page.say(format!("planted: {line}")));
    report.labels.iter().for_each(|label| page.say(format!("host: {label}")));
    if !report.kernel_log.is_empty() {
        page.say(format!("kernel log: {}", report.kernel_log));
    }
    let rows = report.mechanisms.iter().map(mechanism_row);
    add(&mut page, Table::plain(["mechanism", "verdict", "remedy"], rows));
    let header = ["lateness at 1 kHz", "p50", "p99", "p99.9", "max", "wakes"];
    let rows = report.timer.iter().filter_map(timer_row);
    add(&mut page, Table::plain(header, rows).numbers(&header[1..]));
    for (class, tested) in &report.timer {
        match tested {
            Ok((stops, found)) => page.say(stops_line(class, stops, found)),
            Err(reason) => page.say(format!("{class}: {reason}")),
        }
    }
    let header = [report.scope, "achieved", "the device's peak by clock and width", "share"];
    add(&mut page, Table::plain(header, report.achieved.iter().map(achieved_row)));
    page.push(Block::Gap);
    page.say(match &report.clocks {
        Ok(clocks) => clocks.as_text(),
        Err(reason) => format!("SM clock under full load: unknown ({reason})"),
    });
    page.push(Block::Gap);
    page.say(effect_line(report));
    let verified = report.verified.iter().map(|(name, found)| [name.clone(), found.to_string()]);
    add(&mut page, Table::plain(["kernel check", "result"], verified));
    page
}

/// Adds a table that has rows, apart from what stands above it.
fn add(page: &mut Page, table: Table) {
    if !table.rows.is_empty() {
        page.push(Block::Gap);
        page.push(table);
    }
}

fn timer_row((class, tested): &(&'static str, TimerTest)) -> Option<[String; 6]> {
    let us = |ns: u64| format!("{:.1} us", ns as f64 / 1e3);
    let (_, p) = tested.as_ref().ok()?;
    let class = format!("class {class}");
    Some([class, us(p.p50_ns), us(p.p99_ns), us(p.p999_ns), us(p.max_ns), p.wakes.to_string()])
}

/// The causes of lateness. A thread that the host stops while it spins is always late.
fn stops_line(class: &str, stops: &Stops, found: &Punctuality) -> String {
    format!(
        "{class}: wake-ups are set {:.0} us early; of {} wake-ups {} overslept and {} were stopped \
         while spinning, for more than {} us; this host stops a spinning thread {:.0} times a \
         second, {:.2} % of the time, {:.0} us at most",
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
            "smallest detectable effect: {:.2} % of a rate with the {} blocks of the profile (80 \
             % power, 95 % interval), if cells differ as {} pairs of equal {} ms loops of {} do: \
             sd {:.2} %",
            100.0 * (effect_log.exp() - 1.0),
            report.blocks,
            spread.pairs,
            spread.loop_ns / 1_000_000,
            spread.victim,
            100.0 * spread.sd_log,
        ),
        Err(reason) => format!("smallest detectable effect: unknown ({reason})"),
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

// `gpubench doctor --calibrate`: A/A sessions, and the spread that they show.

/// Runs the sessions: the native cells of the profile and their repetitions, with the calibration
/// of the first one. Returns the spread with those of earlier sessions, and the file that keeps it.
pub(super) fn measure_spread(
    args: &Args,
    profile: &Profile,
    ui: &Ui,
) -> Result<(Spread, Result<PathBuf, ExpectedError>), ExpectedError> {
    calibration::make_spread_folder()?;
    let folder = PrivateFolder::temporary();
    let folder = folder.map_err(|error| ExpectedError::from_write(std::env::temp_dir(), error))?;
    let (device, options) = (args.device.device.as_ref(), args.profile.host_options());
    let mut calibration = None;
    let mut found = None;
    for session in 0..args.sessions {
        let profile = of_session(profile, session);
        let time = host_facts::time_mode(device, &options, &profile);
        let device = DeviceSession::open(device, profile.seed, time)?;
        let out = folder.path().join(session.to_string());
        let request = MatrixRequest {
            calibration: calibration.clone(),
            recalibrate: false,
            after_cells: AfterCells { faults: FaultRequest::Off, ..AfterCells::default() },
            ..MatrixRequest::default()
        };
        ui.note(&format!("A/A session {} of {}", session + 1, args.sessions));
        let run = matrix_setup(&device, &options, profile, &request, &out)?;
        if run_until_signal(run.setup, run.kernel_log, &mut Silent)? == RunEnd::Interrupted {
            return Err(ExpectedError::Interrupted { record: out });
        }
        let record = conclude(&out)?.opened.run;
        calibration.get_or_insert(out);
        let known = calibration::known(&record.device.uuid);
        let (known, unreadable) = known.map_or_else(|error| (None, Some(error)), |one| (one, None));
        let spread = score::spread::with_session(known, &record);
        let kept = unreadable.map_or_else(|| calibration::keep(&spread), Err);
        let ends = kept.is_err();
        found = Some((spread, kept));
        // What was measured is printed.
        if ends {
            break;
        }
    }
    found.ok_or_else(|| ExpectedError::internal("no session was requested"))
}

/// Only native cells, without open loops; each session with orders and schedules of its own.
fn of_session(profile: &Profile, session: u32) -> Profile {
    let mut of_session = profile.clone();
    of_session.seed = profile.seed.wrapping_add(u64::from(session));
    of_session.mechanisms = Wanted::Names(vec![REFERENCE.to_owned()]);
    of_session.axes = axes_of_cells(&profile.axes);
    of_session.blocks.top_up = false;
    if profile.slo.ns == 0 {
        of_session.open_loops = OpenLoops::Jitter;
    }
    of_session
}

/// The axes without those that only probes and fault trials measure.
fn axes_of_cells(wanted: &Wanted) -> Wanted {
    let probed = [Axis::Memory, Axis::Fault].map(Axis::as_str);
    let has_cells = |name: &str| !probed.contains(&name.split('/').next().unwrap_or(name));
    let names: Vec<String> = match wanted {
        Wanted::All => [Axis::Compute, Axis::Bandwidth, Axis::Jitter]
            .map(|axis| axis.as_str().to_owned())
            .to_vec(),
        Wanted::Names(names) => names.iter().filter(|name| has_cells(name)).cloned().collect(),
    };
    Wanted::Names(names)
}

pub(super) fn spread_page(spread: &Spread) -> Page {
    let percent = |log: f64| format!("{:.2} %", 100.0 * log.exp_m1());
    let optional = |log: Option<f64>| log.map_or_else(|| "-".to_owned(), percent);
    let rows = spread.victims.iter().map(|(victim, of_victim)| {
        [
            victim.clone(),
            percent(of_victim.between_blocks),
            optional(of_victim.between_sessions),
            optional(of_victim.difference_p95),
            optional(of_victim.smallest_detectable.map(f64::ln_1p)),
            of_victim.bimodal_sessions.to_string(),
        ]
    });
    let header = [
        "victim",
        "between blocks",
        "between sessions",
        "95 % of differences",
        "detectable (1 session a side)",
        "bimodal sessions",
    ];
    let mut page = Page::default();
    page.say(format!(
        "{} {}, driver {}: spread of equal cells in {}",
        spread.name,
        spread.device,
        spread.driver,
        counted(spread.sessions.len(), "session"),
    ));
    page.push(Block::Gap);
    page.push(Table::plain(header, rows).numbers(&header[1..]));
    page
}
