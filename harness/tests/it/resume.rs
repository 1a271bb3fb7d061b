//! `matrix --resume`: a run that was killed or interrupted goes on with the blocks that it lacks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use gpubench_record::{Cell, Plan, RunEvent, RunRecord, SampleRow};
use gpubench_reports::Record;
use gpubench_reports::store::{SampleFile, read_events, read_log};

use crate::refused_runs::{files, is_one_line};
use crate::support::mechanism::signal;
use crate::support::{
    Error, Finished, Lab, TestResult, finish, processes_with, text, wait_during, wait_for,
};

/// Rows by cell and tenant.
type Rows = BTreeMap<(String, String), Vec<SampleRow>>;

/// How often the events of a run have this text.
fn count(lab: &Lab, what: &str) -> usize {
    let events = std::fs::read_to_string(lab.path("out/events.jsonl"));
    events.map_or(0, |text| text.matches(what).count())
}

/// The plan of a run, as it began.
fn planned(lab: &Lab) -> Result<Plan, Error> {
    match read_events(&lab.path("out"))?.events.first() {
        Some(RunEvent::Began { plan, .. }) => Ok((**plan).clone()),
        _ => Err("no plan".into()),
    }
}

/// The cells of two blocks and the first of the next ones.
fn two_blocks(plan: &Plan) -> usize {
    2 * plan.cells.len() / plan.blocks as usize + 2
}

/// Ends a run by a signal once its events have a text this often more than now. Returns after its
/// last process.
fn cut(
    lab: &Lab,
    mut run: std::process::Child,
    sign: (&str, impl Fn(&Plan) -> usize),
    by: &str,
) -> TestResult {
    let before = count(lab, sign.0);
    wait_during(&mut run, "the plan", || planned(lab).is_ok())?;
    let enough = before + sign.1(&planned(lab)?);
    wait_during(&mut run, sign.0, || count(lab, sign.0) >= enough)?;
    signal(run.id(), by)?;
    let ended = run.wait_with_output()?;
    let code = ended.status.code();
    assert!(code.is_none_or(|code| code == 130), "{}", text(&ended.stderr));
    let state = lab.arg("state");
    wait_for("the run is gone", || processes_with(&state).is_empty())
}

/// The rows of every log of a run that was killed.
fn logged(lab: &Lab) -> Result<Rows, Error> {
    let mut rows = Rows::new();
    for cell in std::fs::read_dir(lab.path("out/cells"))? {
        let cell = cell?;
        for log in std::fs::read_dir(cell.path())? {
            let path = log?.path();
            // The kill came between the allocation of the file, which has zeros, and its head.
            if std::fs::read(&path)?.iter().all(|byte| *byte == 0) {
                continue;
            }
            let tenant = path.file_stem().map(|name| name.to_string_lossy().into_owned());
            let name = cell.file_name().to_string_lossy().into_owned();
            rows.insert((name, tenant.unwrap_or_default()), read_log(&path)?);
        }
    }
    rows.retain(|_, rows| !rows.is_empty());
    Ok(rows)
}

/// The rows of every segment of a finished record.
fn stored(lab: &Lab) -> Result<Rows, Error> {
    let file = SampleFile::open(&lab.path("out/samples.parquet"))?;
    let mut rows = Rows::new();
    for segment in file.segments() {
        let key = (segment.key.cell.clone(), segment.key.tenant.clone());
        let loaded = file.load(&key.0, &key.1)?;
        rows.insert(key, loaded);
    }
    Ok(rows)
}

fn resume(lab: &Lab) -> Result<Finished, Error> {
    finish(lab.gpubench(["matrix", "--resume", "out", "--full"]))
}

/// What a cell measures, without its id.
fn what(cell: &Cell) -> String {
    let Cell { block, variant, condition, victim, aggressor, dose, schedule_seed, .. } = cell;
    format!("{block} {variant} {condition:?} {victim} {aggressor:?} {dose} {schedule_seed}")
}

/// Every planned cell of every block counts once, and is in one start of the harness with the
/// others of its block.
fn is_whole(lab: &Lab, plan: &Plan, record: &RunRecord) -> TestResult {
    let sorted = |cells: Vec<String>| cells.into_iter().collect::<BTreeSet<_>>();
    let measured: Vec<String> = record.cells.iter().map(|one| what(&one.cell)).collect();
    assert_eq!(measured.len(), plan.cells.len());
    assert_eq!(sorted(measured), sorted(plan.cells.iter().map(what).collect()));
    assert!(record.complete, "{:?}", record.incomplete_reason);
    let failed = record.cells.iter().filter(|one| !one.outcome.is_measured());
    assert_eq!(failed.count(), 0);
    let counting: BTreeSet<_> = record.cells.iter().map(|one| one.cell.id.as_str()).collect();
    let mut starts: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for segment in SampleFile::open(&lab.path("out/samples.parquet"))?.segments() {
        let key = &segment.key;
        if counting.contains(key.cell.as_str()) {
            starts.entry(key.block).or_default().insert(key.session);
        }
    }
    assert_eq!(starts.len(), plan.blocks as usize);
    assert!(starts.values().all(|of_block| of_block.len() == 1), "{starts:?}");
    let all: BTreeSet<_> = starts.into_values().flatten().collect();
    assert!(all.len() as u32 == 1 + record.interruptions.len() as u32, "{all:?}");
    Ok(())
}

/// Nothing that was measured before is lost or changed.
fn has_all(out: &Path, before: &Rows) -> TestResult {
    let record = Record::open(out)?;
    for ((cell, tenant), rows) in before {
        assert!(&record.samples(cell, tenant)? == rows, "{tenant} in {cell}");
    }
    Ok(())
}

#[test]
fn a_killed_run_goes_on_with_whole_blocks_and_loses_no_sample() -> TestResult {
    let lab = Lab::on("hopper")?;
    let labels = ["--mechanism", "time-slicing,mps", "--label", "pool=a", "--seed", "7"];
    let run = lab.matrix("out", &labels).spawn()?;
    cut(&lab, run, ("cell-ended", two_blocks), "KILL")?;
    let (plan, before) = (planned(&lab)?, logged(&lab)?);
    assert!(!lab.path("out/record.json").exists());
    let resumed = resume(&lab)?.ended_with(0)?;
    assert!(resumed.stdout.contains("RESUMED: the run was killed after"), "{}", resumed.stdout);
    let record = lab.record("out")?;
    is_whole(&lab, &plan, &record)?;
    has_all(&lab.path("out"), &before)?;
    let [interruption] = &record.interruptions[..] else {
        return Err(format!("{} interruptions", record.interruptions.len()).into());
    };
    assert!(interruption.blocks_before >= 1 && interruption.blocks_after >= 1);
    assert_eq!(interruption.blocks_before + interruption.blocks_after, plan.blocks);
    assert_eq!(interruption.is_reboot(), Some(false));
    assert_eq!(interruption.superseded as usize, record.superseded.len());
    assert!(!record.superseded.is_empty());
    assert!(record.superseded.iter().all(|one| !one.outcome.is_measured()));
    assert_eq!(interruption.provenance.command[2], "--resume");
    assert_eq!(record.provenance.command[2], "--device");
    assert_eq!((record.seed, record.provenance.labels["pool"].as_str()), (7, "a"));
    // Progress has what is left alone.
    let per_block = plan.cells.len() / plan.blocks as usize;
    let left = format!(" of {} cells", interruption.blocks_after as usize * per_block);
    assert!(resumed.stderr.contains(&left), "{left}: {}", resumed.stderr);
    let verified = finish(lab.gpubench(["report", "out", "--verify"]))?;
    verified.ended_with(0)?;
    let again = files(&lab.path("out"))?;
    is_one_line(&resume(&lab)?.ended_with(2)?, "nothing is missing in out");
    assert!(files(&lab.path("out"))? == again, "the record was changed");
    Ok(())
}

#[test]
fn a_run_goes_on_after_sigterm_and_after_a_kill_of_the_second_start() -> TestResult {
    let lab = Lab::on("hopper")?;
    let run = lab.matrix("out", &["--mechanism", "time-slicing"]).spawn()?;
    cut(&lab, run, ("cell-ended", two_blocks), "TERM")?;
    assert!(lab.path("out/samples.parquet").exists() && !lab.path("out/cells").exists());
    let (plan, first) = (planned(&lab)?, stored(&lab)?);
    let second = lab.gpubench(["matrix", "--resume", "out"]).spawn()?;
    cut(&lab, second, ("cell-ended", two_blocks), "KILL")?;
    has_all(&lab.path("out"), &first)?;
    let both = logged(&lab)?;
    assert!(both.len() > first.len());
    resume(&lab)?.ended_with(0)?;
    let record = lab.record("out")?;
    assert_eq!(record.interruptions.len(), 2);
    assert_eq!(record.interruptions[0].reason.as_deref(), Some("interrupted"));
    assert_eq!(record.interruptions[1].reason, None);
    is_whole(&lab, &plan, &record)?;
    has_all(&lab.path("out"), &both)?;
    has_all(&lab.path("out"), &first)
}

#[test]
fn probes_and_fault_trials_that_ended_do_not_run_again() -> TestResult {
    let lab = Lab::on("hopper")?;
    let more = ["--mechanism", "time-slicing", "--probes", "--faults", "--fault-trials", "4"];
    let run = lab.matrix("out", &more).spawn()?;
    cut(&lab, run, ("fault-trial-ended", |_: &Plan| 5), "KILL")?;
    let (plan, before) = (planned(&lab)?, logged(&lab)?);
    let (probes, cells) = (count(&lab, "\"probed\""), count(&lab, "cell-ended"));
    resume(&lab)?.ended_with(0)?;
    let record = lab.record("out")?;
    assert_eq!(count(&lab, "\"probed\""), probes);
    assert_eq!(count(&lab, "cell-ended"), cells);
    assert_eq!(count(&lab, "fault-trial-ended"), plan.fault_trials.len());
    assert_eq!(record.fault_trials.len(), plan.fault_trials.len());
    let ids: BTreeSet<_> = record.fault_trials.iter().map(|one| &one.planned.id).collect();
    assert_eq!(ids.len(), plan.fault_trials.len());
    assert_eq!(record.interruptions[0].blocks_after, 0);
    assert!(record.complete && record.fault_trials_not_held().next().is_none());
    let file = SampleFile::open(&lab.path("out/samples.parquet"))?;
    for ((cell, tenant), rows) in &before {
        assert!(&file.load(cell, tenant)? == rows, "{tenant} in {cell}");
    }
    Ok(())
}
