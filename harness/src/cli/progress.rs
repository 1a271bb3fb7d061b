//! The progress of a run: a live line on a terminal, and a line now and then elsewhere.
//!
//! The time left is that of the cells, probes and fault trials that are left, at the pace of those
//! that are done. It grows where the pace falls; no count goes back.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use gpubench_plan::Pace;
use gpubench_record::{Cell, Condition, Plan, TopUp, TopUpDecision};
use gpubench_show::Labels;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use super::ui::{cut, shown};
use gpubench_run::{Observer, RunPhase};

/// Lines elsewhere than on a terminal: one for each part of this size.
const LINES: u64 = 20;
/// Between two lines of a calibration.
const CALIBRATION: Duration = Duration::from_secs(5);
/// Columns of a terminal of unknown width.
const WIDTH: usize = 80;

/// The form of progress output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgressMode {
    Live,
    /// A line for every twentieth part of the cells, and one for each later phase.
    Lines,
    Quiet,
}

#[derive(Debug)]
pub struct Progress {
    /// Draws the live line; hidden elsewhere. It measures the time in both forms.
    bar: ProgressBar,
    mode: ProgressMode,
    state: State,
    printed: Option<u64>,
    last_phase: String,
    /// When that was printed.
    said_at: Duration,
}

impl Progress {
    pub fn of(plan: &Plan, pace: Pace, mode: ProgressMode) -> Self {
        let bar = match mode {
            ProgressMode::Live => ProgressBar::new_spinner(),
            ProgressMode::Lines | ProgressMode::Quiet => {
                ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden())
            }
        };
        // Without a valid template the default line is used.
        if let Ok(style) = ProgressStyle::with_template("{msg}") {
            bar.set_style(style);
        }
        let (state, last_phase, said_at) = (State::of(plan, pace), String::new(), Duration::ZERO);
        Self { bar, mode, state, printed: None, last_phase, said_at }
    }

    /// Prints a line above the live line.
    pub fn note(&self, line: &str) {
        if self.mode == ProgressMode::Quiet {
            return;
        }
        let line = shown(line);
        // A closed stderr is not an error.
        self.bar.suspend(|| {
            let _ = writeln!(anstream::stderr(), "{line}");
        });
    }

    /// The run has ended, and its record is stored and scored.
    pub fn stores(&mut self) {
        if self.mode != ProgressMode::Live {
            return;
        }
        self.state.stores();
        let ends = self.bar.elapsed() + Duration::from_secs(self.state.left_s().unwrap_or(0));
        let left = move |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            // Nothing is drawn where that fails.
            let _ = out.write_str(&eta(Some(ends.saturating_sub(state.elapsed()).as_secs())));
        };
        if let Ok(style) = ProgressStyle::with_template("{msg}   {left}") {
            self.bar.set_style(style.with_key("left", left));
        }
        self.bar.set_message("storing and scoring the record");
        self.bar.enable_steady_tick(Duration::from_millis(500));
    }

    /// Ends the progress and removes the live line.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn draw(&mut self) {
        let size = terminal_size::terminal_size_of(std::io::stderr());
        let width = size.map_or(WIDTH, |(width, _)| usize::from(width.0));
        let line = self.state.line(width);
        self.bar.set_message(line);
        self.bar.tick();
    }
}

impl Observer for Progress {
    fn phase(&mut self, phase: &RunPhase) {
        let (is_note, text) = match phase {
            RunPhase::Note(_) | RunPhase::Halted { .. } => (true, phase.to_string()),
            RunPhase::CalibratingWorkload { .. } if self.mode == ProgressMode::Lines => {
                let now = self.bar.elapsed();
                if now.saturating_sub(self.said_at) < CALIBRATION {
                    return;
                }
                (false, phase.to_string())
            }
            RunPhase::ToppedUp { top_up, cells } => {
                self.state.add(top_up, *cells);
                (true, phase.to_string())
            }
            RunPhase::Probing(_) => {
                self.state.probes_begin(self.bar.elapsed());
                (false, phase.to_string())
            }
            RunPhase::Fault { fault, variant } => {
                self.state.trials_begin(variant, fault, self.bar.elapsed());
                // A run has hundreds of faults.
                match self.mode {
                    ProgressMode::Live => (false, phase.to_string()),
                    _ => (false, format!("injecting faults under {variant}")),
                }
            }
            _ => (false, phase.to_string()),
        };
        let text = self.state.labels.relabel(&text);
        if is_note {
            self.note(&text);
        } else if self.mode == ProgressMode::Live {
            self.state.begin_phase(text);
            self.draw();
        } else if self.last_phase != text {
            self.note(&text);
            self.last_phase = text;
            self.said_at = self.bar.elapsed();
        }
    }

    fn cell_begins(&mut self, cell: &Cell) {
        self.state.begins(cell, self.bar.elapsed());
        match self.mode {
            ProgressMode::Quiet => {}
            ProgressMode::Live => self.draw(),
            ProgressMode::Lines => {
                let part = self.state.part_of(LINES);
                if self.printed != Some(part) {
                    self.printed = Some(part);
                    let line = self.state.sparse();
                    self.note(&line);
                }
            }
        }
    }

    fn cell_ends(&mut self, cell: &Cell, failure: Option<&str>) {
        if let Some(reason) = failure {
            self.note(&format!("{}: {reason}", cell.id));
        }
        self.state.ends(cell, failure.is_some(), self.bar.elapsed());
        if self.mode == ProgressMode::Live {
            self.draw();
        }
    }
}

// What of a run is done, what is left, and for how long.

/// Units before their pace counts.
const UNITS_MIN: u64 = 10;
const BAR: usize = 10;

/// What a run is made of, in its order.
#[derive(Debug, Clone, Copy)]
enum Unit {
    Cell,
    /// All probes of a mechanism.
    Probes,
    Trial,
    /// The end: all of the record.
    Store,
}

/// Storing and scoring a cell: 1.6 to 2.0 ms measured for 396 to 2,648 cells.
const STORE_NS: u64 = 2_000_000;

/// The units of a kind: predicted time of all and of those that ended, and how long these took.
#[derive(Debug, Default)]
struct Work {
    all_ns: u64,
    done_ns: u64,
    done: u64,
    /// How long the unit took that runs, and the ones before.
    took_s: f64,
    /// Predicted nanoseconds and seconds of the recent units: the weight of older ones fades.
    recent: [f64; 2],
}

/// How long a unit counts: until so large a part of what is left, and of all, has ended after it.
/// A host that becomes faster or slower is noticed in time, and a single unit moves little.
const MEMORY: [f64; 2] = [0.3, 0.05];

impl Work {
    fn is_done(&mut self, ns: u64) {
        self.done += 1;
        self.done_ns += ns;
        let (all_ns, ns) = (self.all_ns as f64, ns as f64);
        let left_ns = all_ns - self.done_ns as f64;
        let memory_ns =
            (MEMORY[0] * left_ns).max(MEMORY[1] * all_ns).max(2.0 * UNITS_MIN as f64 * ns);
        let fade = if ns > 0.0 { (-ns / memory_ns).exp() } else { 1.0 };
        let new = [ns, std::mem::take(&mut self.took_s)];
        self.recent = [0, 1].map(|at| self.recent[at] * fade + new[at]);
    }

    /// Seconds for a predicted nanosecond.
    fn pace(&self) -> Option<f64> {
        let [ns, seconds] = self.recent;
        (ns > 0.0).then(|| seconds / ns)
    }
}

/// Counts, predicted times, and what was shown.
#[derive(Debug)]
struct State {
    plan: Plan,
    labels: Labels,
    pace: Pace,
    cells: u64,
    failed: u64,
    what: String,
    /// By [`Unit`].
    work: [Work; 4],
    /// The predicted time of the trials of a fault under a variant that did not begin yet.
    trials: BTreeMap<(String, String), u64>,
    /// That of the trials that run.
    trial_ns: u64,
    /// What runs, and since when.
    unit: Option<(Unit, Duration)>,
    /// The longest bar that was shown.
    bar: usize,
}

impl State {
    fn of(plan: &Plan, pace: Pace) -> Self {
        let mut trials = BTreeMap::new();
        for trial in &plan.fault_trials {
            let ns = trial.window_ns / pace.speed + pace.trial_ns;
            *trials.entry((trial.variant.clone(), trial.fault.clone())).or_insert(0) += ns;
        }
        let mut state = Self {
            cells: plan.cells.len() as u64,
            failed: 0,
            what: String::new(),
            work: <[Work; 4]>::default(),
            unit: None,
            bar: 0,
            pace,
            trials,
            trial_ns: 0,
            plan: Plan { cells: Vec::new(), ..plan.clone() },
            labels: Labels::of(plan.mechanisms.iter().map(|one| one.variant.as_str())),
        };
        let trials_ns = state.trials.values().sum();
        let cells_ns = plan.cells.iter().map(|cell| state.cell_ns(cell)).sum();
        let probes_ns = pace.probes_ns * plan.mechanisms.len() as u64;
        let store_ns = state.cells * STORE_NS;
        for (work, ns) in state.work.iter_mut().zip([cells_ns, probes_ns, trials_ns, store_ns]) {
            work.all_ns = ns;
        }
        state
    }

    fn cell_ns(&self, cell: &Cell) -> u64 {
        self.plan.durations_of(cell).cell_ns() / self.pace.speed + self.pace.cell_ns
    }

    /// Counts the time until now for what ran, and begins a unit.
    fn turn_to(&mut self, unit: Unit, now: Duration) {
        if let Some((before, since)) = self.unit.replace((unit, now)) {
            self.work[before as usize].took_s += now.saturating_sub(since).as_secs_f64();
        }
    }

    const fn work(&mut self, unit: Unit) -> &mut Work {
        &mut self.work[unit as usize]
    }

    /// The cells that undecided rows get.
    fn add(&mut self, top_up: &TopUp, cells: usize) {
        let planned = top_up.rows.iter();
        let planned = planned.filter(|row| row.decision == TopUpDecision::Planned);
        let more_ns: u64 = planned.map(|row| row.needs_ns).sum();
        let more_ns = more_ns / self.pace.speed + cells as u64 * self.pace.cell_ns;
        self.work(Unit::Cell).all_ns += more_ns;
        self.cells += cells as u64;
    }

    fn begin_phase(&mut self, text: String) {
        self.what = text;
    }

    /// The probes of a mechanism begin: those of the one before have ended.
    fn probes_begin(&mut self, now: Duration) {
        let runs = matches!(self.unit, Some((Unit::Probes, _)));
        self.turn_to(Unit::Probes, now);
        if runs {
            let ns = self.pace.probes_ns;
            self.work(Unit::Probes).is_done(ns);
        }
    }

    /// The trials of a fault begin: what is before them has ended.
    fn trials_begin(&mut self, variant: &str, fault: &str, now: Duration) {
        self.turn_to(Unit::Trial, now);
        let probes = self.work(Unit::Probes);
        probes.all_ns = probes.done_ns;
        if self.trial_ns > 0 {
            let ns = self.trial_ns;
            self.work(Unit::Trial).is_done(ns);
        }
        let begun = self.trials.remove(&(variant.to_owned(), fault.to_owned()));
        self.trial_ns = begun.unwrap_or(0);
    }

    /// Nothing but the record is left.
    fn stores(&mut self) {
        for work in &mut self.work[..Unit::Store as usize] {
            work.all_ns = work.done_ns;
        }
    }

    fn begins(&mut self, cell: &Cell, now: Duration) {
        self.turn_to(Unit::Cell, now);
        let label = self.labels.get(&cell.variant);
        self.what = match (cell.condition, &cell.aggressor) {
            (Condition::C | Condition::U, Some(aggressor)) => {
                format!("{label}, {} beside {aggressor}", cell.victim)
            }
            _ => format!("{label}, {} alone", cell.victim),
        };
    }

    fn ends(&mut self, cell: &Cell, failed: bool, now: Duration) {
        self.turn_to(Unit::Cell, now);
        self.failed += u64::from(failed);
        let ns = self.cell_ns(cell);
        self.work(Unit::Cell).is_done(ns);
    }

    const fn done(&self) -> u64 {
        self.work[Unit::Cell as usize].done
    }

    /// The part of the cells that ended, in `parts`.
    fn part_of(&self, parts: u64) -> u64 {
        self.done() * parts / self.cells.max(1)
    }

    /// The seconds left. The pace of a kind goes from that of all units to its own as its units
    /// end: the first trials are the short ones. At the start a GPU has the pace of the plan, and a
    /// virtual one shows nothing.
    fn left_s(&self) -> Option<u64> {
        let done = self.work.iter().map(|work| work.done).sum::<u64>();
        let paces = self.work.iter().filter_map(|work| Some((work.pace()?, work.done_ns as f64)));
        let (sum, weights) = paces.fold((0.0, 0.0), |(sum, weights), (pace, weight)| {
            (sum + pace * weight, weights + weight)
        });
        let planned = (self.pace.speed == 1).then_some(1e-9);
        let of_all = if done < UNITS_MIN { planned? } else { sum / weights };
        let left = self.work.iter().map(|work| {
            let done = work.done_ns as f64 / work.all_ns.max(1) as f64;
            let pace = work.pace().map_or(of_all, |own| done * own + (1.0 - done) * of_all);
            work.all_ns.saturating_sub(work.done_ns) as f64 * pace
        });
        Some(left.sum::<f64>().ceil() as u64)
    }

    /// The live line, at most `width` columns.
    fn line(&mut self, width: usize) -> String {
        let sum = |of: fn(&Work) -> u64| self.work.iter().map(of).sum::<u64>();
        let part = sum(|work| work.done_ns) as f64 / sum(|work| work.all_ns).max(1) as f64;
        self.bar = self.bar.max((part * BAR as f64) as usize).min(BAR);
        let bar = "#".repeat(self.bar) + &".".repeat(BAR - self.bar);
        let head = format!("[{bar}]  {}/{} cells", self.done(), self.cells);
        let mut tail = eta(self.left_s());
        if self.failed > 0 {
            tail += &format!("   {} inconclusive", self.failed);
        }
        let fixed = head.len() + tail.len() + 5;
        let room = width.saturating_sub(fixed + 1);
        let what = cut(&self.what, room);
        let line = format!("{head}  {what}   {tail}");
        line.chars().take(width.saturating_sub(1)).collect()
    }

    fn sparse(&self) -> String {
        format!("{} of {} cells done, {}", self.done(), self.cells, eta(self.left_s()))
    }
}

fn eta(left_s: Option<u64>) -> String {
    match left_s {
        None => "ETA -:--".to_owned(),
        Some(left) if left < 3600 => format!("ETA {}:{:02}", left / 60, left % 60),
        Some(left) => format!("ETA {}:{:02}:{:02}", left / 3600, left / 60 % 60, left % 60),
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::time::Duration;

    use gpubench_plan::Pace;
    use gpubench_plan::draft::device_check;
    use gpubench_plan::profile::Overrides;

    use super::{State, Unit};
    use crate::verbs::profile::load;

    fn seconds_left(line: &str) -> Option<u64> {
        let text = line.split("ETA ").nth(1)?.split_whitespace().next()?;
        let (minutes, seconds) = text.split_once(':')?;
        Some(minutes.parse::<u64>().ok()? * 60 + seconds.parse::<u64>().ok()?)
    }

    /// A host twice as fast from half of the cells on: at three quarters the time left is right.
    #[test]
    fn the_time_left_follows_a_host_that_becomes_faster() -> Result<(), Box<dyn Error>> {
        let mut plan = device_check(&load("default", &Overrides::default())?);
        plan.cells = plan.cells.iter().cycle().take(400).cloned().collect();
        let mut state = State::of(&plan, Pace::of(&plan, true));
        state.work[Unit::Store as usize].all_ns = 0;
        let mut now = Duration::ZERO;
        for (index, cell) in plan.cells.iter().enumerate().take(300) {
            state.begins(cell, now);
            now += Duration::from_millis(if index < 200 { 1000 } else { 500 });
            state.ends(cell, false, now);
        }
        let left = state.left_s().unwrap_or(0);
        assert!((50..60).contains(&left), "{left} s, and 50 s are true");
        Ok(())
    }

    /// Cells become slower with every one.
    #[test]
    fn the_time_left_follows_the_pace_and_no_count_goes_back() -> Result<(), Box<dyn Error>> {
        let mut plan = device_check(&load("default", &Overrides::default())?);
        plan.cells = plan.cells.iter().cycle().take(60).cloned().collect();
        for is_virtual in [false, true] {
            let mut state = State::of(&plan, Pace::of(&plan, is_virtual));
            let store_ns = state.work[Unit::Store as usize].all_ns;
            assert_eq!(store_ns / 1_000_000, 2 * 60);
            state.work[Unit::Store as usize].all_ns = 0;
            let (mut now, mut bar) = (Duration::ZERO, 0);
            let end = Duration::from_millis(100 * 60 * 61 / 2);
            for (index, cell) in plan.cells.iter().enumerate() {
                state.begins(cell, now);
                now += Duration::from_millis(100 * (index as u64 + 1));
                state.ends(cell, false, now);
                let line = state.line(80);
                assert!(line.chars().count() < 80, "{line}");
                let left = seconds_left(&line);
                assert_eq!(left.is_none(), is_virtual && index < 9, "{line}");
                // The pace of what is done knows nothing of the slower rest.
                let (true_s, shown_s) = ((end - now).as_secs(), left.unwrap_or(0));
                assert!(index < 9 || shown_s <= true_s + 1, "{line}");
                assert!(state.bar >= bar, "{line}");
                bar = state.bar;
            }
            assert!(state.left_s() == Some(0) && bar == super::BAR, "{state:?}");
        }
        Ok(())
    }
}
