//! `gpubench watch`: says when and which resource of a shared GPU is contended.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use gpubench_host::device::DeviceSelector;
use gpubench_host::device::virtual_gpu::{ENV, TimeMode};
use gpubench_plan::profile::units::Span;
use gpubench_record::user_victim::{Reports, UserVictim};
use gpubench_record::{ExitCode, regular_file};
use gpubench_reports::format::{DeviceLabels, Gauges};
use gpubench_run::rfc3339_now;
use gpubench_show::{Block, Page, Table};
use hdrhistogram::Histogram;
use humantime::parse_rfc3339;
use tokio::sync::watch::channel;

use super::common::{DeviceFlag, command, exit_codes_help, reports, span, whole};
use super::signals::Signals;
use super::ui::Ui;
use crate::error::ExpectedError;
use crate::error::output::write_whole;
use crate::verbs::DeviceSession;
use crate::verbs::watch::line::{Effect, Ended, Event, Line};
use crate::verbs::watch::{Latencies, Listener, NEIGHBOURS, Now, Plant, Request, TURNS, watch};

pub const EXIT_CODES: &[ExitCode] = &[
    ExitCode::Done,
    ExitCode::Internal,
    ExitCode::Usage,
    ExitCode::NothingRan,
    ExitCode::TrialFailed,
    ExitCode::OutputFailed,
    ExitCode::Interrupted,
];

/// Duties that are accepted, in percent.
const DUTY: [f64; 2] = [0.05, 5.0];
/// Windows that are accepted, in seconds.
const WINDOW_S: [u64; 2] = [1, 600];
/// Fewest windows that are learned from.
const LEARNED_MIN: u64 = 6;

/// Watches a GPU that is shared as found, with small requests, and says what is contended
///
/// A canary issues one small request of each resource in turn (compute, DRAM, L2, PCIe, launch) and
/// uses 1 % of the device's time. Nothing is set up or changed. It learns what its requests take,
/// and says from when to when they are slower, and in which resource most: `turns` is the wait for
/// a time slice. What neighbours do while it learns is found only when they go.
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit_codes_help(EXIT_CODES))]
pub struct Args {
    #[command(flatten)]
    device: DeviceFlag,
    /// Watch for this long after learning, as 8h [default: until Ctrl-C or SIGTERM]
    #[arg(long = "for", value_name = "TIME", value_parser = span)]
    length: Option<Span>,
    /// Share of the device's time for the canary, in percent, 0.05 to 5
    #[arg(long, value_name = "PERCENT", default_value = "1", value_parser = percent)]
    duty: f64,
    /// Length of a window: an event is dated to within one window, 1s to 10min
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = span)]
    window: Span,
    /// How long to learn what requests take
    #[arg(long, value_name = "TIME", default_value = "2min", value_parser = span)]
    learn: Span,
    /// The least slowdown that is an event, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = whole::<u32>(1, 1000))]
    least: u32,
    /// Append the events to this file, one JSON object a line (gpubench schemas watch)
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// Write OpenMetrics to this file after each window
    #[arg(long, value_name = "FILE")]
    metrics: Option<PathBuf>,
    /// Run this shell command beside the canary, and measure its rate with and without it
    ///
    /// It writes its requests to the file descriptor in GPUBENCH_VICTIM_FD (the page Your own
    /// program of the book).
    #[arg(long, value_name = "COMMAND", value_parser = command)]
    victim_cmd: Option<String>,
    /// Request of that program: requests (it reports them), lines (each printed line is one)
    #[arg(
        long,
        value_name = "HOW",
        default_value = "requests",
        requires = "victim_cmd",
        value_parser = reports,
    )]
    victim_reports: Reports,
    /// Time limit for the start of that program, 1s to 1h
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1min",
        requires = "victim_cmd",
        value_parser = span,
    )]
    victim_ready: Span,
    /// Put a neighbour beside the canary on the virtual GPU, as dram@10min+5min (repeat for more)
    ///
    /// It stresses compute, dram, l2, pcie or launch at the same time as the canary, or takes
    /// turns with it, from the first time on, for the second.
    #[arg(long, value_name = "RESOURCE@START+LENGTH", value_parser = plant)]
    plant: Vec<Plant>,
    /// Seed of the instants of the requests, and of a virtual GPU
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>(0, u64::MAX))]
    seed: u64,
}

fn percent(text: &str) -> Result<f64, String> {
    let [min, max] = DUTY;
    let number = text.trim().parse::<f64>().ok().filter(|one| (min..=max).contains(one));
    number.ok_or_else(|| format!("accepted: a number from {min} to {max}"))
}

fn plant(text: &str) -> Result<Plant, String> {
    let parts = || {
        let (resource, times) = text.split_once('@')?;
        let (from, length) = times.split_once('+')?;
        let known = NEIGHBOURS.iter().find(|(name, ..)| *name == resource)?;
        Some((known, Span::parse(from)?.ns, Span::parse(length)?.ns))
    };
    let (known, from_ns, length_ns) = parts().ok_or_else(|| {
        let names = NEIGHBOURS.map(|(name, ..)| name).join(", ");
        format!("accepted: RESOURCE@START+LENGTH, as dram@10min+5min, with one of {names}")
    })?;
    let (name, workload, share) = *known;
    let takes_turns = name == TURNS;
    Ok(Plant { workload, share, takes_turns, from_ns, to_ns: from_ns.saturating_add(length_ns) })
}

impl Args {
    fn request(&self) -> Result<Request, ExpectedError> {
        let refused = |problem: String, accepted: &str| {
            Err(ExpectedError::usage(format!("{problem} (accepted: {accepted})"), None))
        };
        let [min_s, max_s] = WINDOW_S;
        if !(Span::from_s(min_s)..=Span::from_s(max_s)).contains(&self.window) {
            let accepted = format!("{min_s}s to {max_s}s");
            return refused(format!("--window {} is not accepted", self.window), &accepted);
        }
        if self.learn.ns < LEARNED_MIN * self.window.ns {
            let problem = format!("--learn {} is too short for a baseline", self.learn);
            return refused(problem, &format!("{LEARNED_MIN} windows of {} or more", self.window));
        }
        if self.length.is_some_and(|length| length.ns == 0) {
            return refused("--for 0 watches nothing".to_owned(), "a time above 0");
        }
        let is_virtual = self.device.device.as_ref().is_some_and(DeviceSelector::is_virtual);
        if !self.plant.is_empty() && !is_virtual {
            let problem = "--plant would load a GPU that others use".to_owned();
            return refused(problem, "--plant with --device virtual");
        }
        let program = self.victim_cmd.as_ref().map(|command| UserVictim {
            command: command.clone(),
            reports: self.victim_reports,
            ready_ns: self.victim_ready.ns,
        });
        Ok(Request {
            duty: self.duty / 100.0,
            window_ns: self.window.ns,
            learn_ns: self.learn.ns,
            length_ns: self.length.map(|length| length.ns),
            least: f64::from(self.least) / 100.0,
            alarms_per_day: 1.0,
            plants: self.plant.clone(),
            program,
            seed: self.seed,
        })
    }
}

pub fn run(args: &Args, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let request = args.request()?;
    let mut screen = Screen::open(args, ui)?;
    // A program of the user runs on the wall clock, as one beside `virtual-gpu exec` does.
    let has_program = request.program.is_some() || std::env::var_os(ENV).is_some();
    let time = if has_program { TimeMode::Wall } else { TimeMode::Virtual };
    let session = DeviceSession::open(args.device.device.as_ref(), args.seed, time)?;
    screen.device = DeviceLabels {
        uuid: session.identity().uuid.clone(),
        gpu: session.identity().facts.get("index").cloned().unwrap_or_default(),
        hostname: std::fs::read_to_string("/proc/sys/kernel/hostname")
            .map_or_else(|_| String::new(), |name| name.trim().to_owned()),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| ExpectedError::internal(format!("event loop: {error}")))?;
    let (ended, latencies) = runtime.block_on(async {
        let signals = Signals::catch()
            .map_err(|error| ExpectedError::internal(format!("signal handlers: {error}")))?;
        let (stop, stopped) = channel(false);
        let waiting = tokio::spawn(async move {
            signals.wait().await;
            // The receiver lives as long as the watch.
            let _ = stop.send(true);
            // A dropped sender would count as a signal.
            std::future::pending::<()>().await;
        });
        let found = watch(&session, &request, stopped, &mut screen).await;
        waiting.abort();
        found
    })?;
    ui.page(&summary(&ended, &latencies))?;
    Ok(if ended.by_signal { ExitCode::Interrupted } else { ExitCode::Done })
}

/// Prints events, and writes the files.
struct Screen<'a> {
    ui: &'a Ui,
    events: Option<(PathBuf, File)>,
    metrics: Option<PathBuf>,
    device: DeviceLabels,
}

impl<'a> Screen<'a> {
    fn open(args: &Args, ui: &'a Ui) -> Result<Self, ExpectedError> {
        let open = |path: &PathBuf| {
            let file = regular_file::append(path)
                .map_err(|error| ExpectedError::from_write(path, error))?;
            Ok::<_, ExpectedError>((path.clone(), file))
        };
        let events = args.events.as_ref().map(open).transpose()?;
        let (metrics, device) = (args.metrics.clone(), DeviceLabels::default());
        Ok(Self { ui, events, metrics, device })
    }
}

impl Listener for Screen<'_> {
    fn line(&mut self, line: &Line) -> Result<(), ExpectedError> {
        if let Some((path, file)) = &mut self.events {
            let text = serde_json::to_string(line).map_err(ExpectedError::internal)? + "\n";
            let written = file.write_all(text.as_bytes());
            written.map_err(|error| ExpectedError::from_write(path.clone(), error))?;
        }
        let Some(text) = sentence(&line.event) else { return Ok(()) };
        let at = line.time.clone().unwrap_or_else(|| format!("{:9.1} s", line.at_s));
        self.ui.print(&format!("{at}  {text}\n"))
    }

    fn window(&mut self, now: &Now) -> Result<(), ExpectedError> {
        let Some(path) = &self.metrics else { return Ok(()) };
        let mut gauges = Gauges::of(self.device.clone());
        let resource = |name: &'static str| vec![("resource", name)];
        let slowdowns = now.slowdowns.iter().map(|(name, one)| (resource(name), *one));
        let help = "Mean time of the canary's requests in a window over the learned one.";
        gauges.add("watch_slowdown", help, slowdowns);
        let is = |name: &str| f64::from(u8::from(now.contended == Some(name)));
        let contended = now.slowdowns.keys().map(|name| (resource(name), is(name)));
        gauges.add("watch_contended", "1 for the resource that is contended.", contended);
        let one = |value: f64| [(Vec::new(), value)];
        gauges.add("watch_events", "Events since the start.", one(now.events as f64));
        gauges.add("watch_duty", "Share of the device's time that the canary took.", one(now.duty));
        let help = "Requests of the program of --victim-cmd a second.";
        gauges.add("watch_program_rate", help, now.program_per_s.map(|rate| (Vec::new(), rate)));
        let time = parse_rfc3339(&rfc3339_now()).ok();
        let time = time.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        let time = time.map(|time| (Vec::new(), time.as_secs() as f64));
        let help = "When the last window ended, in seconds since 1970.";
        gauges.add("watch_timestamp_seconds", help, time);
        write_whole(path, (gauges.text + "# EOF\n").as_bytes())
    }
}

/// A line of the log in words; `None` for the last one, which the summary has.
fn sentence(event: &Event) -> Option<String> {
    let times = |of: &std::collections::BTreeMap<String, f64>, name: &String| {
        of.get(name).copied().unwrap_or(1.0)
    };
    Some(match event {
        Event::Started(started) => {
            let waived = started.waived.iter().map(|(name, why)| format!("; no {name}: {why}"));
            format!(
                "watching {} ({}), {} of the device's time, windows of {} s, at most {} false \
                 event a day{}",
                started.gpu,
                started.uuid,
                share(started.duty),
                started.window_s,
                started.alarms_per_day,
                waived.collect::<String>(),
            )
        }
        Event::Effect(effect) => effect_text(effect),
        Event::Learned { again, .. } if *again => "learned again; watching".to_owned(),
        Event::Learned { .. } => "learned what requests take; watching".to_owned(),
        Event::Contended { resource, slowdowns } => {
            format!("{resource} is contended: {:.2} times slower", times(slowdowns, resource))
        }
        Event::Over { resource, from_s, to_s, slowdowns } => format!(
            "{resource} was contended for {:.1} s from {from_s:.1} s on: {:.2} times slower",
            to_s - from_s,
            times(slowdowns, resource),
        ),
        Event::Faster {} => {
            "requests are faster than what was learned beside a neighbour; learning again"
                .to_owned()
        }
        Event::Ended(_) => return None,
    })
}

fn effect_text(effect: &Effect) -> String {
    let memory = effect
        .memory_bytes
        .map_or_else(String::new, |bytes| format!(" and {} MiB of its memory", bytes >> 20));
    let program = match &effect.program {
        Some(one) => format!(
            "; the program's rate of {:.4} requests/s changes by {} ({} to {}, {} pairs of \
             windows)",
            one.without_per_s,
            change(one.change),
            change(one.lo),
            change(one.hi),
            one.n,
        ),
        None => "; what it does to other programs is not known without --victim-cmd".to_owned(),
    };
    format!("the canary takes {} of the device's time{memory}{program}", share(effect.duty))
}

fn share(of: f64) -> String {
    format!("{:.2} %", 100.0 * of)
}

fn change(of: f64) -> String {
    format!("{:+.2} %", 100.0 * of)
}

fn summary(ended: &Ended, latencies: &[Latencies]) -> Page {
    let mut page = Page::default();
    page.push(Block::Gap);
    let events = match ended.events {
        1 => "1 event".to_owned(),
        n => format!("{n} events"),
    };
    let by = if ended.by_signal { ", ended by a signal" } else { "" };
    let learned = ended.windows_learned;
    page.say(match ended.windows {
        0 => format!("nothing was judged: {learned} windows were learned from{by}"),
        judged => format!("{events} in {judged} windows, after {learned} to learn from{by}"),
    });
    let us = |of: &Histogram<u64>, quantile: f64| match of.len() {
        0 => "-".to_owned(),
        _ => format!("{:.1}", of.value_at_quantile(quantile) as f64 / 1e3),
    };
    let rows = latencies.iter().map(|one| {
        let contended_s = ended.contended_s.get(one.resource).copied().unwrap_or(0.0);
        [
            one.resource.to_owned(),
            format!("{contended_s:.0}"),
            us(&one.quiet, 0.5),
            us(&one.quiet, 0.99),
            us(&one.contended, 0.5),
            us(&one.contended, 0.99),
            (one.quiet.len() + one.contended.len()).to_string(),
        ]
    });
    let header = [
        "resource",
        "contended s",
        "quiet p50 us",
        "p99 us",
        "contended p50 us",
        "contended p99 us",
        "requests",
    ];
    page.push(Table::plain(header, rows).numbers(&header[1..]));
    page.push(Block::Gap);
    let [before, after] = ended.resident_bytes.map(|bytes| bytes as f64 / f64::from(1 << 20));
    page.say(format!(
        "the canary took {} of the device's time; memory of gpubench: {before:.1} MiB at the \
         start, {after:.1} MiB at the end",
        share(ended.duty)
    ));
    if let Some([quiet, contended]) = ended.program_per_s {
        let rate =
            |of: Option<f64>| of.map_or_else(|| "unknown".to_owned(), |of| format!("{of:.4}"));
        page.say(format!(
            "program: {} requests/s without contention, {} with it",
            rate(quiet),
            rate(contended)
        ));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::plant;

    #[test]
    fn a_neighbour_has_a_resource_and_two_times() {
        let one = plant("turns@10min+1.5s").expect("a neighbour");
        assert_eq!((one.workload, one.takes_turns), ("fma-hog", true));
        assert_eq!((one.from_ns, one.to_ns), (600_000_000_000, 601_500_000_000));
        for text in ["", "dram", "dram@1s", "sm@1s+1s", "dram@1+1s", "dram@1s+x"] {
            let refused = plant(text).map_err(|why| why.contains("dram@10min+5min"));
            assert_eq!(refused, Err(true), "{text}");
        }
    }
}
