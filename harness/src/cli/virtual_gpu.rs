//! `gpubench virtual-gpu`: the virtual GPU for programs of the driver API.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};

use clap::builder::StringValueParser;
use gpubench_compare::fidelity::{Compared, Conclusion, Fidelity, Pair, Reasons};
use gpubench_compare::render;
use gpubench_compare::render::FORMATS;
use gpubench_host::device::{DeviceSelector, VirtualGpu};
use gpubench_plan::profile::{Overrides, Profile};
use gpubench_record::{ExitCode, RunRecord};
use gpubench_run::{RunEnd, Silent};
use gpubench_show::Table;
use gpubench_virtual_gpu::machine::Machine;
use gpubench_virtual_gpu::rules::LENIENT;
use gpubench_virtual_gpu::session::{ENV, Session, TimeMode};
use gpubench_virtual_gpu::{kernel_log, machine};
use gpubench_workloads::command::{Inherits, command as process};
use serde_json::json;

use super::Status;
use super::common::{TextFormat, exit_codes_help, versioned_json, whole};
use super::names::{Offering, machines};
use super::ui::Ui;
use crate::cli::common::OutputFlag;
use crate::cli::comparing::{format_of, formats, internal};
use crate::cli::signals::run_until_signal;
use crate::error::{ExpectedError, RECORD_BYTES_MAX, read_text};
use crate::verbs::profile::load;
use crate::verbs::{
    DeviceSession, HostOptions, MatrixRequest, conclude, fidelity, host_facts, matrix_setup,
    rescore, session, verdict,
};

pub const EXIT_CODES: &[ExitCode] = &[
    ExitCode::Done,
    ExitCode::Internal,
    ExitCode::Usage,
    ExitCode::NothingRan,
    ExitCode::OutputFailed,
    ExitCode::Inconclusive,
    ExitCode::Regression,
    ExitCode::Interrupted,
];

/// Runs a CUDA driver-API program on a GPU simulated in software
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit_codes_help(EXIT_CODES))]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Run a program on a virtual GPU in wall time, and end with its exit code
    ///
    /// The program must use the CUDA driver API or NVML. Programs of the CUDA runtime do not work,
    /// because the runtime needs an undocumented table of the driver. A call that is not
    /// implemented answers CUDA_ERROR_NOT_SUPPORTED and is named once.
    #[command(after_long_help = exit_codes_help(&[
        ExitCode::Internal, ExitCode::Usage, ExitCode::NothingRan,
    ]))]
    Exec(Exec),
    /// Start a virtual GPU, and print the environment variables that select it
    #[command(after_long_help = exit_codes_help(&[
        ExitCode::Done, ExitCode::Internal, ExitCode::Usage, ExitCode::NothingRan,
        ExitCode::OutputFailed,
    ]))]
    Env(MachineFlag),
    /// List the built-in machine files
    #[command(after_long_help = exit_codes_help(&[
        ExitCode::Done, ExitCode::Internal, ExitCode::Usage, ExitCode::OutputFailed,
    ]))]
    List {
        /// Hosts that people reported, as machines with planted answers
        #[arg(long)]
        hosts: bool,
        /// Output format
        #[arg(long, value_enum, default_value = "text")]
        format: TextFormat,
    },
    /// Print a machine file, or the state of a running virtual GPU
    ///
    /// With a name: the file of that machine. Without one: folder, machine and kernel log (one line
    /// for each Xid) of the virtual GPU in the environment, inside `virtual-gpu exec` or with the
    /// variables of `virtual-gpu env`.
    #[command(after_long_help = exit_codes_help(&[
        ExitCode::Done, ExitCode::Internal, ExitCode::Usage, ExitCode::OutputFailed,
    ]))]
    Show {
        /// Built-in machine [default: the running virtual GPU]
        name: Option<String>,
    },
    Fidelity(FidelityArgs),
}

#[derive(Debug, clap::Args)]
struct MachineFlag {
    /// Built-in machine, or path of a machine file
    #[arg(
        long,
        value_name = "NAME|PATH",
        default_value = machine::DEFAULT,
        hide_possible_values = true,
        value_parser = Offering(StringValueParser::new(), machines)
    )]
    machine: String,
    /// Seed of the simulated noise
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>(0, u64::MAX))]
    seed: u64,
}

#[derive(Debug, clap::Args)]
struct Exec {
    #[command(flatten)]
    machine: MachineFlag,
    /// The program and its arguments, after `--`
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the sub-verb.
pub fn run(args: &Args, ui: &Ui) -> Result<Status, ExpectedError> {
    match &args.what {
        What::Exec(exec) => run_program(exec).map(Status::Child),
        What::Env(flag) => print_variables(flag, ui).map(Status::Own),
        What::List { hosts: true, format } => list_hosts(*format, ui).map(Status::Own),
        What::List { format, .. } => list(*format, ui).map(Status::Own),
        What::Show { name } => {
            match name {
                Some(name) => ui.print(machine_file(name)?)?,
                None => ui.print(&running()?)?,
            }
            Ok(Status::Own(ExitCode::Done))
        }
        What::Fidelity(args) => compare_with_records(args, ui).map(Status::Own),
    }
}

fn machine_file(name: &str) -> Result<&'static str, ExpectedError> {
    let known = machine::BUILT_IN.iter().find(|(known, _)| *known == name);
    let (_, text) = known.ok_or_else(|| ExpectedError::UnknownName {
        kind: "virtual machine",
        name: name.to_owned(),
        known: machine::BUILT_IN.iter().map(|(name, _)| (*name).to_owned()).collect(),
    })?;
    Ok(text)
}

/// The virtual GPU in the environment: its machine, folder and kernel log.
fn running() -> Result<String, ExpectedError> {
    let folder = std::env::var_os(ENV).ok_or_else(|| {
        ExpectedError::usage(
            "no machine name, and no virtual GPU in the environment",
            Some("virtual-gpu show NAME, or virtual-gpu exec -- gpubench ..."),
        )
    })?;
    let folder = PathBuf::from(folder);
    let unusable = |problem: String| {
        ExpectedError::usage(problem, Some("start one: virtual-gpu exec, virtual-gpu env"))
    };
    let (_, machine) = Session::read(&folder).map_err(|error| unusable(error.to_string()))?;
    let log = kernel_log::path(&folder);
    let lines = read_text("kernel log", &log, RECORD_BYTES_MAX)?;
    Ok(format!(
        "machine     {}\nfolder      {}\nkernel log  {} ({} lines)\n{lines}",
        machine.name,
        folder.display(),
        log.display(),
        lines.lines().count(),
    ))
}

fn run_program(exec: &Exec) -> Result<u8, ExpectedError> {
    let gpu = start(&exec.machine)?;
    let (program, arguments) = exec.command.split_first().ok_or_else(|| {
        ExpectedError::usage("no program to run", Some("virtual-gpu exec -- COMMAND..."))
    })?;
    let mut program_process = process(program, Inherits::All);
    program_process.args(arguments).envs(gpu.environment()).env(LENIENT, "1");
    let status = program_process.status();
    let status = status.map_err(|error| ExpectedError::ProgramNotStarted {
        program: program.display().to_string(),
        error,
    })?;
    // Shells report a signal the same way.
    let signal = || 128 + status.signal().unwrap_or(0);
    Ok(u8::try_from(status.code().unwrap_or_else(signal)).unwrap_or(u8::MAX))
}

fn print_variables(flag: &MachineFlag, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let gpu = start(flag)?;
    let mut text = String::new();
    let lenient = (LENIENT.into(), "1".into());
    for (name, value) in gpu.environment().into_iter().chain([lenient]) {
        let value = value.to_string_lossy().replace('\'', r"'\''");
        text.push_str(&format!("export {}='{value}'\n", name.to_string_lossy()));
    }
    let folder = gpu.keep().map_err(verdict::from_virtual_gpu)?;
    text.push_str(&format!("# to end it: rm -r '{}'\n", folder.display()));
    ui.print(&text)?;
    Ok(ExitCode::Done)
}

fn start(flag: &MachineFlag) -> Result<VirtualGpu, ExpectedError> {
    VirtualGpu::start(&flag.machine, TimeMode::Wall, flag.seed).map_err(verdict::from_virtual_gpu)
}

fn list(format: TextFormat, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let mut machines = Vec::new();
    for (name, _) in machine::BUILT_IN {
        machines.push(Machine::load(name).map_err(ExpectedError::internal)?);
    }
    let text = match format {
        TextFormat::Text => {
            let rows = machines.iter().map(|m| [m.name.as_str(), &m.summary]);
            Table::plain(["machine", "summary"], rows).text(ui.look())
        }
        TextFormat::Json => {
            let rows: Vec<_> = machines
                .iter()
                .map(|m| json!({ "name": m.name, "summary": m.summary, "product": m.gpu.product }))
                .collect();
            versioned_json("virtual-gpu", &rows)?
        }
    };
    ui.print(&text)?;
    Ok(ExitCode::Done)
}

fn list_hosts(format: TextFormat, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let hosts = machine::hosts().map_err(ExpectedError::internal)?;
    let text = match format {
        TextFormat::Text => {
            let rows = hosts.iter().map(|one| [one.name.as_str(), &one.summary]);
            Table::plain(["host", "summary"], rows).text(ui.look())
        }
        TextFormat::Json => {
            let rows: Vec<_> = hosts
                .iter()
                .map(|one| {
                    json!({ "name": one.name, "summary": one.summary, "source": one.source,
                        "on": one.on })
                })
                .collect();
            versioned_json("virtual-gpu", &rows)?
        }
    };
    ui.print(&text)?;
    Ok(ExitCode::Done)
}

// `gpubench virtual-gpu fidelity`: the virtual GPU beside records of hardware.

/// What the exit codes mean here.
const CODES: &str = "\n\nIt ends with 0 where every row is within its bounds or listed \
in --reasons, with 10 where a row is not, or a listed row is within its bounds, and with 30 where \
the model is more optimistic than the hardware in a row that is not listed as such.";

/// Repeat records of real GPUs on the virtual GPU, and print both row by row
///
/// Each record's plan runs on the machine that models its GPU: the same mechanisms, pairs of victim
/// and aggressor, doses, lengths, probes, faults and seed, with fewer blocks. Requests are sized
/// for the virtual GPU, as in any run, so that the work of a tenant alone is compared too.
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit_codes_help(EXIT_CODES) + CODES)]
struct FidelityArgs {
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
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = formats(FORMATS))]
    format: String,
    #[command(flatten)]
    output: OutputFlag,
}

/// Runs the model of each record and prints the comparison.
fn compare_with_records(args: &FidelityArgs, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let format = format_of(&args.format, FORMATS)?;
    let options = load(&args.profile, &Overrides::default())?;
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
        rescore(&mut real, &[]).map_err(|error| {
            ExpectedError::unreadable_record(PathBuf::from(&name), error.to_string())
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
    let text = render::fidelity(&table, format, args.output.look(ui)).map_err(internal)?;
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
    args: &FidelityArgs,
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
