//! `gpubench matrix`: the main job. Plans, runs, judges, reports.

use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use gpubench_record::{Cell, ExitCode, RunRecord};
use gpubench_reports::{RenderOptions, format};
use gpubench_workloads::fault;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use super::common::{DeviceFlag, OutFlag, ProfileFlags, exit_codes_help};
use super::ui::{Progress, Ui};
use crate::error::ExpectedError;
use crate::judge::{
    DeviceSession, calibration, capabilities, conclude, expected, host_facts, journal, kernel_log,
    provenance, ptx_hash, verdict,
};
use crate::plan;
use crate::profile::{Profile, TRIALS_MAX};
use crate::run::{
    self, HostSetup, KernelLog, Observer, RunClock, RunEnd, RunError, RunPhase, Setup,
};
use crate::tenant::Spawner;

/// What the statuses 3 and 4 say of a mechanism.
const WHO_DECIDES: &str = "\n\nA mechanism that cannot be set up, or whose proof does not hold, \
failed: 4. One that cannot run here is waived: 3 if only the reference is left, 3 if --mechanism \
names it, and 0 if \"all\" or the profile brought it.";

/// Measures every mechanism on every axis and prints one matrix
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit_codes_help(&[
    ExitCode::Done, ExitCode::Internal, ExitCode::Usage, ExitCode::NothingRan,
    ExitCode::TrialFailed, ExitCode::OutputFailed, ExitCode::NotRestored, ExitCode::Inconclusive,
    ExitCode::Interrupted,
]) + WHO_DECIDES)]
pub struct Args {
    #[command(flatten)]
    device: DeviceFlag,
    #[command(flatten)]
    profile: ProfileFlags,
    #[command(flatten)]
    out: OutFlag,
    /// Use the calibration in this record or file, in place of a new one
    ///
    /// Records compare only if their victims do the same work, so a later run on the same GPU
    /// takes over the calibration of the first.
    #[arg(long, value_name = "RECORD|FILE")]
    calibration: Option<PathBuf>,
    /// After the cells, probe each mechanism: memory, SMs, shares, launches, driver calls
    ///
    /// Questions whose answer is no rate (`gpubench list probes`). Those of memory make rows of
    /// their axis; the others explain the rows of compute and move no level.
    #[arg(long)]
    probes: bool,
    /// After the cells, try to get past the limits that mechanisms set
    ///
    /// By every call that takes memory or launches work, by other ways to the driver's functions,
    /// by another tenant's memory, and with the tenant's environment dropped. Each way says by how
    /// much it escaped, or that it was contained. Not for a GPU that other people use.
    #[arg(long)]
    escape: bool,
    /// Break things too: all faults, or only these (separate by commas)
    ///
    /// Each fault happens in a process of its own while victims run, from benign to severe, and
    /// what it leaves on the GPU has a deadline. Where the GPU asks for a reset they end at once,
    /// and the status is 4. Not for a GPU that others use.
    #[arg(
        long,
        value_name = "NAME",
        num_args = 0..,
        require_equals = true,
        value_delimiter = ',',
        value_parser = PossibleValuesParser::new(fault_names()),
    )]
    faults: Option<Vec<String>>,
    /// Trials of each fault under each mechanism, in place of the profile's
    ///
    /// 14 that are all contained show L2, 59 show L3. Those of several records of one device and
    /// driver add up: `gpubench report NIGHT1 NIGHT2...`.
    #[arg(
        long,
        value_name = "N",
        requires = "faults",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(TRIALS_MAX)),
    )]
    fault_trials: Option<u32>,
    /// End with status 10 if anything is inconclusive
    #[arg(long)]
    strict: bool,
}

fn fault_names() -> Vec<&'static str> {
    fault::CATALOGUE.iter().map(|fault| fault.name).collect()
}

impl Args {
    /// Whether what is asked for goes together.
    fn check(&self, profile: &Profile) -> Result<(), ExpectedError> {
        let wants_more = self.probes || self.escape || self.faults.is_some();
        if wants_more && profile.foreign.victim().is_some() {
            return Err(ExpectedError::Usage {
                problem: "a program of your own is measured, and cannot be probed or broken"
                    .to_owned(),
                remedy: Some(
                    "leave out --probes, --escape and --faults, or --victim-cmd".to_owned(),
                ),
            });
        }
        Ok(())
    }

    /// What is wanted of faults; nothing unless asked for.
    fn fault_wish(&self, session: &DeviceSession, profile: &Profile) -> Option<plan::FaultWish> {
        let names = self.faults.clone()?;
        let planted = match session.clock() {
            RunClock::Virtual(device) => device.machine().defects.illegal_instruction_threads,
            RunClock::Wall => 0,
        };
        Some(plan::FaultWish {
            names,
            trials: self.fault_trials.unwrap_or(profile.faults.trials),
            is_virtual_time: session.clock().is_virtual(),
            plants_illegal_instruction: planted > 0,
        })
    }
}

/// Runs it.
///
/// # Errors
/// When nothing could run or be written; what was measured until then is in the record's folder.
pub fn run(args: &Args, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let profile = args.profile.load()?;
    args.check(&profile)?;
    let (device, options) = (args.device.device.as_ref(), args.profile.host_options());
    let time = host_facts::time_mode(device, &options, &profile);
    let session = DeviceSession::open(device, profile.seed, time)?;
    let journal = journal::journal_of(&session)?;
    let facts = host_facts::of_session(&session, &options, &profile);
    let mut plan = plan::plan(&profile, &capabilities(&facts, &profile), &ptx_hash())?;
    if let Some(wish) = args.fault_wish(&session, &profile) {
        plan::add_faults(&mut plan, &wish);
    }
    let calibration = args
        .calibration
        .as_deref()
        .map(|path| calibration::read(path, &plan))
        .transpose()?;
    let out = args
        .out
        .out
        .clone()
        .unwrap_or_else(|| default_out(&plan.profile));
    make_out(&out)?;
    let kernel_log = kernel_log::open(&session);
    let setup = Setup {
        out: out.clone(),
        clock: session.clock(),
        nvml: session.nvml(),
        identity: session.identity().clone(),
        provenance: {
            let mut provenance = provenance(&session.clock());
            let seen = host_facts::labels(&facts).join("; ");
            let host = &mut provenance.host;
            host.insert("seen".to_owned(), seen);
            host.insert("kernel_log".to_owned(), kernel_log::describe(&kernel_log));
            provenance
        },
        spawner: Spawner::new(session.environment()).map_err(|error| ExpectedError::Internal {
            what: format!("this program cannot find itself: {error}"),
        })?,
        calibration,
        probes: args.probes,
        escape: args.escape,
        host: HostSetup::new(profile, facts, journal),
        plan,
    };
    let mut progress = Told {
        progress: ui.progress(setup.plan.cells.len() as u64, setup.plan.blocks),
    };
    let end = drive(setup, kernel_log.ok(), &mut progress);
    progress.progress.finish();
    // What ended the run comes first: with a full disk its conclusion cannot be written either.
    let judged = match (conclude(&out), end) {
        (Ok(judged), end) => (judged, end),
        (Err(_), Err(error)) | (Err(error), Ok(_)) => return Err(error),
    };
    let code = tell(args, ui, &out, &judged.0, judged.1)?;
    drop(session);
    Ok(code)
}

/// Runs the plan, and lets Ctrl-C and SIGTERM stop it.
fn drive(
    setup: Setup,
    kernel_log: Option<KernelLog>,
    observer: &mut Told,
) -> Result<RunEnd, ExpectedError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| ExpectedError::Internal {
            what: format!("event loop: {error}"),
        })?;
    let out = setup.out.clone();
    let by_program = setup.plan.foreign.is_some();
    runtime.block_on(async move {
        // Caught before the first file of the record is there: whoever finds one is told of an end.
        let wanted = Signals::catch()?;
        let (stop, stopped) = watch::channel(false);
        let signals = tokio::spawn(async move {
            wanted.wait().await;
            // The receiver lives as long as the run.
            let _ = stop.send(true);
            // Kept until the run is over: a dropped sender would look like a signal.
            std::future::pending::<()>().await;
        });
        let end = run::run(setup, kernel_log, stopped, observer).await;
        signals.abort();
        end.map_err(|error| match error {
            RunError::Tenant(error) if by_program => expected::from_user_victim(error),
            error => expected::from_run(error, &out),
        })
    })
}

/// The signals by which a user ends a run.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// From here on they no longer end the process by themselves.
    fn catch() -> Result<Self, ExpectedError> {
        let catch = |kind| {
            signal(kind).map_err(|error| ExpectedError::Internal {
                what: format!("signal handlers: {error}"),
            })
        };
        Ok(Self {
            interrupt: catch(SignalKind::interrupt())?,
            terminate: catch(SignalKind::terminate())?,
        })
    }

    /// Waits for the user to want an end.
    async fn wait(mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Prints the matrix and decides the status.
fn tell(
    args: &Args,
    ui: &Ui,
    out: &Path,
    (record, warnings): &(RunRecord, Vec<String>),
    end: Result<RunEnd, ExpectedError>,
) -> Result<ExitCode, ExpectedError> {
    let options = RenderOptions {
        color: ui.color_on_stdout(),
        width: ui.width_of_stdout(),
        record_dir: Some(out.display().to_string()),
        warnings: warnings.clone(),
        latency: Vec::new(),
    };
    for (name, to_file) in [("terminal", None), ("html", Some("report.html"))] {
        let mut text = Vec::new();
        if let Some(format) = format::find(name) {
            format
                .render(record, &options, &mut text)
                .map_err(|error| ExpectedError::Internal {
                    what: format!("{name} report: {error}"),
                })?;
        }
        match to_file {
            None => ui.print_bytes(&text)?,
            Some(file) => {
                let path = out.join(file);
                std::fs::write(&path, &text).map_err(|e| ExpectedError::from_write(&path, e))?;
            }
        }
    }
    if end? == RunEnd::Interrupted {
        return Err(ExpectedError::Interrupted {
            record: out.to_path_buf(),
        });
    }
    verdict::exit_code(record, &args.profile.mechanism, args.strict)
}

/// The folder of a run that was given none: one for each run, never an old one.
fn default_out(profile: &str) -> PathBuf {
    let stamp = run::rfc3339_now().replace([':', '-'], "");
    PathBuf::from("gpubench-out").join(format!("{stamp}-{profile}-{}", std::process::id()))
}

/// Makes the folder and shows that it can be written before anything is measured.
fn make_out(out: &Path) -> Result<(), ExpectedError> {
    std::fs::create_dir_all(out).map_err(|error| ExpectedError::from_write(out, error))?;
    let probe = out.join(".writable");
    std::fs::write(&probe, b"").map_err(|error| ExpectedError::from_write(out, error))?;
    std::fs::remove_file(&probe).map_err(|error| ExpectedError::from_write(out, error))
}

/// Tells the user how the run goes.
struct Told {
    progress: Progress,
}

impl Observer for Told {
    fn phase(&mut self, phase: &RunPhase) {
        self.progress.note(&phase.to_string());
    }

    fn cell_begins(&mut self, cell: &Cell) {
        let what = format!(
            "{} {} {}",
            cell.victim,
            cell.condition.as_str(),
            cell.variant
        );
        self.progress.cell_begins(cell.block, &what);
    }

    fn cell_ends(&mut self, cell: &Cell, failure: Option<&str>) {
        if let Some(reason) = failure {
            self.progress.note(&format!("{}: {reason}", cell.id));
        }
        self.progress.cell_ends();
    }
}
