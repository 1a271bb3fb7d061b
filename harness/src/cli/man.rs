//! `gpubench man`: manual pages.

use std::path::{Path, PathBuf};

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use gpubench_record::ExitCode;

use super::common::exit_codes_help;
use super::help::{ENVIRONMENT, FILES, examples};
use super::ui::Ui;
use crate::error::ExpectedError;

pub const EXIT_CODES: &[ExitCode] =
    &[ExitCode::Done, ExitCode::Internal, ExitCode::Usage, ExitCode::OutputFailed];

/// Prints the manual page, or writes those of every verb into a folder
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit_codes_help(EXIT_CODES))]
pub struct Args {
    /// Write gpubench.1 and a page of each verb into this folder
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
}

pub fn run(args: &Args, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let mut command = super::command().disable_help_subcommand(true);
    command.build();
    match &args.output {
        None => {
            let text = page(&command)
                .map_err(|error| ExpectedError::internal(format!("manual page: {error}")))?;
            ui.print_bytes(&text)?;
        }
        Some(dir) => std::fs::create_dir_all(dir)
            .and_then(|()| write_all(&command, dir))
            .map_err(|error| ExpectedError::from_write(dir, error))?,
    }
    Ok(ExitCode::Done)
}

fn write_all(command: &Command, dir: &Path) -> std::io::Result<()> {
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    verbs.into_iter().try_for_each(|verb| write_all(verb, dir))?;
    let name = command.get_display_name().unwrap_or(command.get_name());
    std::fs::write(dir.join(format!("{name}.1")), page(command)?)
}

/// The page of a verb, in the sections that manual pages have.
fn page(command: &Command) -> std::io::Result<Vec<u8>> {
    let man = Man::new(command.clone());
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    let mut roff = Roff::default();
    // The name of a verb inside a verb begins with that of the outer one.
    let name = command.get_display_name().unwrap_or(command.get_name());
    let verb = name.trim_start_matches("gpubench-");
    let all = match verb {
        "gpubench" => {
            [("gpubench matrix --device virtual", "The main job, without a GPU")].to_vec()
        }
        verb => examples(verb),
    };
    let help = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    let (_, codes) = help.split_once("Exit codes:\n").unwrap_or_default();
    let (codes, more) = codes.split_once("\n\n").unwrap_or((codes, ""));
    let codes = codes.lines().filter_map(|line| line.trim().split_once("  "));
    section(&mut roff, "EXIT STATUS", codes);
    roff.text([roman(more)]);
    section(&mut roff, "ENVIRONMENT", ENVIRONMENT);
    section(&mut roff, "FILES", FILES);
    section(&mut roff, "EXAMPLES", all);
    roff.to_writer(&mut text)?;
    if command.get_version().is_some() {
        man.render_version_section(&mut text)?;
    }
    Ok(text)
}

fn section<'a>(roff: &mut Roff, name: &str, all: impl IntoIterator<Item = (&'a str, &'a str)>) {
    let mut all = all.into_iter().peekable();
    if all.peek().is_some() {
        roff.control("SH", [name]);
    }
    for (term, text) in all {
        roff.control("TP", []).text([bold(term)]).text([roman(text)]);
    }
}

#[cfg(test)]
mod tests {
    use super::page;

    #[test]
    fn every_page_has_the_sections_that_people_look_for() -> std::io::Result<()> {
        let mut command = super::super::command();
        command.build();
        for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help") {
            let text = String::from_utf8_lossy(&page(verb)?).into_owned();
            for section in ["OPTIONS", "\"EXIT STATUS\"", "ENVIRONMENT", "FILES", "EXAMPLES"] {
                assert!(text.contains(&format!(".SH {section}")), "{}: {text}", verb.get_name());
            }
        }
        Ok(())
    }
}
