//! The progress of a run: a live line on a terminal, and a line now and then elsewhere.
//!
//! The time left follows from the planned length of what is done and of what is left. It never
//! grows on screen, and neither count goes back.

mod state;

use std::io::Write;

use gpubench_record::{Cell, Plan};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::run::RunPhase;
use state::State;

/// Lines elsewhere than on a terminal: one for each part of this size.
const LINES: u64 = 20;
/// Columns of a terminal of unknown width.
const WIDTH: usize = 80;

/// The form of progress output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgressMode {
    /// One line, redrawn in place.
    Live,
    /// A line for every twentieth part of the cells, and one for each later phase.
    Lines,
}

/// The progress of a run.
#[derive(Debug)]
pub struct Progress {
    /// Draws the live line; hidden elsewhere. It measures the time in both forms.
    bar: ProgressBar,
    mode: ProgressMode,
    state: State,
    printed: Option<u64>,
    last_phase: String,
}

impl Progress {
    /// Starts the progress of a plan.
    #[must_use]
    pub fn of(plan: &Plan, mode: ProgressMode) -> Self {
        let bar = match mode {
            ProgressMode::Live => ProgressBar::new_spinner(),
            ProgressMode::Lines => {
                ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden())
            }
        };
        // Without a valid template the default line is used.
        if let Ok(style) = ProgressStyle::with_template("{msg}") {
            bar.set_style(style);
        }
        Self { bar, mode, state: State::of(plan), printed: None, last_phase: String::new() }
    }

    /// A phase of the run begins.
    pub fn phase(&mut self, phase: &RunPhase) {
        let (is_note, text) = match phase {
            RunPhase::SharingCores(_) => (true, phase.to_string()),
            RunPhase::ToppedUp { top_up, cells } => {
                self.state.add(top_up, *cells);
                (true, phase.to_string())
            }
            RunPhase::Fault { fault, variant } => {
                self.state.trials_begin(variant, fault);
                // A run has hundreds of faults.
                match self.mode {
                    ProgressMode::Live => (false, phase.to_string()),
                    ProgressMode::Lines => (false, format!("injecting faults under {variant}")),
                }
            }
            _ => (false, phase.to_string()),
        };
        if is_note {
            self.note(&text);
        } else if self.mode == ProgressMode::Live {
            self.state.begin_phase(text);
            self.draw();
        } else if self.last_phase != text {
            self.note(&text);
            self.last_phase = text;
        }
    }

    /// A cell begins.
    pub fn cell_begins(&mut self, cell: &Cell) {
        self.state.begins(cell, self.bar.elapsed());
        match self.mode {
            ProgressMode::Live => self.draw(),
            ProgressMode::Lines => {
                let part = self.state.part_of(LINES);
                if self.printed != Some(part) {
                    self.printed = Some(part);
                    let line = self.state.sparse(self.bar.elapsed());
                    self.note(&line);
                }
            }
        }
    }

    /// A cell ends; `failure` says why it failed, if it did.
    pub fn cell_ends(&mut self, cell: &Cell, failure: Option<&str>) {
        if let Some(reason) = failure {
            self.note(&format!("{}: {reason}", cell.id));
        }
        self.state.ends(cell, failure.is_some());
        if self.mode == ProgressMode::Live {
            self.draw();
        }
    }

    /// Prints a line above the live line.
    pub fn note(&self, line: &str) {
        // A closed stderr is not an error.
        self.bar.suspend(|| {
            let _ = writeln!(anstream::stderr(), "{line}");
        });
    }

    /// Ends the progress and removes the live line.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn draw(&mut self) {
        let size = terminal_size::terminal_size_of(std::io::stderr());
        let width = size.map_or(WIDTH, |(width, _)| usize::from(width.0));
        let line = self.state.line(self.bar.elapsed(), width);
        self.bar.set_message(line);
        self.bar.tick();
    }
}
