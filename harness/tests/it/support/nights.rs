//! Records of many nights or GPUs: one run is measured, the others are copies of its record with
//! facts and rates of their own.

use gpubench::judge::rescore;
use gpubench_record::{Condition, RunRecord};

use super::{Error, Finished, Lab, TestResult, finish};

/// A folder with one run, whose record is the pattern of others.
pub struct Nights {
    pub lab: Lab,
    pub run: RunRecord,
}

impl Nights {
    /// Measures the run.
    pub fn new() -> Result<Self, Error> {
        let lab = Lab::on("turing")?;
        let more = [
            "--mechanism=exclusive,time-slicing",
            "--axis=compute/sm",
            "--label=node=n0",
            "--label=pool=b",
        ];
        let mut command = lab.matrix("base", &more);
        command.env("GPUBENCH_LABELS", "cluster=a,pool=a");
        finish(command)?.ended_with(0)?;
        let mut run = lab.record("base")?;
        repeat_exactly(&mut run);
        Ok(Self { lab, run })
    }

    /// A copy of the record with changes, and the scores that follow from them.
    pub fn copy(&self, name: &str, change: impl Fn(&mut RunRecord)) -> TestResult {
        self.forge(name, |run| {
            change(run);
            rescore(run, &[])?;
            Ok(())
        })
    }

    /// A copy of the record with changes, and the scores as they were.
    pub fn forge(&self, name: &str, change: impl Fn(&mut RunRecord) -> TestResult) -> TestResult {
        let mut run = self.run.clone();
        change(&mut run)?;
        std::fs::create_dir_all(self.lab.path(name))?;
        let text = serde_json::to_string(&run)?;
        self.lab.write(&format!("{name}/record.json"), &text)?;
        Ok(())
    }

    /// Runs the binary in the folder.
    pub fn run(&self, args: &[&str], code: i32) -> Result<Finished, Error> {
        finish(self.lab.gpubench(args))?.ended_with(code)
    }
}

/// Gives repeated solo cells the rate of the first ones: copies of one difference would be a bias.
fn repeat_exactly(run: &mut RunRecord) {
    let solo = |run: &RunRecord, block| {
        let mut cells = run.cells.iter();
        let found = cells.find(|one| one.cell.condition == Condition::S && one.cell.block == block);
        found.and_then(|one| one.figures.closed_rate_per_s)
    };
    for at in 0..run.cells.len() {
        if run.cells[at].cell.condition != Condition::SAgain {
            continue;
        }
        if let Some(rate) = solo(run, run.cells[at].cell.block) {
            run.cells[at].figures.closed_rate_per_s = Some(rate);
        }
    }
}

/// Scales the rate of every cell of a condition.
pub fn scale(run: &mut RunRecord, condition: Condition, factor: f64) {
    let cells = run.cells.iter_mut();
    for cell in cells.filter(|one| one.cell.condition == condition) {
        cell.figures.closed_rate_per_s = cell.figures.closed_rate_per_s.map(|rate| rate * factor);
    }
}
