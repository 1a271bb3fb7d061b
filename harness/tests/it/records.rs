//! Records of real GPUs and of every format: read, judged again, and repeated on a virtual GPU.

use std::path::{Path, PathBuf};

use gpubench::verbs::session::sessions;
use gpubench::verbs::{Repair, open_scored, rescore};
use gpubench_compare::diff::{Options, Report, diff};
use gpubench_compare::history::History;
use gpubench_compare::render::{self, DIFF_FORMATS, Detail, HISTORY_FORMATS};
use gpubench_record::{
    ExitCode, FORMAT_VERSION, Gate, GateState, Json, OutcomeKind, ProofTime, RunEvent, RunRecord,
};
use gpubench_reports::{RenderOptions, format};
use gpubench_show::Look;
use gpubench_store::Record;
use serde_json::{Value, json};

use crate::support::{
    Error, Finished, Lab, TestResult, finish, gpubench, machine_text, with_changes,
};

// The current binary reads the example records of real GPUs.

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/examples")
}

fn report(record: &Path, format: &str) -> Result<String, Error> {
    let mut command = gpubench(["report", "--format", format]);
    if format == "text" {
        command.arg("--full");
    }
    command.arg(record);
    Ok(finish(command)?.ended_with(0)?.stdout)
}

fn line<'a>(readme: &'a str, name: &str) -> Result<(&'a str, Vec<&'a str>), Error> {
    let mut lines = readme.lines();
    let line = lines.find(|line| line.starts_with(&format!("| `{name}` |")));
    let line = line.ok_or_else(|| format!("{name} is not in the README"))?;
    Ok((line, line.split('|').map(str::trim).collect()))
}

/// Figures of cells as a file has them.
fn measured(record: &Value) -> Vec<[&Value; 3]> {
    let cells = record["cells"].as_array().map_or(&[][..], Vec::as_slice);
    let figures = cells.iter();
    figures.map(|cell| ["id", "rates", "requests"].map(|key| &cell[key])).collect()
}

/// The README names the format and the rules of each example; the command there carries it over.
#[test]
fn each_example_has_the_stated_format_and_is_carried_over_as_measured() -> TestResult {
    let readme = std::fs::read_to_string(examples().join("README.md"))?;
    for what in ["matrix", "faults-time-slicing", "faults-mps", "probes"] {
        let name = &format!("h100_580.159.04_{what}");
        let folder = examples().join(name);
        let stored: Value = serde_json::from_slice(&std::fs::read(folder.join("record.json"))?)?;
        let version = &stored["format_version"];
        let version = format!("{}.{}", version["major"], version["minor"]);
        let scoring = stored["scoring"].as_str().ok_or("no rules")?;
        let (_, columns) = line(&readme, name)?;
        assert_eq!(columns[2..4], [version.as_str(), scoring], "{name}");
        assert_eq!(stored["plan"]["claims"], Value::Null, "{name} has a ledger");
        let carried = report(&folder, "json")?;
        let run = RunRecord::from_json(carried.as_bytes())?;
        assert_eq!(run.format_version.major, FORMAT_VERSION.major, "{name}");
        assert_ne!(run.scoring, scoring, "{name} is not scored again");
        assert_eq!(run.claims.is_empty(), !run.plan.decides, "{name}");
        let carried: Value = serde_json::from_str(&carried)?;
        assert_eq!(measured(&carried), measured(&stored), "{name}");
    }
    Ok(())
}

/// The folder name gives the GPU and the driver. The README lists each example and says which runs
/// were interrupted.
#[test]
fn each_example_matches_its_name_and_its_line_in_the_readme() -> TestResult {
    let readme = std::fs::read_to_string(examples().join("README.md"))?;
    let mut count = 0;
    for entry in std::fs::read_dir(examples())? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            continue;
        }
        count += 1;
        let name = entry.file_name().into_string().map_err(|_| "a plain name")?;
        let (line, _) = line(&readme, &name)?;
        let run: Value = serde_json::from_str(&report(&entry.path(), "json")?)?;
        let device = &run["device"];
        assert_eq!(device["kind"], "real", "{name}");
        let interrupted = line.contains("interrupted");
        assert_eq!(run["complete"] == false, interrupted, "{name}");
        let driver = device["driver"].as_str().ok_or("a driver")?;
        let product = device["name"].as_str().ok_or("a name")?.to_lowercase();
        let [model, driver_version, ..] = name.split('_').collect::<Vec<_>>()[..] else {
            return Err(format!("{name}: not MODEL_DRIVER_SUFFIX").into());
        };
        assert!(product.contains(model), "{name}: {product}");
        assert_eq!(driver_version, driver, "{name}");
        let text = report(&entry.path(), "text")?;
        assert!(!text.contains("VIRTUAL") && text.contains("(real)"), "{name}");
        // Those of the H100 are older than proofs of single cells.
        assert_eq!(text.contains("PROOFS BY MECHANISM"), model == "h100", "{name}: {text}");
    }
    assert!(count > 0, "no example");
    Ok(())
}

// Records of every format version that is read, through `diff`, `history` and `report`: each is
// compared with itself without a regression, and rendered in every format, as scored and scored
// again.

const VERSIONS: [&str; 2] = ["1.0", "2.3"];
const KINDS: [&str; 2] = ["real", "virtual"];

fn record(dir: &Path, kind: &str, version: &str) -> Result<PathBuf, Error> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/golden");
    let folder = dir.join(format!("{kind}-{version}"));
    std::fs::create_dir(&folder)?;
    let file = golden.join(format!("{kind}.format-{version}.json"));
    std::fs::copy(file, folder.join("record.json"))?;
    Ok(folder)
}

fn compared(before: &Path, after: &Path, options: &Options) -> Result<Report, Error> {
    let side = |path: &Path| sessions(&[path.to_path_buf()]);
    Ok(diff(&side(before)?.sessions, &side(after)?.sessions, options)?)
}

#[test]
fn a_record_of_every_version_is_compared_and_rendered() -> TestResult {
    let dir = tempfile::tempdir()?;
    for kind in KINDS {
        for version in VERSIONS {
            let folder = record(dir.path(), kind, version)?;
            let report = compared(&folder, &folder, &Options::default())?;
            assert!(report.comparable, "{kind} {version}: {:?}", report.differences);
            assert_eq!(report.counts.regressed, 0, "{kind} {version}");
            for (name, format) in DIFF_FORMATS {
                let text = render::diff(&report, format, Detail::Full, Look::PIPED)?;
                assert!(text.len() > 100, "{kind} {version} as {name}: {text}");
            }
            let mut run = open_scored(&folder, Repair::No)?.run;
            for scored in ["as the run was scored", "scored again"] {
                for format in format::CATALOGUE {
                    let mut text = Vec::new();
                    (format.render)(&run, &RenderOptions::default(), &mut text)?;
                    let said = (kind, version, scored, format.name);
                    assert!(text.len() > 100, "{said:?}");
                }
                rescore(&mut run, &[])?;
            }
        }
    }
    Ok(())
}

/// Records of different versions are compared only on demand: their scoring differs.
#[test]
fn versions_beside_each_other_give_a_history_and_no_regression() -> TestResult {
    let dir = tempfile::tempdir()?;
    for kind in KINDS {
        let mut folders = Vec::new();
        for version in VERSIONS {
            folders.push(record(dir.path(), kind, version)?);
        }
        for pair in folders.windows(2) {
            let strict = compared(&pair[0], &pair[1], &Options::default())?;
            let refused = strict.exit == ExitCode::NotComparable.code();
            assert!(strict.comparable || refused, "{pair:?}: {}", strict.exit);
            let options = Options { force: true, ..Options::default() };
            let forced = compared(&pair[0], &pair[1], &options)?;
            assert!(forced.comparable && forced.counts.regressed == 0, "{pair:?}");
        }
        let found = sessions(&folders)?;
        assert_eq!(found.sessions.len(), VERSIONS.len());
        let history = History::of(&found.sessions, found.left_out, &[], None)?;
        for (name, format) in HISTORY_FORMATS {
            let text = render::history(&history, format, Detail::Full, Look::PIPED)?;
            assert!(text.contains(kind) || text.len() > 100, "{name}: {text}");
        }
    }
    Ok(())
}

// Fault trials of a real GPU, judged by the rules of today from the figures that their run left in
// format 1.0.

/// A cell with 0.82 % of stolen CPU time cost this row its sixth block, and the level with it.
#[test]
fn a_cell_of_format_1_0_that_was_excluded_for_stolen_time_counts() -> TestResult {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = path.join("../reports/examples/h100_580.159.04_faults-mps");
    let stored = Record::open(&path)?.run().clone();
    let mut run = stored.clone();
    rescore(&mut run, &[])?;
    let of_mps = |run: &RunRecord| {
        let mut rows = run.matrix.iter();
        let row = rows.find(|row| row.variant == "mps" && row.axis == "compute");
        row.cloned().ok_or("a row of MPS")
    };
    let (before, after) = (of_mps(&stored)?, of_mps(&run)?);
    assert_eq!((before.level, before.retention.map(|r| r.n)), (None, Some(5)));
    assert_eq!((after.level.as_deref(), after.retention.map(|r| r.n)), (Some("L0"), Some(6)));
    let says = "cpu-steal in 1 cell, first 0021-b04-mps-compute-C-fma-hog: 0.82 %";
    assert!(after.warnings.iter().any(|text| text.starts_with(says)), "{:?}", after.warnings);
    Ok(())
}

// Proofs belong to one cell: taken from the events of a run, through gates to the rows.

fn in_force(record: &RunRecord, cell: &str) -> Option<(GateState, String, OutcomeKind)> {
    let cell = record.cells.iter().find(|known| known.cell.id == cell)?;
    let mut gates = cell.gates.iter();
    let gate = gates.find(|gate| gate.gate == Gate::MechanismInForce)?;
    Some((gate.state, gate.detail.clone(), cell.outcome.outcome))
}

#[test]
fn a_cell_that_was_not_observed_is_excluded_and_no_other() -> TestResult {
    let lab = Lab::on("hopper")?;
    finish(lab.matrix("out", &["--mechanism", "exclusive,mps"]))?.ended_with(0)?;
    let whole = lab.record("out")?;
    let cells = || whole.plan.cells.iter().filter(|cell| cell.variant == "mps");
    let victim = cells().nth(3).ok_or("there are cells of mps")?.id.clone();
    let path = lab.path("out").join("events.jsonl");
    let events = std::fs::read_to_string(&path)?;

    // Each cell has all required proofs, and those of its samples lie in it.
    let required = whole.plan.required_proofs.as_ref();
    let required = required.and_then(|all| all.get("mps")).ok_or("the plan lists proofs")?;
    let proofs_of = |id: &str| -> Vec<gpubench_record::Proof> {
        let parsed = events.lines().filter_map(|line| RunEvent::from_json(line.as_bytes()).ok());
        let of_cell = parsed.filter_map(|event| match event {
            RunEvent::Proved { cell: Some(cell), proof, .. } if cell == id => Some(proof),
            _ => None,
        });
        of_cell.collect()
    };
    assert!(cells().count() > 6);
    for cell in cells() {
        let proofs = proofs_of(&cell.id);
        for one in required {
            assert!(proofs.iter().any(|proof| proof.is(one)), "{}: {one:?}", cell.id);
        }
        let length_ns = i64::try_from(whole.plan.durations_of(cell).cell_ns())?;
        for proof in &proofs {
            let inside = proof.t_ns.is_some_and(|t_ns| (0..=length_ns).contains(&t_ns));
            assert_eq!(inside, proof.when == ProofTime::During, "{}: {proof:?}", cell.id);
        }
    }

    // The run lost the observation of one cell.
    let is_lost = |line: &&str| line.contains("\"proved\"") && line.contains(&victim);
    assert!(events.lines().any(|line| is_lost(&line)));
    let kept: Vec<&str> = events.lines().filter(|line| !is_lost(line)).collect();
    std::fs::write(&path, kept.join("\n") + "\n")?;
    std::fs::remove_file(lab.path("out").join("record.json"))?;
    let shown = lab.gpubench(["report", &lab.arg("out"), "--format", "json"]);
    let shown = finish(shown)?.ended_with(0)?;
    let judged = RunRecord::from_json(shown.stdout.as_bytes())?;
    let (state, detail, outcome) = in_force(&judged, &victim).ok_or("the cell is judged")?;
    assert_eq!((state, outcome), (GateState::Failed, OutcomeKind::Inconclusive), "{detail}");
    assert!(detail.starts_with("not observed: "), "{detail}");
    for cell in whole.plan.cells.iter().filter(|cell| cell.id != victim) {
        let judged = in_force(&judged, &cell.id).map(|found| found.0);
        assert_eq!(judged, Some(GateState::Passed), "{}", cell.id);
    }
    Ok(())
}

// `virtual-gpu fidelity`: a part of a record of hardware is repeated on a machine, and each row
// has its verdict.

/// The record of an H100, cut to the cells of one mechanism and one pair.
fn cut(mechanism: &str, sub_axis: &str) -> Result<Value, Error> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../reports/examples/h100_580.159.04_matrix/record.json");
    let mut record: Value = serde_json::from_slice(&std::fs::read(path)?)?;
    let kept = |one: &Value, key: &str| one[key] == mechanism || one[key] == "exclusive";
    let retain = |list: &mut Value, keep: &dyn Fn(&Value) -> bool| {
        if let Some(list) = list.as_array_mut() {
            list.retain(keep);
        }
    };
    let of_cell = |cell: &Value| kept(cell, "mechanism") && cell["sub_axis"] == sub_axis;
    retain(&mut record["mechanisms"], &|one| kept(one, "name"));
    retain(&mut record["cells"], &of_cell);
    let plan = &mut record["plan"];
    retain(&mut plan["mechanisms"], &|one| kept(one, "name"));
    retain(&mut plan["cells"], &of_cell);
    retain(&mut plan["pairs"], &|one| one["sub_axis"] == sub_axis);
    record["matrix"] = json!([]);
    Ok(record)
}

fn fidelity(lab: &Lab, record: &Value, more: &[&str]) -> Result<Finished, Error> {
    std::fs::create_dir_all(lab.path("h100"))?;
    lab.write("h100/record.json", &record.to_string())?;
    let mut command = lab.gpubench(["virtual-gpu", "fidelity", "h100"]);
    command.args(more);
    finish(command)
}

/// The verdicts of the checks of one row, by figure.
fn verdicts(table: &Value, name: &str) -> Result<Value, Error> {
    let rows = table["records"][0]["rows"].as_array().ok_or("no rows")?;
    let row = rows.iter().find(|row| row["name"] == name).ok_or("no such row")?;
    let checks = row["checks"].as_array().ok_or("no checks")?;
    let pair = |check: &Value| {
        let figure = check["figure"].as_str().unwrap_or_default().to_owned();
        (figure, check["verdict"].clone())
    };
    Ok(checks.iter().map(pair).collect::<serde_json::Map<_, _>>().into())
}

#[test]
fn time_slicing_agrees_on_the_default_machine_and_planted_isolation_is_optimistic() -> TestResult {
    let lab = Lab::on("h100-80")?;
    let record = cut("time-slicing", "sm")?;
    let run = fidelity(&lab, &record, &["--format", "json"])?;
    let table: Value = serde_json::from_str(&run.stdout)?;
    assert_eq!(table["records"][0]["machine"], "h100-80", "{}", run.stderr);
    let within = verdicts(&table, "compute/sm")?;
    assert_eq!(within["retention"], "within", "{}", run.stdout);
    assert_eq!(within["level"], "within", "{}", run.stdout);

    let isolated = [("isolated = false", "isolated = true")];
    lab.write("isolated.toml", &with_changes(machine_text("h100-80")?, &isolated)?)?;
    let reasons = "[[difference]]\nrecord = \"h100\"\nreason = \"planted\"\nrows = \
                   [\"time-slicing[slice=default] compute/sm\"]\n";
    lab.write("known.toml", reasons)?;
    // Nothing lists that the tail is shorter than on hardware.
    let more = ["--machine", "isolated.toml", "--reasons", "known.toml"];
    let run = fidelity(&lab, &record, &more)?.ended_with(30)?;
    assert!(run.stdout.contains("time-slicing[slice=default] jitter/sm"), "{}", run.stdout);
    assert!(run.stdout.lines().all(|line| line.chars().count() <= 120), "{}", run.stdout);
    assert!(run.stdout.ends_with("the model is more optimistic than the hardware\n"));
    Ok(())
}

#[test]
fn what_cannot_be_compared_is_one_line_before_anything_runs() -> TestResult {
    let lab = Lab::on("h100-80")?;
    let real = cut("time-slicing", "sm")?;
    let with = |pointer: &str, value: Value| {
        let mut record = real.clone();
        if let Some(found) = record.pointer_mut(pointer) {
            *found = value;
        }
        record
    };
    lab.write("wrong.toml", "[[difference]]\nrecord = \"h100\"\nrow = \"mps\"\n")?;
    for (record, more, part) in [
        (with("/device/kind", json!("virtual")), &[][..], "it is of a virtual GPU"),
        (with("/device/name", json!("NVIDIA L40")), &[], "no machine file models NVIDIA L40"),
        (real.clone(), &["--machine", "l5"], "unknown virtual machine \"l5\""),
        (real.clone(), &["--reasons", "none.toml"], "none.toml"),
        (real.clone(), &["--reasons", "wrong.toml"], "wrong.toml: line 3: unknown field `row`"),
        (real.clone(), &["--blocks", "2"], "a whole number from 3 to 1000"),
    ] {
        let refused = fidelity(&lab, &record, more)?.ended_with(2)?;
        assert_eq!(refused.stdout, "", "{part}");
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
    Ok(())
}
