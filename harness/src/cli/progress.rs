//! The progress of a run: a live line on a terminal, and a line now and then elsewhere.
//!
//! The time left follows from the planned length of what is done and of what is left. It never
//! grows on screen, and neither count goes back.

use std::collections::VecDeque;
use std::io::Write;
use std::time::Duration;

use gpubench_record::plan::TopUpDecision;
use gpubench_record::{Cell, Condition, Plan, TopUp};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use gpubench_run::{Observer, RunPhase};

/// Lines elsewhere than on a terminal: one for each part of this size.
const LINES: u64 = 20;
/// Columns of a terminal of unknown width.
const WIDTH: usize = 80;

/// The form of progress output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgressMode {
    Live,
    /// A line for every twentieth part of the cells, and one for each later phase.
    Lines,
}

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

impl Observer for Progress {
    fn phase(&mut self, phase: &RunPhase) {
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

    fn cell_begins(&mut self, cell: &Cell) {
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

    fn cell_ends(&mut self, cell: &Cell, failure: Option<&str>) {
        if let Some(reason) = failure {
            self.note(&format!("{}: {reason}", cell.id));
        }
        self.state.ends(cell, failure.is_some());
        if self.mode == ProgressMode::Live {
            self.draw();
        }
    }
}

// What of a run is done, what is left, and for how long.

/// Cells before the time left is estimated.
const CELLS_MIN: u64 = 10;
const BAR: usize = 10;

/// Counts, planned times, and what was shown.
#[derive(Debug)]
struct State {
    plan: Plan,
    cells: u64,
    done: u64,
    /// The latest block of which a cell began, from 1.
    block: u32,
    blocks: u32,
    failed: u64,
    what: String,
    /// Planned time of the cells and fault trials, and of those that ended.
    total_ns: u64,
    done_ns: u64,
    /// The fault trials that did not begin yet, with their planned time.
    trials: VecDeque<(String, String, u64)>,
    begun: Option<Duration>,
    /// The longest bar and the shortest time left that were shown.
    bar: usize,
    left: Option<u64>,
}

impl State {
    fn of(plan: &Plan) -> Self {
        let trials = plan.fault_trials.iter();
        let trials: VecDeque<_> = trials
            .map(|trial| (trial.variant.clone(), trial.fault.clone(), trial.window_ns))
            .collect();
        let trials_ns = trials.iter().map(|(_, _, window_ns)| window_ns);
        Self {
            cells: plan.cells.len() as u64,
            done: 0,
            block: 0,
            blocks: plan.blocks,
            failed: 0,
            what: String::new(),
            total_ns: plan.device_time_ns().saturating_add(trials_ns.sum()),
            done_ns: 0,
            trials,
            begun: None,
            bar: 0,
            left: None,
            plan: Plan { cells: Vec::new(), ..plan.clone() },
        }
    }

    /// The cells that undecided rows get.
    fn add(&mut self, top_up: &TopUp, cells: usize) {
        let planned = top_up.rows.iter();
        let planned = planned.filter(|row| row.decision == TopUpDecision::Planned);
        let more_ns: u64 = planned.map(|row| row.needs_ns).sum();
        self.total_ns = self.total_ns.saturating_add(more_ns);
        self.cells += cells as u64;
    }

    fn begin_phase(&mut self, text: String) {
        self.what = text;
    }

    /// The trials of a fault begin: those before them have ended.
    fn trials_begin(&mut self, variant: &str, fault: &str) {
        let is_it = |(a, b, _): &(String, String, u64)| a == variant && b == fault;
        while self.trials.front().is_some_and(|trial| !is_it(trial)) {
            let ended = self.trials.pop_front();
            self.done_ns += ended.map_or(0, |(_, _, window_ns)| window_ns);
        }
    }

    fn begins(&mut self, cell: &Cell, now: Duration) {
        self.begun.get_or_insert(now);
        self.block = self.block.max(cell.block + 1);
        self.blocks = self.blocks.max(self.block);
        self.what = match (cell.condition, &cell.aggressor) {
            (Condition::C | Condition::U, Some(aggressor)) => {
                format!("{}, {} beside {aggressor}", cell.mechanism, cell.victim)
            }
            _ => format!("{}, {} alone", cell.mechanism, cell.victim),
        };
    }

    fn ends(&mut self, cell: &Cell, failed: bool) {
        self.done += 1;
        self.failed += u64::from(failed);
        self.done_ns += self.plan.durations_of(cell).cell_ns();
    }

    /// The part of the cells that ended, in `parts`.
    fn part_of(&self, parts: u64) -> u64 {
        self.done * parts / self.cells.max(1)
    }

    /// The seconds left, which never grow; `None` before enough cells ended. What is left takes as
    /// long, by its planned time, as what is done took.
    fn left_s(&mut self, now: Duration) -> Option<u64> {
        if self.done < CELLS_MIN || self.done_ns == 0 {
            return None;
        }
        let took = now.saturating_sub(self.begun?).as_secs_f64();
        let ahead = self.total_ns.saturating_sub(self.done_ns) as f64 / self.done_ns as f64;
        let left = (took * ahead).ceil() as u64;
        let left = self.left.map_or(left, |shown| shown.min(left));
        self.left = Some(left);
        Some(left)
    }

    fn time_left(&mut self, now: Duration) -> String {
        match self.left_s(now) {
            None => "ETA -:--".to_owned(),
            Some(left) => format!("ETA {}:{:02}", left / 60, left % 60),
        }
    }

    /// The live line, at most `width` columns.
    fn line(&mut self, now: Duration, width: usize) -> String {
        let part = self.done_ns as f64 / self.total_ns.max(1) as f64;
        self.bar = self.bar.max((part * BAR as f64) as usize).min(BAR);
        let bar = "#".repeat(self.bar) + &".".repeat(BAR - self.bar);
        let (block, blocks, done, cells) = (self.block, self.blocks, self.done, self.cells);
        let head = format!("[{bar}]  block {block}/{blocks}  {done}/{cells} cells");
        let mut tail = self.time_left(now);
        if self.failed > 0 {
            tail += &format!("   {} inconclusive", self.failed);
        }
        let fixed = head.len() + tail.len() + 5;
        let room = width.saturating_sub(fixed + 1);
        let what: String = self.what.chars().take(room).collect();
        let line = format!("{head}  {what}   {tail}");
        line.chars().take(width.saturating_sub(1)).collect()
    }

    fn sparse(&mut self, now: Duration) -> String {
        let (block, blocks, done, cells) = (self.block, self.blocks, self.done, self.cells);
        let left = self.time_left(now);
        format!("block {block} of {blocks}: {done} of {cells} cells done, {left}")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gpubench_plan::draft::device_check;
    use gpubench_plan::profile::Overrides;

    use super::State;
    use crate::verbs::profile::load;

    fn seconds_left(line: &str) -> Option<u64> {
        let text = line.split("ETA ").nth(1)?.split_whitespace().next()?;
        let (minutes, seconds) = text.split_once(':')?;
        Some(minutes.parse::<u64>().ok()? * 60 + seconds.parse::<u64>().ok()?)
    }

    #[test]
    fn bar_block_and_time_left_never_go_back() -> Result<(), Box<dyn std::error::Error>> {
        let mut plan = device_check(&load("default", &Overrides::default())?);
        let cells = plan.cells.iter().cycle().take(60).zip(0..);
        // Blocks interleave, as those of mechanisms in one group do.
        let cells = cells
            .map(|(cell, at)| gpubench_record::Cell { block: at / 20 + at % 2, ..cell.clone() });
        plan.cells = cells.collect();
        let mut state = State::of(&plan);
        let (mut now, mut shown, mut bar, mut block) = (Duration::ZERO, u64::MAX, 0, 0);
        for (index, cell) in plan.cells.iter().enumerate() {
            state.begins(cell, now);
            // Cells become slower: the estimate alone would grow.
            now += Duration::from_millis(100 * (index as u64 + 1));
            state.ends(cell, false);
            let line = state.line(now, 80);
            assert!(line.chars().count() < 80, "{line}");
            if let Some(left) = seconds_left(&line) {
                assert!(left <= shown, "{line}");
                shown = left;
            }
            assert!(state.bar >= bar && state.block >= block, "{line}");
            (bar, block) = (state.bar, state.block);
        }
        assert!(shown == 0 && bar == super::BAR, "{shown} s, {bar}");
        Ok(())
    }
}
