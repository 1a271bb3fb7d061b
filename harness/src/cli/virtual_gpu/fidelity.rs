//! `gpubench virtual-gpu fidelity`: the virtual GPU beside records of hardware.

use std::path::{Path, PathBuf};

use gpubench_compare::fidelity::{Compared, Conclusion, Fidelity, Pair, Reasons};
use gpubench_compare::render::{self, FidelityFormat};
use gpubench_record::{ExitCode, RunRecord};

use crate::cli::common::{OutputFlag, exit_codes_help, whole};
use crate::cli::comparing::{format_of, formats, internal};
use crate::cli::signals::run_until_signal;
use crate::cli::ui::Ui;
use crate::device::DeviceSelector;
use crate::error::ExpectedError;
use crate::judge::{
    DeviceSession, HostOptions, MatrixRequest, conclude, fidelity, host_facts, matrix_setup,
    rescore, session,
};
use crate::profile::{self, Overrides, Profile};
use crate::run::{RunEnd, Silent};

/// The exit codes of this verb.
pub(super) const EXIT_CODES: &[ExitCode] = &[
    ExitCode::Done,
    ExitCode::Internal,
    ExitCode::Usage,
    ExitCode::NothingRan,
    ExitCode::OutputFailed,
    ExitCode::Inconclusive,
    ExitCode::Regression,
    ExitCode::Interrupted,
];

/// What the exit codes mean here.
pub(super) const CODES: &str = "\n\nIt ends with 0 where every row is within its bounds or listed \
in --reasons, with 10 where a row is not, or a listed row is within its bounds, and with 30 where \
the model is more optimistic than the hardware in a row that is not listed as such.";

/// Repeat records of real GPUs on the virtual GPU, and print both row by row
///
/// Each record's plan runs on the machine that models its GPU: the same mechanisms, pairs of victim
/// and aggressor, doses, lengths, probes, faults and seed, with fewer blocks. Requests are sized
/// for the virtual GPU, as in any run, so that the work of a tenant alone is compared too.
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit_codes_help(EXIT_CODES) + CODES)]
pub(super) struct Args {
    /// Records of real GPUs, folders of records, or quoted patterns
    #[arg(required = true, value_name = "RECORD")]
    records: Vec<PathBuf>,
    /// Built-in machine, or path of a machine file [default: the one that models the record's GPU]
    #[arg(long, value_name = "NAME|PATH")]
    machine: Option<String>,
    /// Profile with the options of mechanisms, which records do not hold
    #[arg(long, value_name = "NAME|PATH", default_value = "default")]
    profile: String,
    /// Most blocks of a run; three decide levels, jitter needs more
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = whole::<u32>(3, 1000))]
    blocks: u32,
    /// Trials of each fault of the record
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = whole::<u32>(1, 1000))]
    fault_trials: u32,
    /// List of known differences with their reasons, for these records
    #[arg(long, value_name = "FILE")]
    reasons: Option<PathBuf>,
    /// Output format
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "text",
        value_parser = formats(FidelityFormat::ALL),
    )]
    format: String,
    #[command(flatten)]
    output: OutputFlag,
}

/// Runs the model of each record and prints the comparison.
///
/// # Errors
/// When a record or list cannot be read, a run fails, or the output cannot be written.
pub(super) fn run(args: &Args, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let format = format_of(&args.format, FidelityFormat::ALL)?;
    let options = profile::load(&args.profile, &Overrides::default())?;
    let reasons = args.reasons.as_deref().map(fidelity::reasons);
    let reasons = reasons.transpose()?.unwrap_or_else(Reasons::default);
    let session::Records { records, notes, .. } = session::records(&args.records, |_| ())?;
    for line in notes {
        ui.note(&format!("warning: {line}"));
    }
    // What is wrong with a record or a machine is known before the first run.
    let machines = records.iter().map(|(name, run)| {
        let machine = fidelity::machine_name(name, run, args.machine.as_deref())?;
        let file = fidelity::load(&machine)?;
        Ok::<_, ExpectedError>((machine, fidelity::size(&file), fidelity::noticed(&file)))
    });
    let machines = machines.collect::<Result<Vec<_>, _>>()?;
    let scratch = tempfile::Builder::new().prefix("gpubench-fidelity-").tempdir();
    let scratch =
        scratch.map_err(|error| ExpectedError::from_write(std::env::temp_dir(), error))?;
    let mut compared = Vec::new();
    for (at, (record, machine)) in records.into_iter().zip(machines).enumerate() {
        let ((name, mut real), (machine, size, noticed)) = (record, machine);
        ui.note(&format!("{name} on virtual:{machine}"));
        // Old records are scored by the rules of the model's run.
        rescore(&mut real, &[]).map_err(|error| ExpectedError::RecordUnreadable {
            path: PathBuf::from(&name),
            problem: error.to_string(),
        })?;
        let out = scratch.path().join(at.to_string());
        let model = repeat(args, &real, &options, &machine, &out)?;
        compared.push(Compared::of(&Pair {
            name: &folder_name(&name),
            real: &real,
            machine: &machine,
            model: &model,
            size,
            noticed: &noticed,
        }));
    }
    let table = Fidelity::of(compared, &reasons);
    let text = render::fidelity(&table, format).map_err(internal)?;
    args.output.write(&text, ui)?;
    Ok(match table.conclusion() {
        Conclusion::Holds => ExitCode::Done,
        Conclusion::Differs => ExitCode::Inconclusive,
        Conclusion::Optimistic => ExitCode::Regression,
    })
}

/// The last part of a record's path: its name in tables and lists.
fn folder_name(path: &str) -> String {
    let name = Path::new(path).file_name();
    name.map_or_else(|| path.to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Runs the plan of a record on a machine.
fn repeat(
    args: &Args,
    real: &RunRecord,
    options: &Profile,
    machine: &str,
    out: &Path,
) -> Result<RunRecord, ExpectedError> {
    let profile = fidelity::profile(real, options.clone(), args.blocks);
    let device = DeviceSelector::Virtual(Some(machine.to_owned()));
    let host = HostOptions::default();
    let time = host_facts::time_mode(Some(&device), &host, &profile);
    let session = DeviceSession::open(Some(&device), profile.seed, time)?;
    let request = MatrixRequest {
        after_cells: fidelity::after_cells(real, args.fault_trials),
        ..MatrixRequest::default()
    };
    let run = matrix_setup(&session, &host, profile, &request, out)?;
    if run_until_signal(run.setup, run.kernel_log, &mut Silent)? == RunEnd::Interrupted {
        return Err(ExpectedError::Interrupted { record: out.to_path_buf() });
    }
    conclude(out).map(|concluded| concluded.opened.run)
}
