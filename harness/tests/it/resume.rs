//! `matrix --resume`: a run that was killed or interrupted goes on with the blocks that it lacks.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use gpubench_record::{Cell, Plan, RunEvent, RunRecord, SampleRow};
use gpubench_store::Record;
use gpubench_store::{SampleFile, read_events, read_log};

use super::support::fault::signal;
use crate::ordinary_user::{OTHER, is_root};
use crate::support::{
    Error, Finished, Lab, SHORT, TestResult, finish, processes_with, text, wait_during, wait_for,
};

/// Rows by cell and tenant.
type Rows = BTreeMap<(String, String), Vec<SampleRow>>;

/// How often the events of a run have this text.
pub fn count(lab: &Lab, what: &str) -> usize {
    let events = std::fs::read_to_string(lab.path("out/events.jsonl"));
    events.map_or(0, |text| text.matches(what).count())
}

/// The plan of a run, as it began.
pub fn planned(lab: &Lab) -> Result<Plan, Error> {
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

pub fn resume(lab: &Lab) -> Result<Finished, Error> {
    finish(lab.gpubench(["matrix", "--resume", "out", "--full"]))
}

/// What a cell measures, without its id.
fn what(cell: &Cell) -> String {
    let Cell { block, variant, condition, victim, aggressor, dose, schedule_seed, .. } = cell;
    format!("{block} {variant} {condition:?} {victim} {aggressor:?} {dose} {schedule_seed}")
}

/// Every planned cell of every block counts once, and is in one start of the harness with the
/// others of its block.
pub fn is_whole(lab: &Lab, plan: &Plan, record: &RunRecord) -> TestResult {
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
    let mut run = lab.matrix("out", &[]);
    run.env("XDG_CACHE_HOME", lab.path("cache"));
    is_one_line(&finish(run)?.ended_with(2)?, "already holds a record");
    assert!(files(&lab.path("out"))? == again, "the record was changed");
    assert!(!lab.path("cache").exists(), "a device was started");
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

// What `matrix --resume` refuses: at once, in one line, and without a change of any file.

/// A run that was killed in its cells.
fn killed() -> Result<Lab, crate::support::Error> {
    let lab = Lab::on("turing")?;
    let mut run =
        lab.matrix("out", &["--mechanism", "time-slicing", "--label", "pool=a"]).spawn()?;
    let events = lab.path("out/events.jsonl");
    wait_during(&mut run, "a cell", || {
        std::fs::read_to_string(&events).is_ok_and(|text| text.contains("cell-ended"))
    })?;
    signal(run.id(), "KILL")?;
    run.wait()?;
    let state = lab.arg("state");
    wait_for("the run is gone", || processes_with(&state).is_empty())?;
    Ok(lab)
}

#[test]
fn a_killed_run_is_resumed_only_as_it_was_and_where_it_was() -> TestResult {
    let lab = killed()?;
    a_flag_with_another_value_than_the_run_is_refused_with_both_values(&lab)?;
    a_folder_without_an_interrupted_run_is_refused(&lab)?;
    another_build_device_driver_or_user_is_named_and_refused(&lab)
}

fn a_flag_with_another_value_than_the_run_is_refused_with_both_values(lab: &Lab) -> TestResult {
    std::fs::create_dir(lab.path("other"))?;
    lab.write("other/short.toml", &SHORT.replace("max = 6", "max = 7"))?;
    let before = files(&lab.path("out"))?;
    for (flag, has) in [
        (&["--out", "other"][..], "has --out"),
        (&["--profile", "smoke"], "has --profile short"),
        (&["--profile", "other/short.toml"], "has --profile short with another value of blocks"),
        (&["--profile", "default"], "has --profile short"),
        (&["--seed", "987"], "has --seed"),
        (&["--rotation", "1"], "has --rotation 0"),
        (&["--mechanism", "mps"], "has --mechanism time-slicing"),
        (&["--axis", "compute"], "has --axis"),
        (&["--victim-cmd", "true"], "was started without --victim-cmd"),
        (&["--allow-reconfigure"], "was started without --allow-reconfigure"),
        (&["--no-reconfigure"], "was started without --no-reconfigure"),
        (&["--hami-lib", "x"], "was started without --hami-lib"),
        (&["--calibration", "x"], "was started without --calibration"),
        (&["--recalibrate"], "was started without --recalibrate"),
        (&["--label", "pool=b"], "has --label pool=a"),
        (&["--label", "a=b"], "was started without --label"),
        (&["--probes"], "was started without --probes"),
        (&["--escape"], "was started without --escape"),
        (&["--faults"], "was started without --faults"),
        (&["--no-faults"], "was started without --no-faults"),
        (&["--fault-trials", "3"], "was started without --fault-trials"),
        // Equal values before it are accepted.
        (
            &["--profile", "short.toml", "--mechanism", "time-slicing", "--seed", "987"],
            "has --seed",
        ),
        (&["--out", "out", "--label", "pool=a", "--rotation", "0", "--probes"], "without --probes"),
    ] {
        let mut command = lab.gpubench(["matrix", "--resume", "out"]);
        command.args(flag).env("XDG_CACHE_HOME", lab.path("cache"));
        let refused = finish(command)?.ended_with(2)?;
        is_one_line(&refused, has);
        assert!(
            refused.stderr.contains("differs from the run in out, which "),
            "{}",
            refused.stderr
        );
    }
    assert!(files(&lab.path("out"))? == before, "the record was changed");
    assert!(!lab.path("cache").exists(), "a device was started");
    Ok(())
}

fn a_folder_without_an_interrupted_run_is_refused(lab: &Lab) -> TestResult {
    std::fs::create_dir(lab.path("empty"))?;
    std::fs::create_dir(lab.path("alone"))?;
    std::fs::write(lab.path("alone/record.json"), "{}")?;
    for (folder, problem) in [
        ("empty", "holds no record"),
        ("absent", "no such folder: absent"),
        ("short.toml", "holds no record"),
        ("alone", "it has no events.jsonl, which a run is resumed from"),
    ] {
        let refused = finish(lab.gpubench(["matrix", "--resume", folder]))?;
        is_one_line(&refused.ended_with(2)?, problem);
    }
    let events = lab.path("out/events.jsonl");
    let text = std::fs::read_to_string(&events)?;
    let without = text.replacen("\"settings\":", "\"unknown\":", 1);
    let key = text.replacen("\\\"share\\\":", "\\\"shared\\\":", 1);
    let hash = text.replacen("\"profile_hash\":\"", "\"profile_hash\":\"0", 1);
    for (changed, problem) in [
        (without, "without its settings, which this version resumes from"),
        (key, "its profile is damaged"),
        (hash, "its profile is damaged"),
        (String::new(), "line 1"),
    ] {
        assert_ne!(changed, text);
        std::fs::write(&events, changed)?;
        let refused = finish(lab.gpubench(["matrix", "--resume", "out"]))?;
        is_one_line(&refused.ended_with(2)?, problem);
    }
    Ok(std::fs::write(&events, &text)?)
}

fn another_build_device_driver_or_user_is_named_and_refused(lab: &Lab) -> TestResult {
    let events = lab.path("out/events.jsonl");
    let text = std::fs::read_to_string(&events)?;
    let driver = text.find("\"driver\":\"").map(|at| at + 10).ok_or("no driver")?;
    let end = driver + text[driver..].find('"').ok_or("no end")?;
    let value = &text[driver..end];
    let version = format!("\"gpubench\":\"{}\"", env!("CARGO_PKG_VERSION"));
    for (changed, problem) in [
        (text.replacen(&version, "\"gpubench\":\"0.0.1\"", 1), "gpubench: \"0.0.1\" before, "),
        (text.replacen("\"scoring\":\"", "\"scoring\":\"un", 1), "scoring rules: \"un"),
        (
            text.replacen("\"ptx_hash\":\"", "\"ptx_hash\":\"0", 1),
            "kernels (hash of their PTX): \"0",
        ),
        (
            text.replacen(&format!("\"driver\":\"{value}\""), "\"driver\":\"1.2\"", 1),
            "driver: \"1.2\" before, ",
        ),
        (
            text.replacen("\"schedule_seed\":", "\"schedule_seed\":1", 1),
            "this host plans other cells than those of the record",
        ),
        (
            text.replacen("\"binding\":{\"uuid\":\"", "\"binding\":{\"uuid\":\"X", 1),
            "calibration: it belongs to ",
        ),
    ] {
        assert_ne!(changed, text, "{problem}");
        std::fs::write(&events, changed)?;
        let before = files(&lab.path("out"))?;
        let refused = finish(lab.gpubench(["matrix", "--resume", "out"]))?;
        is_one_line(&refused.ended_with(20)?, problem);
        assert!(files(&lab.path("out"))? == before, "{problem}: a file was changed");
    }
    std::fs::write(&events, &text)?;
    let other = ["matrix", "--resume", "out", "--device", "virtual:hopper"];
    let refused = finish(lab.gpubench(other))?.ended_with(20)?;
    is_one_line(&refused, "machine file (hash): ");
    // Only root can give a file away.
    if is_root() {
        std::os::unix::fs::chown(&events, Some(OTHER), None)?;
        let before = files(&lab.path("out"))?;
        let refused = finish(lab.gpubench(["matrix", "--resume", "out"]))?;
        let problem = format!("it belongs to user id {OTHER}, ");
        is_one_line(&refused.ended_with(2)?, &problem);
        assert!(files(&lab.path("out"))? == before, "a file was changed");
        std::os::unix::fs::chown(&events, Some(0), None)?;
    }
    // Nothing was lost: the run can still go on.
    finish(lab.gpubench(["matrix", "--resume", "out"]))?.ended_with(0)?;
    assert!(lab.record("out")?.complete);
    Ok(())
}

// What is refused changes nothing: a run into the folder of a record or of another run, and a
// report without `--repair`.

/// The files of a folder with their content and the time of their last change.
pub fn files(folder: &Path) -> Result<BTreeMap<PathBuf, (Vec<u8>, SystemTime)>, Error> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let changed = std::fs::metadata(&folder)?.modified()?;
        found.insert(folder.clone(), (Vec::new(), changed));
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let changed = path.metadata()?.modified()?;
                found.insert(path.clone(), (std::fs::read(&path)?, changed));
            }
        }
    }
    Ok(found)
}

/// One line on standard error, and nothing else.
pub fn is_one_line(refused: &Finished, part: &str) {
    assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
    assert!(refused.stderr.contains(part), "{}", refused.stderr);
    assert_eq!(refused.stdout, "");
}

/// Whether a process holds a lock of this folder (proc_locks(5)). Trying the lock would take it.
fn is_locked(folder: &Path) -> bool {
    let inode = folder.metadata().map(|meta| format!(":{} ", meta.ino()));
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    inode.is_ok_and(|inode| locks.contains(&inode))
}

#[test]
fn a_second_run_into_one_folder_and_its_resumption_are_refused() -> TestResult {
    let lab = Lab::on("turing")?;
    // It is refused once the folder is locked, whether its record has begun or not.
    for sign in ["out", "out/events.jsonl"] {
        let mut first = lab.matrix("out", &["--mechanism", "time-slicing"]).spawn()?;
        wait_during(&mut first, sign, || lab.path(sign).exists() && is_locked(&lab.path("out")))?;
        signal(first.id(), "STOP")?;
        let before = files(&lab.path("out"))?;
        let mut refused = vec![finish(lab.matrix("out", &[]))?];
        if sign != "out" {
            refused.push(finish(lab.gpubench(["matrix", "--resume", "out"]))?);
        }
        let after = files(&lab.path("out"))?;
        signal(first.id(), "CONT")?;
        for second in refused {
            is_one_line(&second.ended_with(2)?, "a run is still writing");
        }
        assert!(after == before, "{sign}: the folder was changed");
        signal(first.id(), "TERM")?;
        Finished::from(first.wait_with_output()?).ended_with(130)?;
        std::fs::remove_dir_all(lab.path("out"))?;
    }
    Ok(())
}

#[test]
fn a_report_writes_into_a_record_only_to_repair_it() -> TestResult {
    let lab = Lab::on("turing")?;
    let mut run = lab.matrix("out", &["--mechanism", "time-slicing"]).spawn()?;
    let events = lab.path("out/events.jsonl");
    wait_during(&mut run, "two cells", || {
        let text = std::fs::read_to_string(&events).unwrap_or_default();
        text.matches("\"cell-ended\"").count() >= 2
    })?;
    run.kill()?;
    run.wait()?;
    let before = files(&lab.path("out"))?;
    let report = |more: &[&str]| {
        let args = [&["report", "out", "--format", "csv"], more].concat();
        finish(lab.gpubench(args))?.ended_with(0)
    };
    let shown = report(&[])?;
    assert!(files(&lab.path("out"))? == before, "the record was changed");
    let repaired = report(&["--repair"])?;
    assert_eq!(repaired.stdout, shown.stdout);
    assert!(lab.path("out/record.json").is_file() && !lab.path("out/cells").exists());
    assert_eq!(report(&[])?.stdout, shown.stdout);
    Ok(())
}
