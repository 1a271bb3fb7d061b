//! The command line: one file per verb, each with its arguments and its `run`.
//!
//! To add a verb, add its file, its `mod` line, and its lines in [`Verb`], [`Verb::run`] and
//! [`exit_codes`].

pub mod advise;
mod after_cells;
pub mod choose;
pub mod claims;
pub mod cleanup;
pub mod common;
pub mod compare;
mod comparing;
pub mod completions;
pub mod diff;
pub mod doctor;
pub mod entry;
pub mod export;
pub mod files;
mod freed_memory;
mod help;
pub mod history;
pub mod list;
pub mod man;
mod many_devices;
pub mod matrix;
mod names;
pub mod nightly;
pub mod outliers;
pub mod pack;
pub mod plan;
mod predicting;
mod progress;
pub mod rehearsal;
mod report;
mod resume_flags;
pub mod schemas;
pub mod signals;
pub mod simulate;
mod suggest;
pub mod ui;
#[cfg(feature = "virtual-gpu")]
pub mod virtual_gpu;
pub mod watch;

use std::ffi::OsString;
use std::io::Write;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use gpubench_host::device::limits;
use gpubench_record::ExitCode;

use crate::error::ExpectedError;
use ui::{ColorWhen, Ui};

/// The version, and what the program was built from and with.
const LONG_VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\ncommit ",
    env!("GPUBENCH_BUILT_FROM"),
    "\nbuilt by ",
    env!("GPUBENCH_BUILT_BY"),
    "\nfor ",
    env!("GPUBENCH_BUILT_FOR"),
);

/// Measures how well tenants that share an NVIDIA GPU are isolated from each other.
#[derive(Debug, Parser)]
#[command(name = "gpubench", version, long_version = LONG_VERSION, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
    /// When to colour results: auto (on a terminal or with FORCE_COLOR, unless NO_COLOR is set),
    /// always, never [env: GPUBENCH_COLOR]
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        value_enum,
        default_value = "auto",
        hide_possible_values = true
    )]
    color: ColorWhen,
    /// Print no progress: results, warnings and errors only [env: GPUBENCH_QUIET=1]
    #[arg(short, long, global = true)]
    quiet: bool,
    /// What the environment asks for and the verb does not have.
    #[arg(skip)]
    warning: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Matrix(matrix::Args),
    Nightly(nightly::Args),
    Watch(watch::Args),
    Doctor(doctor::Args),
    Plan(plan::Args),
    Cleanup(cleanup::Args),
    Report(report::Args),
    Choose(choose::Args),
    Claims(claims::Args),
    Diff(diff::Args),
    History(history::Args),
    Compare(compare::Args),
    Outliers(outliers::Args),
    Export(export::Args),
    List(list::Args),
    Schemas(schemas::Args),
    Advise(advise::Args),
    Simulate(simulate::Args),
    Pack(pack::Args),
    #[cfg(feature = "virtual-gpu")]
    VirtualGpu(virtual_gpu::Args),
    Files(files::Args),
    Completions(completions::Args),
    Man(man::Args),
}

/// The exit code of this process: its own, or that of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Own(ExitCode),
    /// The exit code of the program that `exec` ran.
    #[cfg(feature = "virtual-gpu")]
    Child(u8),
}

impl Verb {
    /// Whether it reads the samples of records.
    const fn reads_records(&self) -> bool {
        matches!(
            self,
            Self::Report(_)
                | Self::Choose(_)
                | Self::Claims(_)
                | Self::Diff(_)
                | Self::Nightly(_)
                | Self::History(_)
                | Self::Compare(_)
                | Self::Outliers(_)
                | Self::Export(_)
        )
    }

    fn run(&self, ui: &Ui) -> Result<Status, ExpectedError> {
        limits::of_any()?;
        if self.reads_records() {
            freed_memory::keep();
        }
        let code = match self {
            Self::Matrix(args) => matrix::run(args, ui),
            Self::Nightly(args) => nightly::run(args, ui),
            Self::Watch(args) => watch::run(args, ui),
            Self::Doctor(args) => doctor::run(args, ui),
            Self::Plan(args) => plan::run(args, ui),
            Self::Cleanup(args) => cleanup::run(args, ui),
            Self::Report(args) => report::run(args, ui),
            Self::Choose(args) => choose::run(args, ui),
            Self::Claims(args) => claims::run(args, ui),
            Self::Diff(args) => diff::run(args, ui),
            Self::History(args) => history::run(args, ui),
            Self::Compare(args) => compare::run(args, ui),
            Self::Outliers(args) => outliers::run(args, ui),
            Self::Export(args) => export::run(args, ui),
            Self::List(args) => list::run(args, ui),
            Self::Schemas(args) => schemas::run(args, ui),
            Self::Advise(args) => advise::run(args, ui),
            Self::Simulate(args) => simulate::run(args, ui),
            Self::Pack(args) => pack::run(args, ui),
            Self::Files(args) => files::run(args, ui),
            Self::Completions(args) => completions::run(args, ui),
            Self::Man(args) => man::run(args, ui),
            #[cfg(feature = "virtual-gpu")]
            Self::VirtualGpu(args) => return virtual_gpu::run(args, ui),
        };
        code.map(Status::Own)
    }
}

/// Parses the command line, runs the verb and prints its error; returns the exit code.
pub fn run(argv: &[OsString]) -> u8 {
    let status = match parse(argv) {
        Ok(cli) => {
            let ui = Ui::from_environment(cli.color, cli.quiet);
            if let Some(warning) = &cli.warning {
                ui.note(&format!("warning: {warning}"));
            }
            cli.verb.run(&ui).unwrap_or_else(|error| {
                ui.error(&error);
                Status::Own(error.exit_code())
            })
        }
        Err(error) => Status::Own(print_usage(&error)),
    };
    match status {
        Status::Own(code) => code.code(),
        #[cfg(feature = "virtual-gpu")]
        Status::Child(code) => code,
    }
}

fn parse(argv: &[OsString]) -> Result<Cli, clap::Error> {
    // The table of exit codes is computed, so the derive cannot hold it as a literal.
    let command = help::with_environment(command(), |name| std::env::var(name).ok())
        .map_err(|problem| clap::Error::raw(ErrorKind::InvalidValue, problem + "\n"))?;
    let words: Vec<String> = argv.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let matches = command.clone().try_get_matches_from(argv);
    let matches = matches.map_err(|error| suggest::mended(error, &command, &words))?;
    let warning = help::unused_format(&command, &matches, std::env::var("GPUBENCH_FORMAT").ok());
    Cli::from_arg_matches(&matches).map(|cli| Cli { warning, ..cli })
}

/// `--wait` of a night, which has a default of its own.
const WAIT_HELP: &str =
    "Wait so many minutes for a GPU or a folder that another run holds [default: 60]";

/// The whole command line, as help and completions see it.
pub fn command() -> clap::Command {
    let command = Cli::command().after_long_help(common::exit_codes_help(&exit_codes()));
    // A night decides these flags of a matrix itself.
    let command = command.mut_subcommand("nightly", |nightly| {
        nightly.mut_args(|one| {
            let is_decided = nightly::DECIDED.contains(&one.get_id().as_str());
            match one.get_id().as_str() {
                "wait" => one.help(WAIT_HELP),
                _ if is_decided => one.hide(true),
                _ => one,
            }
        })
    });
    help::decorated(command)
}

/// The exit codes that at least one verb returns.
fn exit_codes() -> Vec<ExitCode> {
    let verbs = [
        matrix::EXIT_CODES,
        nightly::EXIT_CODES,
        watch::EXIT_CODES,
        doctor::EXIT_CODES,
        plan::EXIT_CODES,
        cleanup::EXIT_CODES,
        report::EXIT_CODES,
        choose::EXIT_CODES,
        claims::EXIT_CODES,
        diff::EXIT_CODES,
        history::EXIT_CODES,
        compare::EXIT_CODES,
        outliers::EXIT_CODES,
        export::EXIT_CODES,
        list::EXIT_CODES,
        schemas::EXIT_CODES,
        advise::EXIT_CODES,
        simulate::EXIT_CODES,
        pack::EXIT_CODES,
        #[cfg(feature = "virtual-gpu")]
        virtual_gpu::EXIT_CODES,
        files::EXIT_CODES,
        completions::EXIT_CODES,
        man::EXIT_CODES,
    ];
    let mut codes = ExitCode::BY_PRECEDENCE.to_vec();
    codes.retain(|code| verbs.iter().any(|verb| verb.contains(code)));
    codes
}

fn print_usage(error: &clap::Error) -> ExitCode {
    // Help and version are results and go to stdout; a closed pipe is not an error.
    let is_result = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    let printed = if is_result {
        error.print()
    } else {
        let rendered = error.render().ansi().to_string();
        let text = ui::quote_arguments(&rendered, ui::arguments());
        anstream::stderr().write_all(text.as_bytes())
    };
    match printed {
        Err(source) if source.kind() != std::io::ErrorKind::BrokenPipe => ExitCode::OutputFailed,
        _ if is_result => ExitCode::Done,
        _ => ExitCode::Usage,
    }
}

#[cfg(test)]
mod tests {
    use gpubench_record::ExitCode;

    use super::command;

    #[test]
    fn the_command_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn long_help_names_the_exit_codes_that_some_verb_returns_and_no_others() {
        let help = command().render_long_help().to_string();
        let verbs: Vec<String> = command()
            .get_subcommands_mut()
            .map(|verb| verb.render_long_help().to_string())
            .collect();
        for code in ExitCode::BY_PRECEDENCE {
            let returned = verbs.iter().any(|verb| verb.contains(code.meaning()));
            assert_eq!(help.contains(code.meaning()), returned, "{}", code.meaning());
        }
        assert!(help.contains(ExitCode::Inconclusive.meaning()));
        assert!(help.contains(ExitCode::Regression.meaning()));
    }

    #[test]
    fn every_verb_names_its_exit_codes_in_long_help() {
        for verb in command().get_subcommands_mut() {
            let help = verb.render_long_help().to_string();
            assert!(help.contains("Exit codes:"), "{}", verb.get_name());
        }
    }
}
