//! `gpubench matrix`: plans, runs, scores and reports.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gpubench_compare::Session;
use gpubench_host::device::DeviceSelector;
use gpubench_host::device::limits::{self, LimitError};
use gpubench_plan::Pace;
use gpubench_plan::profile::{Profile, profile_hash};
use gpubench_record::{Axis, ExitCode};
use gpubench_reports::format::TEXT;
use gpubench_reports::{RenderOptions, View, format};
use gpubench_run::RunEnd;
use gpubench_store::seal;
use gpubench_workloads::command::SIGN_PASSWORD;

use super::after_cells::AfterCellsFlags;
use super::common::{MinutesFlag, OutFlag, ProfileFlags, exit_codes_help, whole};
use super::many_devices::{DevicesFlags, Part};
use super::names::Names;
use super::report::formats;
use super::resume_flags;
use super::signals::run_until_signal;
use super::ui::Ui;
use crate::error::output::write_whole;
use crate::error::{ExpectedError, read_handed};
use crate::verbs::resume::Lacks;
use crate::verbs::session::nights_so_far;
use crate::verbs::signing::SigningKey;
use crate::verbs::{
    Concluded, DeviceSession, MatrixRequest, MatrixSetup, conclude, host_facts, matrix_setup,
    provenance, ptx_hash, report_options, resume, resumed_setup, run_folder, shown, verdict,
};

/// How often a GPU that another run holds is looked at again.
const WAIT_STEP: Duration = Duration::from_secs(2);

/// When a mechanism ends the run with exit code 3 or 4.
const MECHANISM_CODES: &str = "\n\nA mechanism fails (4) if it cannot be set up or its proof does \
not hold. A mechanism that cannot run on this host is waived: the run ends with 3 if --mechanism \
names it or no other mechanism could run, else with 0.";

pub const EXIT_CODES: &[ExitCode] = &[
    ExitCode::Done,
    ExitCode::Internal,
    ExitCode::Usage,
    ExitCode::NothingRan,
    ExitCode::TrialFailed,
    ExitCode::OutputFailed,
    ExitCode::NotRestored,
    ExitCode::Inconclusive,
    ExitCode::NotComparable,
    ExitCode::Interrupted,
];

/// Measures the isolation of every sharing mechanism on every axis
#[derive(Debug, Default, clap::Args)]
#[command(after_long_help = exit_codes_help(EXIT_CODES) + MECHANISM_CODES)]
pub struct Args {
    #[command(flatten)]
    pub(super) devices: DevicesFlags,
    #[command(flatten)]
    pub(super) profile: ProfileFlags,
    #[command(flatten)]
    pub(super) minutes: MinutesFlag,
    #[command(flatten)]
    pub(super) out: OutFlag,
    /// Go on with the interrupted run in this folder: measure the blocks that it lacks
    ///
    /// After a kill, a reboot, Ctrl-C or a requeued job. Plan, profile, seed, calibration, labels
    /// and permissions are those of the folder: a flag with another value is refused, and only
    /// --device, --retry-failed, --sign-key, --sign-password-file, --strict and --full are free.
    /// gpubench, GPU and driver must be those of the first start, else the exit code is 20.
    /// Complete blocks are kept; a block that was cut is measured again as a whole, and what was
    /// measured of it stays in the record without counting. The record names each interruption. A
    /// record that lacks nothing is refused.
    #[arg(long, value_name = "DIR")]
    pub(super) resume: Option<PathBuf>,
    /// With --resume: measure cells and fault trials again that failed
    ///
    /// A failed cell is measured again with its whole block, under the calibration of the run. What
    /// was measured of the block stays in the record without counting, and the record names the
    /// second start.
    #[arg(long, requires = "resume")]
    pub(super) retry_failed: bool,
    /// Reuse the calibration of this record or file
    ///
    /// Records are comparable only if their victims do the same work. Pass the first record of a
    /// GPU to its later runs.
    #[arg(long, value_name = "RECORD|FILE")]
    pub(super) calibration: Option<PathBuf>,
    /// Calibrate again: do not use the kept calibration of this GPU
    ///
    /// On the wall clock a run keeps its calibration in $XDG_STATE_HOME/gpubench/calibrations, and
    /// later runs on the same GPU with the same service time, share and kernels use it, so that
    /// their victims do the same work. A run with this flag replaces it.
    #[arg(long, conflicts_with = "calibration")]
    pub(super) recalibrate: bool,
    /// Label of the run, as pool=h100 (repeatable): gpubench history --by, gpubench outliers --by
    ///
    /// The record has it. GPUBENCH_LABELS has labels too, separated by commas, and @FILE for a file
    /// with one label a line; those of this flag replace them.
    #[arg(long, value_name = "KEY=VALUE", value_parser = provenance::label)]
    pub(super) label: Vec<(String, String)>,
    #[command(flatten)]
    pub(super) after_cells: AfterCellsFlags,
    /// The plan that was frozen before this run (gpubench plan --freeze)
    ///
    /// The record has its hash, and what the run left out of it, added or changed.
    #[arg(long, value_name = "FILE", conflicts_with = "resume")]
    pub(super) frozen: Option<PathBuf>,
    /// Wait so many minutes for a GPU that another run holds [default: 0]
    #[arg(long, value_name = "MINUTES", value_parser = whole::<u64>(0, 7 * 24 * 60))]
    pub(super) wait: Option<u64>,
    /// Derive the run of the rotation: the nights in DIR of this GPU and profile, modulo the cycle
    #[arg(long, value_name = "DIR", conflicts_with = "rotation")]
    pub(super) nights: Option<PathBuf>,
    /// Sign the record with this secret key of minisign: checksums.b3.minisig
    ///
    /// The signature covers every file of the record (`gpubench report --verify --public-key`). The
    /// password of the key is read from --sign-password-file, else from GPUBENCH_SIGN_PASSWORD,
    /// else asked for on the terminal, before the run starts. `minisign -G` makes a pair of keys.
    #[arg(long, value_name = "FILE")]
    sign_key: Option<PathBuf>,
    /// The password of --sign-key: the first line of a file, or of a descriptor as /dev/fd/3
    #[arg(long, value_name = "FILE", requires = "sign_key")]
    sign_password_file: Option<PathBuf>,
    /// End with exit code 10 if any row is inconclusive
    ///
    /// The row of a harmless fault is inconclusive below 17 trials (--fault-trials, --no-faults).
    #[arg(long)]
    pub(super) strict: bool,
    /// Print every table, not only the matrix on one screen
    #[arg(long)]
    pub(super) full: bool,
    /// Format of the result on stdout, as of gpubench report
    #[arg(long, value_name = "FORMAT", default_value = TEXT, value_parser = formats())]
    pub(super) format: String,
}

/// Runs the matrix and prints its report.
pub fn run(args: &Args, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let password = args.sign_password_file.as_deref();
    let key = args.sign_key.as_deref().map(|key| read(key, password)).transpose()?;
    let (session, out, setup) = match &args.resume {
        None => {
            let new = NewRun::of(args)?;
            match args.devices.one() {
                Ok(device) => new.setup(args, device)?,
                Err(several) => return several.run(&new.out, ui),
            }
        }
        Some(dir) => resumed_run(args, dir, ui)?,
    };
    let MatrixSetup { setup, kernel_log, calibrations, notes, folder: _folder } = setup;
    for note in notes {
        ui.note(&note);
    }
    let plan = setup.plan_left();
    // The axis that a short device time loses; the report would say so after the run.
    for skip in plan.skips.iter().filter(|skip| skip.axis.as_deref() == Some(Axis::Jitter.as_str()))
    {
        let remedy = skip.remedy.as_deref().map_or(String::new(), |text| format!("; set {text}"));
        ui.note(&format!("{}{remedy}", skip.reason));
    }
    let mut progress = ui.progress(&plan, Pace::of(&plan, session.is_virtual()));
    let end = run_until_signal(setup, kernel_log, &mut progress);
    progress.stores();
    // The error of the run has priority: on a full disk the scores cannot be written either.
    let concluded = conclude(&out);
    progress.finish();
    let judged = match (concluded, end) {
        (Ok(judged), end) => (judged, end),
        (Err(_), Err(error)) => return Err(error),
        (Err(error), Ok(_)) => return Err(error.after_cells()),
    };
    if let Some(file) = calibrations
        && let Err(error) = file.add(&judged.0.opened.run.calibration)
    {
        // The record has the calibration, and the next run makes its own.
        ui.note(&format!("the calibration is not kept: {error}"));
    }
    let code = present(args, ui, &out, &judged.0, judged.1, key.as_ref())?;
    drop(session);
    Ok(code)
}

struct NewRun {
    profile: Profile,
    out: PathBuf,
    labels: BTreeMap<String, String>,
}

impl NewRun {
    fn of(args: &Args) -> Result<Self, ExpectedError> {
        let profile = args.profile.load()?;
        args.after_cells.check(&profile)?;
        let out = args.out.out.clone();
        let out = out.unwrap_or_else(|| run_folder::default_path(&profile.name));
        if args.devices.one().is_ok() {
            run_folder::check(&out)?;
        }
        Ok(Self { profile, out, labels: provenance::labels_of_run(&args.label)? })
    }

    /// The device, the folder and the setup.
    fn setup(
        mut self,
        args: &Args,
        device: Option<&DeviceSelector>,
    ) -> Result<(DeviceSession, PathBuf, MatrixSetup), ExpectedError> {
        args.devices.check_one()?;
        limits_of(&self.profile)?;
        let part = Part::of_environment()?;
        let options = args.profile.host_options();
        let time = host_facts::time_mode(device, &options, &self.profile);
        let wait = Duration::from_secs(60 * args.wait.unwrap_or(0));
        let session = open_within(wait, || DeviceSession::open(device, self.profile.seed, time))?;
        if let Some(folder) = &args.nights {
            self.profile.run = rotation_of(folder, &session, &self.profile)?;
        }
        let request = MatrixRequest {
            frozen: args.frozen.clone(),
            calibration: args.calibration.clone(),
            recalibrate: args.recalibrate,
            after_cells: args.after_cells.flags(),
            labels: self.labels,
            beside: part.others,
            device: device.cloned(),
            for_minutes: args.minutes.for_minutes,
        };
        let setup = matrix_setup(&session, &options, self.profile, &request, &self.out)?;
        Ok((session, self.out, setup))
    }
}

/// Opens a device, and waits so long for one that another run holds.
fn open_within(
    wait: Duration,
    open: impl Fn() -> Result<DeviceSession, ExpectedError>,
) -> Result<DeviceSession, ExpectedError> {
    let mut waited = Duration::ZERO;
    loop {
        match open() {
            Err(ExpectedError::Busy { .. }) if waited < wait => std::thread::sleep(WAIT_STEP),
            other => return other,
        }
        waited += WAIT_STEP;
    }
}

/// How many nights of this GPU and profile the folder has: the run of the rotation.
fn rotation_of(
    folder: &Path,
    session: &DeviceSession,
    profile: &Profile,
) -> Result<u32, ExpectedError> {
    let (uuid, hash) = (&session.identity().uuid, profile_hash(profile, &ptx_hash()));
    let nights = nights_so_far(folder)?.sessions;
    let is = |night: &Session, fact: &str, value: &String| night.facts.get(fact) == Some(value);
    let of_this = nights.iter().filter(|one| is(one, "uuid", uuid) && is(one, "profile", &hash));
    Ok(u32::try_from(of_this.count()).unwrap_or(u32::MAX))
}

fn resumed_run(
    args: &Args,
    dir: &Path,
    ui: &Ui,
) -> Result<(DeviceSession, PathBuf, MatrixSetup), ExpectedError> {
    let lacks = if args.retry_failed { Lacks::CutOrFailed } else { Lacks::Cut };
    let run = resume::open(dir, lacks)?;
    resume_flags::check(args, &run)?;
    resume_flags::confirm(args, &run, ui)?;
    let device = args.devices.one().map_err(|_| {
        ExpectedError::usage(
            "--resume goes on with the run of one GPU (accepted: one --device)",
            None,
        )
    })?;
    args.devices.check_one()?;
    limits_of(&run.profile)?;
    let device = device.or(run.device.as_ref());
    let time = host_facts::time_mode(device, &run.options, &run.profile);
    let session = DeviceSession::open(device, run.profile.seed, time)?;
    let setup = resumed_setup(&session, run)?;
    Ok((session, dir.to_owned(), setup))
}

fn limits_of(profile: &Profile) -> Result<(), LimitError> {
    limits::of_run(profile.tenants, profile.device_time.ns.div_ceil(1_000_000_000))
}

/// Prints the matrix, writes the page and decides the exit code.
fn present(
    args: &Args,
    ui: &Ui,
    out: &Path,
    Concluded { opened, warnings }: &Concluded,
    end: Result<RunEnd, ExpectedError>,
    key: Option<&SigningKey>,
) -> Result<ExitCode, ExpectedError> {
    // A later report does not know these.
    for warning in warnings {
        ui.note(&format!("warning: {warning}"));
    }
    let view = if args.full { View::Full } else { View::Screen };
    for (name, to_file) in [(args.format.as_str(), None), ("html", Some("report.html"))] {
        let mut text = Vec::new();
        if let Some(format) = format::find(name) {
            let (look, lines_max) = (ui.look(), ui.lines());
            let options =
                RenderOptions { look, lines_max, ..report_options(opened, format, view, &[]) };
            (format.render)(&shown(&opened.run), &options, &mut text)
                .map_err(|error| ExpectedError::internal(format!("{name} report: {error}")))?;
        }
        match to_file {
            None => ui.print_bytes(&text)?,
            Some(file) => {
                let path = out.join(file);
                write_whole(&path, &text)?;
                seal(out).map_err(|error| verdict::from_store(out, error).after_cells())?;
            }
        }
    }
    key.map_or(Ok(()), |key| key.sign(out))?;
    if end? == RunEnd::Interrupted {
        return Err(ExpectedError::Interrupted { record: out.to_path_buf() });
    }
    let named = Names::without_options(&args.profile.mechanism);
    verdict::exit_code(&opened.run, &named, args.strict)
}

// `--sign-key`: reads the key before a run starts, and asks for its password.

/// Reads a secret key. Its password is that of the file, else that of the environment, else the
/// terminal is asked.
/// Fails when it is no key, or its password is wrong or cannot be asked for.
pub(super) fn read(path: &Path, word: Option<&Path>) -> Result<SigningKey, ExpectedError> {
    let text = read_handed("secret key", path)?;
    let name = path.display().to_string();
    SigningKey::of_text(&name, &text, || password(&name, word))
}

fn password(name: &str, file: Option<&Path>) -> Result<String, ExpectedError> {
    if let Some(file) = file {
        let text = read_handed("password", file)?;
        return Ok(text.lines().next().unwrap_or_default().to_owned());
    }
    match std::env::var(SIGN_PASSWORD) {
        Ok(password) => return Ok(password),
        Err(std::env::VarError::NotPresent) => {}
        Err(std::env::VarError::NotUnicode(_)) => {
            return Err(ExpectedError::usage(format!("{SIGN_PASSWORD} is not UTF-8"), None));
        }
    }
    // Without a terminal a question would wait for ever.
    if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
        return Err(ExpectedError::usage(
            format!(
                "the secret key {name} has a password, and there is no terminal to ask for it \
             (accepted: the variable {SIGN_PASSWORD}, --sign-password-file, or a key without a \
             password)"
            ),
            None,
        ));
    }
    let asked = rpassword::prompt_password(format!("password of the secret key {name}: "));
    asked.map_err(|error| {
        ExpectedError::usage(format!("the password cannot be read: {error}"), None)
    })
}
