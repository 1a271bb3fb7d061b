//! Output: results on stdout, everything else on stderr.
//!
//! Colour and bars appear on a terminal only; `NO_COLOR` and `TERM=dumb` are obeyed.

use std::io::{IsTerminal, Write};

use anstream::{AutoStream, ColorChoice};
use gpubench_record::{Plan, excerpt, on_one_line, with_short_words};
use tabled::builder::Builder;
use tabled::settings::peaker::Priority;
use tabled::settings::{Style, Width};

use super::progress::{Progress, ProgressMode};
use crate::error::ExpectedError;

/// When results are coloured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ColorWhen {
    /// On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`
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
    #[must_use]
    pub fn from_environment(color: ColorWhen) -> Self {
        match color {
            ColorWhen::Auto => ColorChoice::Auto,
            ColorWhen::Always => ColorChoice::Always,
            ColorWhen::Never => ColorChoice::Never,
        }
        .write_global();
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let live = std::io::stderr().is_terminal() && !dumb;
        Self { progress: if live { ProgressMode::Live } else { ProgressMode::Lines } }
    }

    /// Whether results may be coloured.
    #[must_use]
    pub fn color_on_stdout(&self) -> bool {
        AutoStream::choice(&std::io::stdout()) != ColorChoice::Never
    }

    /// Columns of the terminal on stdout, else those that `COLUMNS` gives; `None` without both.
    #[must_use]
    pub fn width_of_stdout(&self) -> Option<usize> {
        columns_of_stdout()
    }

    /// Prints a result. A pipe closed by its reader, such as `| head`, is not an error.
    ///
    /// # Errors
    /// When stdout cannot be written, for example to a full disk.
    pub fn print(&self, text: &str) -> Result<(), ExpectedError> {
        self.print_bytes(text.as_bytes())
    }

    /// Prints text for people: no line is longer than the terminal is wide.
    ///
    /// # Errors
    /// When stdout cannot be written, for example to a full disk.
    pub fn print_text(&self, text: &str) -> Result<(), ExpectedError> {
        let Some(width) = self.width_of_stdout() else {
            return self.print(text);
        };
        let lines: Vec<String> = text.lines().flat_map(|line| fold(line, width)).collect();
        self.print(&(lines.join("\n") + "\n"))
    }

    /// Prints a rendered result, as `print` does.
    ///
    /// # Errors
    /// When stdout cannot be written for a reason other than a closed pipe.
    pub fn print_bytes(&self, text: &[u8]) -> Result<(), ExpectedError> {
        let mut out = anstream::stdout().lock();
        match out.write_all(text).and_then(|()| out.flush()) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                Err(ExpectedError::from_write("(standard output)", error))
            }
            _ => Ok(()),
        }
    }

    /// Prints a line that is not a result.
    pub fn note(&self, line: &str) {
        // A closed stderr is not an error.
        let lines: Vec<String> = line.lines().map(shown).collect();
        let _ = writeln!(anstream::stderr(), "{}", lines.join("\n"));
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
    #[must_use]
    pub fn progress(&self, plan: &Plan) -> Progress {
        Progress::of(plan, self.progress)
    }
}

/// A line that cannot control the terminal, and in which no word is longer than an excerpt.
fn shown(line: &str) -> String {
    with_short_words(&on_one_line(line))
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
            let short = excerpt(part);
            if short != part {
                quoted = quoted.replace(part, &short);
            }
        }
    }
    quoted
}

/// Breaks a line between words. What follows stands below the last column of the line, which is
/// behind its last gap of several spaces, or below its beginning where that leaves too little room.
fn fold(line: &str, width: usize) -> Vec<String> {
    let chars: Vec<char> = line.chars().collect();
    let beginning = chars.iter().take_while(|c| **c == ' ').count();
    let gap = (beginning + 1..chars.len())
        .rev()
        .find(|&at| at >= 2 && chars[at] != ' ' && chars[at - 2..at] == [' ', ' ']);
    let margin = gap.filter(|at| at + width / 4 <= width).unwrap_or(beginning + 2);
    let mut lines = Vec::new();
    let mut rest = chars;
    while rest.len() > width {
        let own = rest.iter().take_while(|c| **c == ' ').count();
        let end = (own + 1..=width).rev().find(|&at| rest[at] == ' ');
        // A word longer than the line breaks where the line ends.
        let end = end.unwrap_or(width);
        let head: String = rest[..end].iter().collect();
        let tail: String = rest[end..].iter().collect();
        lines.push(head.trim_end().to_owned());
        let margin = if margin < width { margin } else { 0 };
        rest = format!("{}{}", " ".repeat(margin), tail.trim_start()).chars().collect();
        if tail.trim().is_empty() {
            return lines;
        }
    }
    lines.push(rest.into_iter().collect());
    lines
}

/// A table with a header line, as every verb prints it, as wide as the terminal at most; ends in a
/// newline.
#[must_use]
pub fn table<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> String {
    drawn(header, rows, columns_of_stdout())
}

/// The same in its natural width.
#[must_use]
pub fn natural_table<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> String {
    drawn(header, rows, None)
}

fn drawn<const N: usize>(header: [&str; N], rows: &[[String; N]], width: Option<usize>) -> String {
    let mut builder = Builder::default();
    builder.push_record(header);
    for row in rows {
        builder.push_record(row.iter().map(String::as_str));
    }
    let mut table = builder.build();
    table.with(Style::blank());
    if let Some(width) = width {
        let widest = Priority::max(true);
        table.with(Width::wrap(width).priority(widest).keep_words(true));
    }
    let text = table.to_string();
    let trimmed: Vec<&str> = text.lines().map(str::trim_end).collect();
    trimmed.join("\n") + "\n"
}

/// Columns of the terminal on stdout, else those that `COLUMNS` gives; `None` without both.
fn columns_of_stdout() -> Option<usize> {
    let terminal = terminal_size::terminal_size_of(std::io::stdout());
    let of_terminal = terminal.map(|(width, _)| usize::from(width.0));
    of_terminal.or_else(|| {
        let columns = std::env::var("COLUMNS").ok()?.parse().ok()?;
        Some(columns).filter(|columns| *columns > 0)
    })
}

#[cfg(test)]
mod tests {
    use super::{drawn, fold, natural_table, quote_arguments, shown};

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
        assert_eq!(shown("a\u{1b}[2Jb"), "a\\u{1b}[2Jb");
    }

    #[test]
    fn a_long_line_goes_on_below_its_last_column() {
        let line = " mps   96   an MPS daemon of its own, in a folder";
        assert_eq!(
            fold(line, 30),
            [" mps   96   an MPS daemon of", "            its own, in a", "            folder"]
        );
        assert_eq!(fold("  a list: one, two", 12), ["  a list:", "    one, two"]);
        assert_eq!(fold("short", 12), ["short"]);
        assert_eq!(fold(&"x".repeat(20), 12), ["x".repeat(12), format!("  {}", "x".repeat(8))]);
    }

    #[test]
    fn the_widest_column_of_a_table_gives_way_to_the_width() {
        let rows =
            [["mps".to_owned(), "waived: limits need driver 615".to_owned(), "-".to_owned()]];
        let text = drawn(["name", "verdict", "remedy"], &rows, Some(34));
        assert!(text.lines().all(|line| line.chars().count() <= 34), "{text}");
        assert!(text.contains("waived: limits") && text.contains("mps"), "{text}");
        assert_eq!(text.lines().count(), 3, "{text}");
    }

    #[test]
    fn a_table_has_a_header_and_no_trailing_spaces() {
        let rows = [["exclusive".to_owned(), "reference".to_owned()]];
        let text = natural_table(["name", "summary"], &rows);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("name") && lines[0].contains("summary"));
        assert!(lines.iter().all(|line| !line.ends_with(' ')));
        assert!(lines.last().is_some_and(|line| line.contains("reference")));
    }
}
