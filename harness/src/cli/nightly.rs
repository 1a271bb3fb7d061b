//! `gpubench nightly`: one night on one GPU, from the measurement to the verdict.
//!
//! The measurement is a process of its own, so that a driver that hangs or kills it ends the night
//! as not measured, and never without a verdict.

pub(super) mod end;
mod metrics;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use gpubench_compare::Session;
use gpubench_compare::diff::{self, Options};
use gpubench_compare::history::History;
use gpubench_compare::render::{self, Detail};
use gpubench_host::device::lock::{GpuLock, LockError};
use gpubench_record::{ExitCode, regular_file};
use gpubench_reports::format::{self, DeviceLabels, TEXT};
use gpubench_reports::{RenderOptions, View};
use gpubench_run::rfc3339_now;
use gpubench_show::{Labels, Look};
use gpubench_store::RECORD_FILE;
use gpubench_workloads::user_victim::process_tree::signal_process;
use rustix::process::Signal;
use tokio::time::sleep;

use super::common::{exit_codes_help, versioned_json, whole};
use super::comparing::{internal, say_left_out, say_warnings};
use super::diff::baseline;
use super::many_devices::child::{self, Started};
use super::many_devices::event_loop;
use super::matrix;
use super::ui::Ui;
use crate::error::output::write_whole;
use crate::error::{ExpectedError, read_text};
use crate::verbs::session::{acknowledged, declared, is_record, nights_so_far};
use crate::verbs::{Opened, Repair, open_scored, report_options, run_folder, shown};
use end::{Compared, End, Outcome, Verdict};

pub const EXIT_CODES: &[ExitCode] = &ExitCode::BY_PRECEDENCE;

/// Flags of `matrix` that a night decides itself.
pub const DECIDED: [&str; 4] = ["out", "resume", "nights", "full"];
/// Flags that the measurement does not have, with a value.
const OWN: [&str; 7] =
    ["--reports", "--metrics", "--push", "--baseline", "--limit", "--wait", "--format"];

const JSON: &str = "json";

/// The folder of records that are being measured, in that of nights.
const STAGING: &str = ".staging";
const SUMMARY_MAX: u64 = 1 << 24;
/// Longest wait for a run that got a signal to end.
const END_LIMIT: Duration = Duration::from_secs(60);
const WAIT_STEP: Duration = Duration::from_millis(500);
const WAIT_MINUTES: u64 = 60;

/// Measures one night, compares it with the nights before, and ends with a verdict
///
/// The night is compared with the last segment of 10 nights, and all nights of the GPU as by
/// history: across events, and as drifts.
///
/// The last line is the verdict: passed, regressed (30), or not measured, with the exit code of its
/// cause. A night without a comparison or with undecided rows passes with a warning; with --strict
/// it ends with 20 or 10. Flags of matrix say what is measured.
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit_codes_help(EXIT_CODES))]
pub struct Args {
    /// Folder of nights, which must outlive the job; it is made where it is missing
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Folder of the reports of this night: files with names of their own, which are replaced
    #[arg(long, value_name = "DIR", default_value = "gpubench-night")]
    reports: PathBuf,
    /// Folder of metrics, such as that of node_exporter [default: that of the reports]
    ///
    /// The figures of a GPU stay there after a night that measured nothing, with the time at which
    /// they were measured; the outcome of the night is a file of its own.
    #[arg(long, value_name = "DIR")]
    metrics: Option<PathBuf>,
    /// Push the metrics to a Pushgateway, as https://gateway:9091
    ///
    /// Their group is the GPU. A night that measured nothing replaces the outcome and keeps the
    /// figures. The certificates of the host are trusted.
    #[arg(long, value_name = "URL")]
    push: Option<String>,
    /// Compare with this pinned baseline (history pin) in place of the last segment of 10 nights
    #[arg(long, value_name = "NAME")]
    baseline: Option<String>,
    /// Stop a measurement after so many minutes
    #[arg(
        long,
        value_name = "MINUTES",
        default_value = "480",
        value_parser = whole::<u64>(1, 10_000)
    )]
    limit: u64,
    /// This host has no GPU on purpose: a night without one ends with 0
    #[arg(long, conflicts_with = "device")]
    no_gpu: bool,
    #[command(flatten)]
    matrix: matrix::Args,
}

/// Runs the night; whatever happens, its verdict is the last line.
pub fn run(args: &Args, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let name = format!("{}-{}", rfc3339_now().replace(':', "-"), std::process::id());
    let night = Night { args, ui, record: args.folder.join(&name), name };
    // A wrong command line leaves nothing behind.
    if let Err(error) = night.check() {
        ui.error(&error);
        return night.say(&End::not_measured(error.exit_code(), error.to_string()));
    }
    let end = night.end().unwrap_or_else(|error| {
        ui.error(&error);
        End::not_measured(error.exit_code(), error.to_string())
    });
    night.conclude(end)
}

struct Night<'a> {
    args: &'a Args,
    ui: &'a Ui,
    /// Of the record in the folder of nights.
    name: String,
    record: PathBuf,
}

impl Night<'_> {
    fn end(&self) -> Result<End, ExpectedError> {
        for file in end::FILES {
            let path = self.args.reports.join(file);
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(ExpectedError::from_write(path, error));
                }
                _ => {}
            }
        }
        let folder = &self.args.folder;
        let failed = |error| ExpectedError::from_write(folder, error);
        std::fs::create_dir_all(folder.join(STAGING)).map_err(failed)?;
        if self.args.no_gpu {
            return match gpu_of_host() {
                None => Ok(End::not_measured(ExitCode::Done, "this host has no GPU, as declared")),
                Some(found) => {
                    let text =
                        format!("--no-gpu declares that this host has none, and it has {found}");
                    Err(ExpectedError::usage(text, Some("leave --no-gpu out")))
                }
            };
        }
        for folder in [self.args.reports.as_path(), self.metrics()] {
            std::fs::create_dir_all(folder)
                .map_err(|error| ExpectedError::from_write(folder, error))?;
        }
        let _lock = self.lock()?;
        match self.measure()? {
            Err(end) => Ok(end),
            Ok(code) => self.judge(code),
        }
    }

    fn check(&self) -> Result<(), ExpectedError> {
        let matrix = &self.args.matrix;
        let given = [
            ("--out", matrix.out.out.is_some()),
            ("--resume", matrix.resume.is_some()),
            ("--nights", matrix.nights.is_some()),
            ("--full", matrix.full),
        ];
        if let Some((flag, _)) = given.into_iter().find(|(_, is)| *is) {
            let text =
                format!("{flag} is decided by nightly: records go to DIR, reports to --reports");
            return Err(ExpectedError::usage(text, None));
        }
        run_folder::check_of_many("DIR", &self.args.folder)?;
        if is_record(&self.args.folder) {
            let text = format!(
                "{} is a record, and nights go to a folder of records",
                self.args.folder.display()
            );
            return Err(ExpectedError::usage(text, Some("name another folder, or its parent")));
        }
        if ![TEXT, JSON].contains(&matrix.format.as_str()) {
            let text = "a night prints its verdict (accepted: text, json); reports go to --reports";
            return Err(ExpectedError::usage(text, None));
        }
        let metrics = self.metrics();
        if metrics.exists() && !metrics.is_dir() {
            let text = format!("{} is no folder, and metrics are files in one", metrics.display());
            return Err(ExpectedError::usage(text, Some("name a folder with --metrics")));
        }
        let several = "a night measures one GPU (accepted: one --device; a night for each GPU)";
        matrix.devices.one().map(|_| ()).map_err(|_| ExpectedError::usage(several, None))
    }

    fn wait(&self) -> Duration {
        Duration::from_secs(60 * self.args.matrix.wait.unwrap_or(WAIT_MINUTES))
    }

    /// Holds other nights of this folder back.
    fn lock(&self) -> Result<GpuLock, ExpectedError> {
        let mut waited = Duration::ZERO;
        loop {
            match GpuLock::take_in(&self.args.folder, "nightly") {
                Ok(lock) => return Ok(lock),
                Err(LockError::Io { path, source }) => {
                    return Err(ExpectedError::from_write(path, source));
                }
                Err(LockError::Held { holder, .. }) if waited >= self.wait() => {
                    let folder = self.args.folder.display();
                    let minutes = self.wait().as_secs() / 60;
                    let reason =
                        format!("another night held {folder} for {minutes} minutes ({holder})");
                    return Err(ExpectedError::NothingRan { reason });
                }
                Err(LockError::Held { .. }) => std::thread::sleep(WAIT_STEP),
            }
            waited += WAIT_STEP;
        }
    }

    /// Measures into the folder of nights; an error is a night without a record.
    fn measure(&self) -> Result<Result<ExitCode, End>, ExpectedError> {
        let staging = self.args.folder.join(STAGING).join(&self.name);
        let lines = RefCell::new(String::new());
        let line = |line: &str| {
            self.ui.note(line);
            if let Some(error) = line.strip_prefix("error: ") {
                *lines.borrow_mut() = error.to_owned();
            }
        };
        let limit = Duration::from_secs(60 * self.args.limit);
        let (ended, printed, is_late) = event_loop(async |stop| {
            let started = match Started::with(self.arguments(&staging)) {
                Ok(started) => started,
                Err(error) => return Ok((child::End::of_error(&error), Vec::new(), false)),
            };
            let pid = started.pid();
            let mut run = pin!(started.end(stop, line));
            tokio::select! {
                (end, printed) = &mut run => return Ok((end, printed, false)),
                () = sleep(limit) => {}
            }
            let send = |signal| pid.into_iter().for_each(|pid| signal_process(pid, signal));
            send(Signal::TERM);
            tokio::select! {
                (end, printed) = &mut run => return Ok((end, printed, true)),
                () = sleep(END_LIMIT) => {}
            }
            send(Signal::KILL);
            let (end, printed) = run.await;
            Ok((end, printed, true))
        })?;
        self.write(end::MATRIX, &printed)?;
        let code = ended.code();
        let is_whole =
            matches!(code, ExitCode::Done | ExitCode::TrialFailed | ExitCode::Inconclusive);
        if is_whole && !is_late && staging.join(RECORD_FILE).is_file() {
            std::fs::rename(&staging, &self.record)
                .map_err(|error| ExpectedError::from_write(&self.record, error))?;
            // It stays while it holds what a killed night left.
            let _ = std::fs::remove_dir(self.args.folder.join(STAGING));
            return Ok(Ok(code));
        }
        let said = lines.into_inner();
        let reason = match &ended {
            _ if is_late => {
                format!("the measurement did not end within {} minutes", self.args.limit)
            }
            child::End::Code(_) if !said.is_empty() => said,
            child::End::Killed(signal) => format!("the measurement was killed by signal {signal}"),
            child::End::Unstartable(why) | child::End::Lost(why) => why.clone(),
            _ => format!("the measurement ended with {} and left no record", code.code()),
        };
        let code = if is_late || code == ExitCode::Done { ExitCode::NothingRan } else { code };
        Ok(Err(End::not_measured(code, reason)))
    }

    /// The command line of the measurement: this one, with the verb and what is of the night
    /// replaced.
    fn arguments(&self, staging: &Path) -> impl Iterator<Item = OsString> {
        let own = std::env::args_os().skip(1);
        let mut own = child::arguments(own, &OWN, &["--no-gpu"]);
        if let Some(verb) = own.iter().position(|word| word == "nightly") {
            own[verb] = "matrix".into();
        }
        // A value of a flag that is equal is followed by the folder, so either may go.
        let folder = own.iter().position(|word| word == self.args.folder.as_os_str());
        folder.map(|at| own.remove(at));
        let wait = (self.wait().as_secs() / 60).to_string();
        let more: [OsString; 6] = [
            "--out".into(),
            staging.into(),
            "--nights".into(),
            self.args.folder.clone().into(),
            "--wait".into(),
            wait.into(),
        ];
        let is_fixed = self.args.matrix.profile.rotation.is_some();
        let more =
            more.into_iter().enumerate().filter(move |(at, _)| !(is_fixed && [2, 3].contains(at)));
        own.into_iter().chain(more.map(|(_, word)| word))
    }

    /// Compares the record of this night, which the measurement left with this exit code.
    fn judge(&self, code: ExitCode) -> Result<End, ExpectedError> {
        let opened = open_scored(&self.record, Repair::No)?;
        let is_doubtful = say_warnings(&opened, self.ui);
        let code = if is_doubtful { code.worst(ExitCode::TrialFailed) } else { code };
        for (name, file) in [("md", end::REPORT), ("junit", end::MATRIX_XML)] {
            self.write(file, &rendered(&opened, name)?)?;
        }
        let history = nights_so_far(&self.args.folder)?;
        say_left_out(&history.left_out, self.ui);
        let is_tonight =
            |one: &&Session| Path::new(&one.name).file_name() == self.record.file_name();
        let Some(tonight) = history.sessions.iter().find(is_tonight) else {
            return Err(internal(format!("{} is not among the nights", self.record.display())));
        };
        let compared = self.compare(&history.sessions, tonight)?;
        let folders = std::slice::from_ref(&self.args.folder);
        let known = acknowledged(folders)?;
        let own = |one: &&Session| one.facts.get("uuid") == tonight.facts.get("uuid");
        let own: Vec<Session> = history.sessions.iter().filter(own).cloned().collect();
        let all = History::of(&own, Vec::new(), &declared(folders)?, None).map_err(internal)?;
        let found = end::Found { compared: &compared, nights: &all.acknowledged(&known) };
        let end = end::of(&opened.run, &history.sessions, tonight, &found, code, &known);
        let summary = match &compared {
            Compared::With(report) => {
                let text =
                    render::diff(report, render::Format::Junit, Detail::Changes, Look::PIPED);
                self.write(end::DIFF_XML, text.map_err(internal)?.as_bytes())?;
                let page =
                    render::diff(report, render::Format::Markdown, Detail::Changes, Look::PIPED);
                page.map_err(internal)?.into_bytes()
            }
            Compared::Nothing(_) => rendered(&opened, "md")?,
        };
        self.write(end::SUMMARY, &summary)?;
        let text = String::from_utf8_lossy(&rendered(&opened, "openmetrics")?).into_owned();
        let text = metrics::figures(&text, &opened.run, &compared);
        write_whole(
            &self.metrics().join(metrics::name("figures", &opened.run.device.uuid)),
            &text,
        )?;
        let reason = Labels::of_records(&[&opened.run]).relabel(&end.reason);
        Ok(End { reason, device: Some(DeviceLabels::of(&opened.run)), ..end })
    }

    fn compare(&self, history: &[Session], tonight: &Session) -> Result<Compared, ExpectedError> {
        let mut options = Options::default();
        let name = self.args.baseline.as_deref();
        let tonight = std::slice::from_ref(tonight);
        match baseline(history, &self.args.folder, name, tonight, &mut options) {
            Ok(before) => {
                let report = diff::diff(&before, tonight, &options).map_err(internal)?;
                Ok(Compared::With(Box::new(report)))
            }
            Err(ExpectedError::NoBaseline { problem, .. }) => Ok(Compared::Nothing(problem)),
            Err(error) => Err(error),
        }
    }

    fn write(&self, file: &str, bytes: &[u8]) -> Result<(), ExpectedError> {
        write_whole(&self.args.reports.join(file), bytes)
    }

    fn metrics(&self) -> &Path {
        self.args.metrics.as_ref().unwrap_or(&self.args.reports)
    }

    /// Writes how the night ended to every place that can be written, and prints it last.
    fn conclude(&self, mut end: End) -> Result<ExitCode, ExpectedError> {
        if end.outcome == Outcome::Passed && self.args.matrix.strict {
            end.code = end.code.worst(end.warning.unwrap_or(ExitCode::Done));
        }
        let written = self.announce(&end);
        if let Err(error) = written {
            self.ui.error(&error);
            end.code = end.code.worst(error.exit_code());
            end.reason += &format!("; {error}");
        }
        self.say(&end)
    }

    /// Prints the verdict, the last line.
    fn say(&self, end: &End) -> Result<ExitCode, ExpectedError> {
        let record = self.record.is_dir().then_some(self.record.as_path());
        self.ui.print(&match self.args.matrix.format == JSON {
            true => versioned_json("nightly", &Verdict::of(end, record))?,
            false => format!("nightly: {}\n", end.words()),
        })?;
        Ok(end.code)
    }

    fn announce(&self, end: &End) -> Result<(), ExpectedError> {
        let line = format!("{}\t{}\t{}\n", self.name, end.words(), self.device());
        let listed = append(&self.args.folder.join(end::LIST), &line);
        let summary = self.args.reports.join(end::SUMMARY);
        let above = regular_file::read(&summary, SUMMARY_MAX).unwrap_or_default();
        let mut text = format!("**{}**\n\n", end.words()).into_bytes();
        text.extend(above);
        let junit = end.junit().map_err(internal)?;
        let reported = self
            .write(end::SUMMARY, &text)
            .and_then(|()| self.write(end::NIGHT_XML, junit.as_bytes()));
        if let Some(file) = std::env::var_os("GITHUB_STEP_SUMMARY") {
            append(Path::new(&file), &String::from_utf8_lossy(&text))?;
        }
        if let Some(line) = end.annotations() {
            self.ui.print(&line)?;
        }
        if let Some(links) = end.links() {
            self.write(end::ANNOTATIONS, links.as_bytes())?;
        }
        let device = self.labels(end)?;
        let unknown = self.metrics().join(metrics::name("night", &self.device()));
        let path = if device.uuid.is_empty() {
            unknown
        } else {
            // Of a night before, which did not know the GPU.
            let _ = std::fs::remove_file(unknown);
            self.metrics().join(metrics::name("night", &device.uuid))
        };
        let group = metrics::group(&device);
        let text = metrics::outcome(end, device);
        write_whole(&path, text.as_bytes())?;
        if let Some(url) = &self.args.push {
            let figures = end.device.as_ref().map(|of| metrics::name("figures", &of.uuid));
            let figures = figures.map(|name| self.metrics().join(name));
            let figures =
                figures.map(|path| read_text("metrics", &path, SUMMARY_MAX)).transpose()?;
            metrics::push(url, &group, figures.unwrap_or_default() + &text)?;
        }
        listed.and(reported)
    }

    fn device(&self) -> String {
        let one = self.args.matrix.devices.one().ok().flatten();
        one.map_or_else(|| "first".to_owned(), ToString::to_string)
    }

    /// The GPU: as measured, as named, or that of all nights so far.
    fn labels(&self, end: &End) -> Result<DeviceLabels, ExpectedError> {
        if let Some(of) = &end.device {
            return Ok(of.clone());
        }
        let named = self.device();
        if named.starts_with("GPU-") || named.starts_with("MIG-") {
            return Ok(DeviceLabels { uuid: named, ..DeviceLabels::default() });
        }
        let nights = nights_so_far(&self.args.folder)?.sessions;
        let of = |name: &str| {
            let values: BTreeSet<_> = nights.iter().filter_map(|one| one.facts.get(name)).collect();
            let only = values.first().filter(|_| values.len() == 1);
            only.map_or_else(String::new, ToString::to_string)
        };
        Ok(DeviceLabels { uuid: of("uuid"), gpu: String::new(), hostname: of("hostname") })
    }
}

/// The record in a format of `report`.
fn rendered(opened: &Opened, name: &str) -> Result<Vec<u8>, ExpectedError> {
    let format = format::find(name).ok_or_else(|| internal(format!("no format {name}")))?;
    let options =
        RenderOptions { look: Look::PIPED, ..report_options(opened, format, View::Screen, &[]) };
    let mut text = Vec::new();
    (format.render)(&shown(&opened.run), &options, &mut text).map_err(internal)?;
    Ok(text)
}

/// Adds text to a regular file, which is made where it is missing.
fn append(path: &Path, text: &str) -> Result<(), ExpectedError> {
    let appended = regular_file::append(path).and_then(|mut file| file.write_all(text.as_bytes()));
    appended.map_err(|error| ExpectedError::from_write(path, error))
}

/// The first GPU of NVIDIA that this host shows without a driver that answers.
fn gpu_of_host() -> Option<String> {
    let devices = std::fs::read_dir("/sys/bus/pci/devices").into_iter().flatten().flatten();
    let of = |at: &Path, name: &str| std::fs::read_to_string(at.join(name)).unwrap_or_default();
    let mut displays = devices.map(|entry| entry.path()).filter(|at| {
        // The vendor of NVIDIA, and the class of display controllers.
        of(at, "vendor").trim() == "0x10de" && of(at, "class").starts_with("0x03")
    });
    let nodes = ["/dev/nvidia0", "/dev/nvidiactl", "/dev/dxg"].map(PathBuf::from);
    let mut nodes = nodes.into_iter().filter(|path| path.exists());
    displays.next().or_else(|| nodes.next()).map(|path| path.display().to_string())
}
