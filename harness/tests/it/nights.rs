//! Five nodes over thirteen nights: what the reducers of Kubernetes and Slurm say of them; and how
//! nights end.

use std::path::Path;
use std::process::Command;

use gpubench::verbs::rescore;
use gpubench_record::{Condition, Json, RunRecord};
use gpubench_stats::ScheduleRng;

use crate::support::{Error, Finished, Lab, SHORT, TestResult, finish, program};

const NODES: usize = 5;
const NIGHTS: usize = 13;
/// Spread between the nights of a node.
const SPREAD: f64 = 0.005;

/// The driver of a node in a night and the logarithm of its change; `None` for a night without it.
type Plan = fn(usize, usize) -> Option<(&'static str, f64)>;

fn base(lab: &Lab) -> Result<RunRecord, Error> {
    finish(lab.matrix("base", &["--mechanism", "time-slicing"]))?.ended_with(0)?;
    lab.record("base")
}

/// Writes the record of every node and night, with scores that follow from their cells.
fn write(base: &RunRecord, folder: &Path, seed: u64, plan: Plan) -> TestResult {
    let mut rng = ScheduleRng::new(seed);
    for night in 0..NIGHTS {
        for node in 0..NODES {
            let angle = std::f64::consts::TAU * rng.uniform();
            let normal = (2.0 * rng.exponential()).sqrt() * angle.cos();
            let Some((driver, change)) = plan(node, night) else { continue };
            let mut run = base.clone();
            run.device.driver = driver.to_owned();
            run.device.uuid = format!("GPU-{node:08}-0000-0000-0000-000000000000");
            run.provenance.started_at = format!("2026-01-{:02}T02:00:{node:02}Z", night + 1);
            run.provenance.labels.insert("node".to_owned(), format!("n{node}"));
            let factor = (change + SPREAD * normal).exp();
            for cell in run.cells.iter_mut().filter(|one| one.cell.condition == Condition::C) {
                let rate = &mut cell.figures.closed_rate_per_s;
                *rate = rate.map(|rate| rate * factor);
            }
            rescore(&mut run, &[])?;
            let record = folder.join(format!("1-{night}-{node}"));
            std::fs::create_dir_all(&record)?;
            std::fs::write(record.join("record.json"), run.to_json()?)?;
        }
    }
    Ok(())
}

/// The command lines of the reducer of Kubernetes, on this folder of results.
fn of_kubernetes(results: &Path) -> Result<Vec<Vec<String>>, Error> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ci/kubernetes/overlays/reduce");
    let text = std::fs::read_to_string(root.join("job.yaml"))?;
    let lines =
        text.lines().filter_map(|line| line.trim().strip_prefix("args: [")?.strip_suffix(']'));
    let words = |line: &str| {
        let line = line.replace("/results", &results.display().to_string());
        line.split(", ").map(str::to_owned).collect()
    };
    Ok(lines.map(words).collect())
}

/// The reducer of Slurm.
fn of_slurm(results: &Path) -> Result<Finished, Error> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ci/slurm/reduce.sbatch");
    let mut command = Command::new("bash");
    command
        .arg(script)
        .env("GPUBENCH", program())
        .env("GPUBENCH_RESULTS", results)
        .env("GPUBENCH_ARRAY", "1")
        .env("GPUBENCH_TASKS", NODES.to_string());
    finish(command)
}

#[test]
fn reducers_find_what_got_worse_and_who_is_missing_and_stay_quiet_else() -> TestResult {
    let lab = Lab::on("turing")?.profile(&SHORT.replace("compute/sm", "bandwidth/dram"))?;
    let base = base(&lab)?;
    let cases: [(&str, Plan, [u8; 2], &str); 6] = [
        ("harmless", |_, night| Some((driver(night), 0.0)), [0, 0], "no regression stands: "),
        (
            "leak",
            |_, night| Some((driver(night), if night < 8 { 0.0 } else { -0.198 })),
            [30, 0],
            "REGRESSED: driver 1 -> 2, worse: time-slicing",
        ),
        (
            "first-morning",
            |_, night| (night >= 7).then_some(if night < 12 { ("1", 0.0) } else { ("2", -0.198) }),
            [30, 0],
            "REGRESSED: driver 1 -> 2, worse: time-slicing",
        ),
        (
            "bad-node",
            |node, night| Some(("1", if node == 3 && night >= 8 { -0.198 } else { 0.0 })),
            [30, 30],
            "REGRESSED: drift over 13 nights, worse: time-slicing",
        ),
        (
            "missing",
            |node, night| (node != 4 || night < 9).then_some(("1", 0.0)),
            [3, 0],
            "NOT MEASURED: n4 stopped reporting: 4 nights missed",
        ),
        (
            "drift",
            |_, night| Some(("1", -0.002 * night as f64)),
            [30, 0],
            "REGRESSED: drift over 13 nights, worse: time-slicing",
        ),
    ];
    for (seed, (name, plan, codes, first)) in (1..).zip(cases) {
        let results = lab.path(name);
        write(&base, &results.join("records"), seed, plan)?;
        for (command, code) in of_kubernetes(&results)?.into_iter().zip(codes) {
            let done = finish(lab.gpubench(&command))?;
            let text = done.text();
            let done = done.ended_with(code.into()).map_err(|error| format!("{name}: {error}"))?;
            if command[0] == "history" {
                assert!(done.stdout.starts_with(first), "{name}: {text}");
            } else if code == 30 {
                assert!(
                    done.stdout.starts_with("5 devices by node, 1 group; 1 differs: n3"),
                    "{text}"
                );
            }
        }
        let worst = codes.into_iter().max().unwrap_or_default();
        let done = of_slurm(&results)?.ended_with(worst.into())?;
        assert!(done.stdout.starts_with(first), "{name}: {}", done.stdout);
    }
    // A regression that a person knows of is listed and no longer fails.
    let leak = lab.arg("leak/records");
    finish(lab.gpubench(["history", "acknowledge", &leak, "until 630"]))?.ended_with(0)?;
    let done = finish(lab.gpubench(["history", &leak, "--by=node"]))?.ended_with(0)?;
    assert!(done.stdout.contains("(acknowledged: until 630)"), "{}", done.stdout);
    Ok(())
}

fn driver(night: usize) -> &'static str {
    if night < 8 { "1" } else { "2" }
}

/// The last line of a night, with its exit code.
fn night(lab: &Lab, device: &str, more: &[&str]) -> Result<(i32, String), Error> {
    let mut command = lab.gpubench(["nightly", "nights", "--profile", "short.toml"]);
    command.args(["--device", device]).args(more);
    let done = finish(command)?;
    let last = done.stdout.lines().last().unwrap_or_default().to_owned();
    Ok((done.code.ok_or("ended by a signal")?, last))
}

#[test]
fn a_night_stores_its_record_removes_only_what_is_its_own_and_ends_with_its_verdict() -> TestResult
{
    let lab = Lab::on("turing")?;
    let reports = lab.path("gpubench-night");
    std::fs::create_dir(&reports)?;
    std::fs::write(reports.join("node.prom"), "other 1\n")?;
    let (code, last) = night(&lab, "virtual:turing", &["--mechanism", "time-slicing"])?;
    assert_eq!(code, 0, "{last}");
    assert!(
        last.starts_with(
            "nightly: passed with a warning (0): measured, and compared with nothing: "
        ),
        "{last}"
    );
    assert_eq!(std::fs::read_to_string(reports.join("node.prom"))?, "other 1\n");
    let strict = night(&lab, "virtual:turing", &["--mechanism", "time-slicing", "--strict"])?;
    assert_eq!(strict.0, 20, "{}", strict.1);
    let figures = |kind: &str| -> Result<String, Error> {
        let found = std::fs::read_dir(&reports)?.flatten().map(|entry| entry.path());
        let prefix = format!("gpubench-{kind}-GPU-");
        let mut named = found.filter(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix))
        });
        Ok(std::fs::read_to_string(named.next().ok_or("no file of metrics")?)?)
    };
    let measured = figures("figures")?;
    assert!(measured.lines().all(|line| line.starts_with('#') || line.contains("{UUID=\"GPU-")));
    // A machine file that is not one: the figures stay, and the outcome says what happened.
    std::fs::write(lab.path("broken.toml"), "version = 1\n")?;
    let (code, last) = night(&lab, "virtual:broken.toml", &[])?;
    assert!(code == 2 && last.starts_with("nightly: not measured (2): "), "{code} {last}");
    assert_eq!(figures("figures")?, measured);
    assert!(figures("night")?.contains("outcome=\"not measured\"} 1"));
    let case = std::fs::read_to_string(reports.join("gpubench-night.xml"))?;
    assert!(case.contains("errors=\"1\"") && case.contains("not measured (2): "), "{case}");
    let history = finish(lab.gpubench(["history", "nights"]))?;
    let title = "NOT MEASURED: nights: 1 night since the last record, not measured (2): ";
    assert!(history.stdout.replace('\n', " ").contains(title), "{}", history.stdout);
    history.ended_with(3)?;
    let listed = std::fs::read_to_string(lab.path("nights/nights.tsv"))?;
    assert_eq!(listed.lines().count(), 3, "{listed}");
    // Declared without a GPU: true of a host without one, and refused on another.
    let done = finish(lab.gpubench(["nightly", "new/nights", "--no-gpu"]))?;
    let expected = if Path::new("/dev/nvidiactl").exists() { 2 } else { 0 };
    done.ended_with(expected)?;
    Ok(())
}

#[test]
fn a_folder_that_cannot_be_used_or_is_held_ends_as_not_measured_and_hurts_nobody() -> TestResult {
    let lab = Lab::on("turing")?;
    let victim = lab.path("precious");
    std::fs::write(&victim, "precious")?;
    let lock = lab.path("nights/gpubench-nightly.lock");
    std::fs::create_dir(lab.path("nights"))?;
    std::os::unix::fs::symlink(&victim, &lock)?;
    let (code, last) = night(&lab, "virtual:turing", &[])?;
    assert!(code == 5 && last.starts_with("nightly: not measured (5): "), "{code} {last}");
    assert_eq!(std::fs::read_to_string(&victim)?, "precious");
    std::fs::remove_file(&lock)?;
    assert!(Command::new("mkfifo").arg(&lock).status()?.success());
    assert_eq!(night(&lab, "virtual:turing", &[])?.0, 5);
    std::fs::remove_file(&lock)?;
    let held = std::fs::File::create(&lock)?;
    held.lock()?;
    let (code, last) = night(&lab, "virtual:turing", &["--wait", "0"])?;
    assert!(code == 3 && last.contains("another night held nights"), "{code} {last}");
    Ok(())
}

/// A mechanism that the night before measured is no silent gap.
#[test]
fn a_mechanism_that_is_lost_fails_the_night_by_name() -> TestResult {
    let mechanisms = "mechanisms = [\"exclusive\", \"time-slicing\", \"mig\"]\naxes";
    let lab = Lab::on("hopper")?.profile(&SHORT.replacen("axes", mechanisms, 1))?;
    let (code, last) = night(&lab, "virtual:hopper", &[])?;
    assert_eq!(code, 0, "{last}");
    let (code, last) = night(&lab, "virtual:hopper", &["--no-reconfigure"])?;
    let named = "nightly: not measured (3): the night before measured more: mig 3g+3g: ";
    assert!(code == 3 && last.starts_with(named), "{code} {last}");
    Ok(())
}
