//! `gpubench matrix`: plans, runs, scores and reports.

use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use gpubench_record::{Cell, ExitCode, RunRecord};
use gpubench_reports::{RenderOptions, format};
use gpubench_workloads::fault;

use super::common::{DeviceFlag, OutFlag, ProfileFlags, exit_codes_help, whole};
use super::signals::run_until_signal;
use super::ui::{Progress, Ui};
use crate::error::ExpectedError;
use crate::judge::{
    DeviceSession, MatrixRequest, conclude, host_facts, latency_charts, matrix_setup, open,
    run_folder, verdict,
};
use crate::profile::{Profile, TRIALS_MAX};
use crate::run::{Observer, RunEnd, RunPhase};

/// When a mechanism ends the run with exit code 3 or 4.
const MECHANISM_CODES: &str = "\n\nA mechanism fails (4) if it cannot be set up or its proof does \
not hold. A mechanism that cannot run on this host is waived: the run ends with 3 if --mechanism \
names it or no other mechanism could run, else with 0.";

/// The exit codes of this verb.
pub const EXIT_CODES: &[ExitCode] = &[
    ExitCode::Done,
    ExitCode::Internal,
    ExitCode::Usage,
    ExitCode::NothingRan,
    ExitCode::TrialFailed,
    ExitCode::OutputFailed,
    ExitCode::NotRestored,
    ExitCode::Inconclusive,
    ExitCode::Interrupted,
];

/// Measures the isolation of every sharing mechanism on every axis
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit_codes_help(EXIT_CODES) + MECHANISM_CODES)]
pub struct Args {
    #[command(flatten)]
    device: DeviceFlag,
    #[command(flatten)]
    profile: ProfileFlags,
    #[command(flatten)]
    out: OutFlag,
    /// Reuse the calibration of this record or file
    ///
    /// Records are comparable only if their victims do the same work. Pass the first record of a
    /// GPU to its later runs.
    #[arg(long, value_name = "RECORD|FILE")]
    calibration: Option<PathBuf>,
    /// After the cells, probe each mechanism (`gpubench list probes`)
    ///
    /// Probes are checks that do not produce a throughput: memory, SMs, shares, launches, driver
    /// calls. Memory probes add rows to the matrix; the others explain rows of the compute axis and
    /// change no level.
    #[arg(long)]
    probes: bool,
    /// After the cells, try to bypass the limits of each mechanism
    ///
    /// Tries every call that allocates memory or launches work, other ways to look up driver
    /// functions, the memory of another tenant, and a process without the tenant's environment.
    /// The report says for each attempt by how much it exceeded the limit, or "contained".
    /// Do not use on a GPU with other users.
    #[arg(long)]
    escape: bool,
    /// After the cells, inject faults: all, or only these (separate by commas)
    ///
    /// Each fault is injected in its own process while victims run, from benign to severe. The GPU
    /// must recover within a time limit. If it requires a reset, the trials stop and the exit code
    /// is 4. Do not use on a GPU with other users.
    #[arg(
        long,
        value_name = "NAME",
        num_args = 0..,
        require_equals = true,
        value_delimiter = ',',
        value_parser = PossibleValuesParser::new(fault_names()),
    )]
    faults: Option<Vec<String>>,
    /// Trials of each fault under each mechanism [default: that of the profile]
    ///
    /// 14 contained trials without a failure are evidence for L2, 59 for L3. Trials of several
    /// records of one device and driver add up: `gpubench report NIGHT1 NIGHT2...`.
    #[arg(
        long,
        value_name = "N",
        requires = "faults",
        value_parser = whole::<u32>(1, TRIALS_MAX.into()),
    )]
    fault_trials: Option<u32>,
    /// End with exit code 10 if any row is inconclusive
    #[arg(long)]
    strict: bool,
}

fn fault_names() -> Vec<&'static str> {
    fault::CATALOGUE.iter().map(|fault| fault.name).collect()
}

impl Args {
    /// Refuses flags that contradict the profile.
    fn check(&self, profile: &Profile) -> Result<(), ExpectedError> {
        let has_extras = self.probes || self.escape || self.faults.is_some();
        if has_extras && profile.user_victim.victim().is_some() {
            return Err(ExpectedError::Usage {
                problem:
                    "--probes, --escape and --faults need built-in victims, and the victim is \
                          a user program"
                        .to_owned(),
                remedy: Some(
                    "leave out --probes, --escape and --faults, or --victim-cmd".to_owned(),
                ),
            });
        }
        Ok(())
    }

    fn request(&self) -> MatrixRequest {
        MatrixRequest {
            calibration: self.calibration.clone(),
            probes: self.probes,
            escape: self.escape,
            faults: self.faults.clone(),
            fault_trials: self.fault_trials,
        }
    }
}

/// Runs the matrix and prints its report.
///
/// # Errors
/// When nothing could run or be written. The record has all measurements until then.
pub fn run(args: &Args, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let profile = args.profile.load()?;
    args.check(&profile)?;
    let (device, options) = (args.device.device.as_ref(), args.profile.host_options());
    let time = host_facts::time_mode(device, &options, &profile);
    let session = DeviceSession::open(device, profile.seed, time)?;
    let out = args.out.out.clone();
    let out = out.unwrap_or_else(|| run_folder::default_path(&profile.name));
    let (setup, kernel_log) = matrix_setup(&session, &options, profile, &args.request(), &out)?;
    let mut progress = ProgressObserver {
        progress: ui.progress(setup.plan.cells.len() as u64, setup.plan.blocks),
    };
    let end = run_until_signal(setup, kernel_log, &mut progress);
    progress.progress.finish();
    // The error of the run has priority: on a full disk the scores cannot be written either.
    let judged = match (conclude(&out), end) {
        (Ok(judged), end) => (judged, end),
        (Err(_), Err(error)) | (Err(error), Ok(_)) => return Err(error),
    };
    let code = present(args, ui, &out, &judged.0, judged.1)?;
    drop(session);
    Ok(code)
}

/// Prints the matrix, writes the page and decides the exit code.
fn present(
    args: &Args,
    ui: &Ui,
    out: &Path,
    (record, warnings): &(RunRecord, Vec<String>),
    end: Result<RunEnd, ExpectedError>,
) -> Result<ExitCode, ExpectedError> {
    let mut warnings = warnings.clone();
    let latency = latency_charts(&open(out)?, record, &mut warnings);
    let options = RenderOptions {
        color: ui.color_on_stdout(),
        width: ui.width_of_stdout(),
        record_dir: Some(out.display().to_string()),
        warnings,
        latency,
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

/// Shows the progress of a run.
struct ProgressObserver {
    progress: Progress,
}

impl Observer for ProgressObserver {
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
