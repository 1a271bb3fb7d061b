//! `gpubench completions`: completions of the command line for a shell.

use clap_complete::Shell;
use gpubench_record::ExitCode;

use super::common::exit_codes_help;
use super::ui::Ui;
use crate::error::ExpectedError;

pub const EXIT_CODES: &[ExitCode] = super::man::EXIT_CODES;

/// Prints completions of the command line for a shell
///
/// For example: gpubench completions bash > ~/.local/share/bash-completion/completions/gpubench
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit_codes_help(EXIT_CODES))]
pub struct Args {
    /// The shell
    shell: Shell,
}

pub fn run(args: &Args, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut super::command(), "gpubench", &mut text);
    if args.shell == Shell::Bash {
        text.extend_from_slice(include_bytes!("completions.bash"));
    }
    ui.print_bytes(&text)?;
    Ok(ExitCode::Done)
}
