//! Output: results on stdout, everything else on stderr.
//!
//! Colour and bars appear on a terminal only; `NO_COLOR` and `TERM=dumb` are obeyed.

use std::io::{IsTerminal, Write};

use anstream::{AutoStream, ColorChoice};
use indicatif::{ProgressBar, ProgressStyle};
use tabled::builder::Builder;
use tabled::settings::Style;

use crate::error::ExpectedError;

/// The form of progress output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgressMode {
    /// A bar with the time left, redrawn in place.
    Bar,
    /// A line for each block.
    Lines,
}

/// The output of a verb: results on stdout, the rest on stderr.
#[derive(Debug)]
pub struct Ui {
    progress: ProgressMode,
}

impl Ui {
    /// Reads the environment once.
    #[must_use]
    pub fn from_environment() -> Self {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let bar = std::io::stderr().is_terminal() && !dumb;
        Self {
            progress: if bar {
                ProgressMode::Bar
            } else {
                ProgressMode::Lines
            },
        }
    }

    /// Whether results may be coloured.
    #[must_use]
    pub fn color_on_stdout(&self) -> bool {
        AutoStream::choice(&std::io::stdout()) != ColorChoice::Never
    }

    /// Columns of the terminal on stdout; `None` if stdout is not a terminal.
    #[must_use]
    pub fn width_of_stdout(&self) -> Option<usize> {
        let (width, _) = terminal_size::terminal_size_of(std::io::stdout())?;
        Some(usize::from(width.0))
    }

    /// Prints a result. A pipe closed by its reader, such as `| head`, is not an error.
    ///
    /// # Errors
    /// When stdout cannot be written, for example to a full disk.
    pub fn print(&self, text: &str) -> Result<(), ExpectedError> {
        self.print_bytes(text.as_bytes())
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
        let _ = writeln!(anstream::stderr(), "{line}");
    }

    /// Prints an error and its hint.
    pub fn error(&self, error: &ExpectedError) {
        self.note(&format!("error: {error}"));
        if let Some(hint) = error.hint() {
            self.note(&format!("hint: {hint}"));
        }
    }

    /// Starts the progress of `cells` cells in `blocks` blocks.
    #[must_use]
    pub fn progress(&self, cells: u64, blocks: u32) -> Progress {
        let bar = (self.progress == ProgressMode::Bar).then(|| bar(cells));
        Progress {
            bar,
            cells,
            blocks,
            done: 0,
            block: None,
        }
    }
}

fn bar(cells: u64) -> ProgressBar {
    let bar = ProgressBar::new(cells);
    // Without a valid template the default bar is used.
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos}/{len}  {eta} left  {msg}") {
        bar.set_style(style);
    }
    bar
}

/// The progress of a run, cell by cell.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
    cells: u64,
    blocks: u32,
    done: u64,
    block: Option<u32>,
}

impl Progress {
    /// A cell of `block` begins.
    pub fn cell_begins(&mut self, block: u32, what: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(what.to_owned()),
            None if self.block != Some(block) => {
                let line = block_line(block, self.blocks, self.done, self.cells);
                let _ = writeln!(anstream::stderr(), "{line}");
            }
            None => {}
        }
        self.block = Some(block);
    }

    /// A cell ends.
    pub fn cell_ends(&mut self) {
        self.done += 1;
        if let Some(bar) = &self.bar {
            bar.set_position(self.done);
        }
    }

    /// Prints a line above the bar.
    pub fn note(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| {
                let _ = writeln!(anstream::stderr(), "{line}");
            }),
            None => {
                let _ = writeln!(anstream::stderr(), "{line}");
            }
        }
    }

    /// Ends the progress and removes the bar.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn block_line(block: u32, blocks: u32, done: u64, cells: u64) -> String {
    format!(
        "block {} of {blocks}: {done} of {cells} cells done",
        block + 1
    )
}

/// A table with a header line, as every verb prints it; ends in a newline.
#[must_use]
pub fn table<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> String {
    let mut builder = Builder::default();
    builder.push_record(header);
    for row in rows {
        builder.push_record(row.iter().map(String::as_str));
    }
    let mut table = builder.build();
    let text = table.with(Style::blank()).to_string();
    let trimmed: Vec<&str> = text.lines().map(str::trim_end).collect();
    trimmed.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::{block_line, table};

    #[test]
    fn a_line_counts_blocks_from_one() {
        assert_eq!(
            block_line(0, 8, 0, 160),
            "block 1 of 8: 0 of 160 cells done"
        );
    }

    #[test]
    fn a_table_has_a_header_and_no_trailing_spaces() {
        let rows = [["exclusive".to_owned(), "reference".to_owned()]];
        let text = table(["name", "summary"], &rows);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("name") && lines[0].contains("summary"));
        assert!(lines.iter().all(|line| !line.ends_with(' ')));
        assert!(lines.last().is_some_and(|line| line.contains("reference")));
    }
}
