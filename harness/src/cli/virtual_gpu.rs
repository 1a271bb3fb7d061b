//! `gpubench virtual-gpu`: the virtual GPU for programs of the driver API.

mod fidelity;

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;

use gpubench_record::ExitCode;
use gpubench_virtual_gpu::kernel_log;
use gpubench_virtual_gpu::machine::{self, Machine};
use gpubench_virtual_gpu::session::{ENV, Session, TimeMode};
use gpubench_workloads::command::{Inherits, command as process};
use serde_json::json;

use super::common::{TextFormat, exit_codes_help, whole};
use super::ui::{Ui, table};
use crate::device::VirtualGpu;
use crate::error::ExpectedError;
use crate::judge::verdict;

/// The exit codes of this verb.
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
        /// Output format
        #[arg(long, value_enum, default_value = "table")]
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
    Fidelity(fidelity::Args),
}

#[derive(Debug, clap::Args)]
struct MachineFlag {
    /// Built-in machine, or path of a machine file
    #[arg(long, value_name = "NAME|PATH", default_value = machine::DEFAULT)]
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

/// The exit code of this process: its own, or that of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// A documented exit code.
    Own(ExitCode),
    /// The exit code of the program that `exec` ran.
    Child(u8),
}

/// Runs the sub-verb.
///
/// # Errors
/// When the virtual GPU or the program cannot be started.
pub fn run(args: &Args, ui: &Ui) -> Result<Status, ExpectedError> {
    match &args.what {
        What::Exec(exec) => run_program(exec).map(Status::Child),
        What::Env(flag) => print_variables(flag, ui).map(Status::Own),
        What::List { format } => list(*format, ui).map(Status::Own),
        What::Show { name } => {
            match name {
                Some(name) => ui.print(machine_file(name)?)?,
                None => ui.print(&running()?)?,
            }
            Ok(Status::Own(ExitCode::Done))
        }
        What::Fidelity(args) => fidelity::run(args, ui).map(Status::Own),
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
    let folder = std::env::var_os(ENV).ok_or_else(|| ExpectedError::Usage {
        problem: "no machine name, and no virtual GPU in the environment".to_owned(),
        remedy: Some("virtual-gpu show NAME, or virtual-gpu exec -- gpubench ...".to_owned()),
    })?;
    let folder = PathBuf::from(folder);
    let unusable = |problem: String| ExpectedError::Usage {
        problem,
        remedy: Some("start one: virtual-gpu exec, virtual-gpu env".to_owned()),
    };
    let (_, machine) = Session::read(&folder).map_err(|error| unusable(error.to_string()))?;
    let log = kernel_log::path(&folder);
    let lines = std::fs::read_to_string(&log)
        .map_err(|error| unusable(format!("{}: {error}", log.display())))?;
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
    let (program, arguments) = exec.command.split_first().ok_or_else(|| ExpectedError::Usage {
        problem: "no program to run".to_owned(),
        remedy: Some("virtual-gpu exec -- COMMAND...".to_owned()),
    })?;
    let status = process(program, Inherits::All).args(arguments).envs(gpu.environment()).status();
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
    for (name, value) in gpu.environment() {
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
        machines.push(
            Machine::load(name)
                .map_err(|error| ExpectedError::Internal { what: error.to_string() })?,
        );
    }
    let text = match format {
        TextFormat::Table => {
            let rows: Vec<[String; 2]> =
                machines.iter().map(|m| [m.name.clone(), m.summary.clone()]).collect();
            table(["machine", "summary"], &rows)
        }
        TextFormat::Json => {
            let rows: Vec<_> = machines
                .iter()
                .map(|m| json!({ "name": m.name, "summary": m.summary, "product": m.gpu.product }))
                .collect();
            serde_json::to_string_pretty(&rows)
                .map_err(|error| ExpectedError::Internal { what: error.to_string() })?
                + "\n"
        }
    };
    ui.print(&text)?;
    Ok(ExitCode::Done)
}
