//! Output: results on stdout, everything else on stderr.
//!
//! Colour and bars appear on a terminal only; `NO_COLOR`, `FORCE_COLOR` and `TERM=dumb` are obeyed.

use std::io::{BufWriter, IsTerminal, Write};
use std::process::{Command, Stdio};

use anstream::{AutoStream, ColorChoice};
use gpubench_plan::Pace;
use gpubench_record::{Plan, excerpt, on_one_line, with_short_words};
use gpubench_show::{Look, Page};

use super::progress::{Progress, ProgressMode};
use crate::error::ExpectedError;
use crate::error::output::Fill;

/// When results are coloured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ColorWhen {
    /// On a terminal or with `FORCE_COLOR`, unless `NO_COLOR` is set or `TERM` is `dumb`
    #[default]
    Auto,
    /// Also into a file or a pipe
    Always,
    /// Never
    Never,
}

/// The output of a verb: results on stdout, the rest on stderr.
#[derive(Debug, Clone, Copy)]
pub struct Ui {
    progress: ProgressMode,
}

impl Ui {
    /// Reads the environment once.
    pub fn from_environment(color: ColorWhen, quiet: bool) -> Self {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let forced = std::env::var_os("FORCE_COLOR").is_some_and(|value| value != "0");
        match color {
            ColorWhen::Auto if forced && is_set("FORCE_COLOR") && !is_set("NO_COLOR") => {
                ColorChoice::Always
            }
            ColorWhen::Auto => ColorChoice::Auto,
            ColorWhen::Always => ColorChoice::Always,
            ColorWhen::Never => ColorChoice::Never,
        }
        .write_global();
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let live = std::io::stderr().is_terminal() && !dumb;
        let progress = match (quiet, live) {
            (true, _) => ProgressMode::Quiet,
            (false, true) => ProgressMode::Live,
            (false, false) => ProgressMode::Lines,
        };
        Self { progress }
    }

    /// Width and colour of results on stdout.
    pub fn look(&self) -> Look {
        look_of_stdout()
    }

    /// The same, or those of a file if results go into one: `COLUMNS` wide, without colour.
    pub fn look_of(&self, is_file: bool) -> Look {
        if is_file { Look::new(columns(), false) } else { self.look() }
    }

    /// Lines of the terminal that results have, less that of the next prompt; `None` without one.
    pub fn lines(&self) -> Option<usize> {
        let terminal = terminal_size::terminal_size_of(std::io::stdout());
        terminal.map(|(_, height)| usize::from(height.0).saturating_sub(1))
    }

    /// Prints a result. A pipe closed by its reader, such as `| head`, is not an error.
    pub fn print(&self, text: &str) -> Result<(), ExpectedError> {
        self.print_bytes(text.as_bytes())
    }

    /// Prints a document for people.
    pub fn page(&self, page: &Page) -> Result<(), ExpectedError> {
        self.print(&page.text(self.look()))
    }

    /// Prints a rendered result, as `print` does.
    /// Fails when stdout cannot be written for a reason other than a closed pipe.
    pub fn print_bytes(&self, text: &[u8]) -> Result<(), ExpectedError> {
        self.print_with(|out| out.write_all(text))
    }

    /// Prints what a writer writes piece by piece.
    pub fn print_with(&self, write: impl Fill) -> Result<(), ExpectedError> {
        let mut out = BufWriter::new(anstream::stdout().lock());
        match write(&mut out).and_then(|()| out.flush()) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                Err(ExpectedError::from_write("(standard output)", error))
            }
            _ => Ok(()),
        }
    }

    /// Prints a long result through `PAGER` where stdout is a terminal, as `less -FRX` without it.
    /// An empty `PAGER`, or one that does not start, prints it as it is.
    #[expect(clippy::disallowed_methods, reason = "a pager has the environment of its user")]
    pub fn print_paged(&self, text: &[u8]) -> Result<(), ExpectedError> {
        let command = std::env::var("PAGER").unwrap_or_else(|_| "less -FRX".to_owned());
        if !std::io::stdout().is_terminal() || command.trim().is_empty() {
            return self.print_bytes(text);
        }
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("exec {command}")).stdin(Stdio::piped());
        let Ok(mut pager) = shell.spawn() else {
            return self.print_bytes(text);
        };
        // A pager that is left before the end closes the pipe, which is no error.
        let _ = pager.stdin.take().map(|mut pipe| pipe.write_all(text));
        // 127: the shell found no such program.
        let ended = pager.wait().ok().and_then(|status| status.code());
        if ended == Some(127) { self.print_bytes(text) } else { Ok(()) }
    }

    /// Prints a line that is not a result.
    pub fn note(&self, line: &str) {
        // A closed stderr is not an error.
        let lines: Vec<String> = line.lines().map(shown).collect();
        let _ = writeln!(anstream::stderr(), "{}", lines.join("\n"));
    }

    /// Asks on the terminal; without one the answer is no.
    pub fn is_confirmed(&self, text: &str) -> bool {
        let mut answer = String::new();
        if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
            return false;
        }
        self.note(&format!("{text}? (y/n)"));
        std::io::stdin().read_line(&mut answer).is_ok() && answer.trim().eq_ignore_ascii_case("y")
    }

    /// Prints an error and its hint.
    pub fn error(&self, error: &ExpectedError) {
        let line = quote_arguments(&error.to_string(), arguments());
        self.note(&format!("error: {}", on_one_line(&line)));
        if let Some(hint) = error.hint() {
            self.note(&format!("hint: {hint}"));
        }
    }

    /// Starts the progress of a run.
    pub fn progress(&self, plan: &Plan, pace: Pace) -> Progress {
        Progress::of(plan, pace, self.progress)
    }
}

/// A line that cannot control the terminal, and in which no word is longer than an excerpt.
pub(super) fn shown(line: &str) -> String {
    with_short_words(&on_one_line(line))
}

/// The text in so many columns: whole words, with dots where some are left out.
pub(super) fn cut(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let mut cut = String::new();
    for word in text.split_inclusive(' ') {
        if cut.chars().count() + word.trim_end().chars().count() + 3 > room {
            break;
        }
        cut += word;
    }
    cut.truncate(cut.trim_end_matches([' ', ',']).len());
    if cut.is_empty() { cut } else { cut + "..." }
}

/// The arguments of the command line, as far as they are text.
pub fn arguments() -> impl Iterator<Item = String> {
    std::env::args_os().map(|argument| argument.to_string_lossy().into_owned())
}

/// A message in which arguments of the command line that are long or would break a line are
/// excerpts.
pub fn quote_arguments(message: &str, arguments: impl Iterator<Item = String>) -> String {
    let mut quoted = message.to_owned();
    for argument in arguments {
        // A flag and its value can be one argument, and a value can be a list.
        let values = argument.split_once('=').map(|(_, value)| value);
        let parts = values.unwrap_or(&argument).split(',');
        for part in std::iter::once(argument.as_str()).chain(values).chain(parts) {
            // Of a value that is short, single characters can still steer a terminal.
            let short = on_one_line(&excerpt(part));
            if short != part {
                quoted = quoted.replace(part, &short);
            }
        }
    }
    quoted
}

/// The width that the user asks for.
fn columns() -> Option<usize> {
    let columns = std::env::var("COLUMNS").ok()?.parse().ok()?;
    Some(columns).filter(|columns| *columns > 0)
}

/// The columns of the terminal, else `COLUMNS`, else those of a pipe; colour by `--color`,
/// `NO_COLOR` and `TERM`.
fn look_of_stdout() -> Look {
    let terminal = terminal_size::terminal_size_of(std::io::stdout());
    let of_terminal = terminal.map(|(width, _)| usize::from(width.0));
    let width = of_terminal.or_else(columns);
    Look::new(width, AutoStream::choice(&std::io::stdout()) != ColorChoice::Never)
}

#[cfg(test)]
mod tests {
    use super::{cut, quote_arguments, shown};

    #[test]
    fn a_word_is_never_cut() {
        let text = "hami, memory beside oom";
        for (room, expected) in
            [(40, text), (23, text), (22, "hami, memory beside..."), (12, "hami..."), (4, "")]
        {
            assert_eq!(cut(text, room), expected);
        }
    }

    #[test]
    fn a_long_argument_is_quoted_in_part() {
        let long = "many words ".repeat(100);
        let list = format!("--axis=ok,{}", "x".repeat(900));
        for (argument, part) in [(&long, long.as_str()), (&list, &list[10..])] {
            let message = format!("unknown name '{part}' (known: a, b)");
            let quoted = quote_arguments(&message, std::iter::once(argument.clone()));
            assert!(quoted.len() < 250, "{quoted}");
            assert!(quoted.ends_with("(known: a, b)"), "{quoted}");
        }
        let same = quote_arguments("no short here", std::iter::once("short".to_owned()));
        assert_eq!(same, "no short here");
        let turned =
            quote_arguments("no a\u{202e}b here", std::iter::once("a\u{202e}b".to_owned()));
        assert_eq!(turned, "no a\\u{202e}b here");
        assert_eq!(shown("a\u{1b}[2Jb"), "a\\u{1b}[2Jb");
    }
}
