//! Options of mechanisms: each changes the device as documented, has a proof, and is undone.

use std::collections::BTreeSet;
use std::io::Write as _;

use gpubench_record::{Condition, Estimate, MatrixRow, OutcomeKind, RunRecord};
use gpubench_virtual_gpu::device::Device;
use gpubench_virtual_gpu::mig;
use serde_json::Value;

use super::support::fault::{done, mechanism_row, outcome};
use super::support::guarded::Resident;
use crate::support::{
    Error, Finished, Lab, SHORT, TestResult, finish, program, quick_hopper, text,
};

/// The settings of the time slice and their lengths (us), which differ from every built-in machine.
const SLICES: [(&str, u32); 3] = [("short", 700), ("medium", 3_000), ("long", 20_000)];

/// `hopper` with these lengths, further changes to its file, and an option in the profile.
fn lab(changes: &[(&str, &str)], option: &str) -> Result<Lab, Error> {
    let [short, medium, long] = SLICES.map(|(_, us)| us);
    let levels = format!("{{ short_us = {short}, medium_us = {medium}, long_us = {long} }}");
    let known = "{ short_us = 500, medium_us = 4000, long_us = 16000 }";
    let all = [&[(known, levels.as_str())], changes].concat();
    let lab = Lab::changed("hopper", &all, "")?;
    add(&lab, option)?;
    Ok(lab)
}

fn add(lab: &Lab, option: &str) -> std::io::Result<()> {
    let mut profile = std::fs::OpenOptions::new();
    let mut profile = profile.append(true).open(lab.path("short.toml"))?;
    profile.write_all(option.as_bytes())
}

fn time_slice(word: &str) -> String {
    format!("[time-slicing]\nslice = \"{word}\"\n")
}

fn figure<'a>(record: &'a RunRecord, variant: &str, name: &str) -> Result<&'a Estimate, String> {
    let mut all = record.probe_figures.iter();
    let found = all.find(|one| one.variant == variant && one.figure == name);
    let missing = || format!("{variant}: no {name}: {:?}", record.probe_figures);
    found.map(|one| &one.estimate).ok_or_else(missing)
}

#[test]
fn each_time_slice_has_the_length_of_the_machine_file() -> TestResult {
    for (word, us) in SLICES {
        let lab = lab(&[], &time_slice(word))?;
        let mut run = lab.reconfigure("time-slicing", "out");
        done(&run.arg("--probes").output()?)?;
        let record = lab.record("out")?;
        let (kind, reason, scored) = outcome(&record, "time-slicing")?;
        assert_eq!((kind, scored), (OutcomeKind::Measured, true), "{reason}");
        let variant = format!("time-slicing[slice={word}]");
        assert_eq!(mechanism_row(&record, "time-slicing")?.variant, variant);
        let found = figure(&record, &variant, "time slice")?;
        let planted = f64::from(us) * 1e3;
        assert!((found.value / planted - 1.0).abs() < 0.01, "{word}: {found:?}, not {planted}");
        assert!(
            found.n >= 12 && found.lo <= found.value && found.value <= found.hi,
            "{word}: {found:?}"
        );
        assert_eq!(figure(&record, &variant, "overlap")?.value, 0.0, "{word}");
        assert_eq!(lab.journal(), "", "{word}");
    }
    Ok(())
}

/// Records the arguments of a command beside it, then executes the command that follows on PATH.
const RECORDER: &str =
    "#!/bin/sh\necho \"$*\" >> \"${0%/*}/calls\"\nPATH=${PATH#*:}\nexec nvidia-smi \"$@\"\n";

/// Runs `matrix` between two scripts on the same device. Returns their output and the numbers of
/// the time slices that were set.
fn between(
    lab: &Lab,
    before: &str,
    matrix: &str,
    after: &str,
) -> Result<(String, Vec<u32>), Error> {
    let recorder = lab.path("nvidia-smi");
    std::fs::write(&recorder, RECORDER)?;
    std::fs::set_permissions(&recorder, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    lab.write("calls", "")?;
    let script = format!(
        "{before}\nPATH=\"$HERE:$PATH\" {} matrix {matrix} \
         --profile \"$HERE/short.toml\" --out \"$HERE/out\" > \"$HERE/stdout\"\n\
         echo \"status $?\"\n{after}",
        program().display()
    );
    let machine = lab.device();
    let machine = machine.trim_start_matches("virtual:");
    let mut exec = lab.gpubench(["virtual-gpu", "exec", "--machine", machine, "--"]);
    exec.env("HERE", lab.path("").display().to_string().trim_end_matches('/'));
    let output = exec.args(["sh", "-c", &script]).output()?;
    done(&output)?;
    let stdout = text(&output.stdout);
    // On a busy host the sampler can miss a cell, which leaves a mechanism without proof (4). The
    // time slice is set and restored either way.
    let ended = ["status 0\n", "status 4\n"];
    assert!(ended.iter().any(|status| stdout.contains(status)), "{stdout}{}", text(&output.stderr));
    let calls = std::fs::read_to_string(lab.path("calls"))?;
    let set = |line: &str| {
        let (_, after) = line.split_once("--set-timeslice ")?;
        after.split(' ').next()?.parse().ok()
    };
    Ok((stdout, calls.lines().filter_map(set).collect()))
}

#[test]
fn the_time_slice_before_the_run_is_restored() -> TestResult {
    let lab = lab(&[], &time_slice("short"))?;
    let (stdout, set) = between(
        &lab,
        "nvidia-smi compute-policy --set-timeslice 2 > /dev/null",
        "--allow-reconfigure --mechanism time-slicing",
        "nvidia-smi compute-policy -l",
    )?;
    let is_medium = |line: &str| line.contains("Timeslice") && line.contains("Medium");
    assert!(stdout.lines().any(is_medium), "{stdout}");
    // Each change to short is followed by one back to medium.
    let pairs: Vec<&[u32]> = set.chunks(2).collect();
    assert!(!pairs.is_empty() && pairs.iter().all(|pair| *pair == [1, 2]), "{set:?}");
    assert_eq!(lab.journal(), "");
    Ok(())
}

#[test]
fn an_unprotected_run_keeps_the_time_slice_of_the_device() -> TestResult {
    let lab = lab(&[], &time_slice("short"))?;
    let (_, set) = between(&lab, "", "--no-reconfigure --mechanism hami", "")?;
    assert_eq!(set, Vec::<u32>::new(), "the time slice was set in spite of --no-reconfigure");
    let record = lab.record("out")?;
    let mut unprotected = record.cells.iter().filter(|cell| cell.cell.condition == Condition::U);
    assert!(unprotected.clone().count() > 0);
    assert!(unprotected.all(|cell| cell.cell.variant == "time-slicing[slice=default]"));
    Ok(())
}

#[test]
fn a_time_slice_that_others_set_is_measured_as_it_is_and_named() -> TestResult {
    let lab = lab(&[], "")?;
    let (_, set) = between(
        &lab,
        "nvidia-smi compute-policy --set-timeslice 3 > /dev/null",
        "--no-reconfigure --mechanism time-slicing",
        "",
    )?;
    assert_eq!(set, Vec::<u32>::new(), "the time slice was set");
    let record = lab.record("out")?;
    let rows = record.matrix.iter();
    let variants: BTreeSet<&str> = rows.map(|row| row.variant.as_str()).collect();
    assert_eq!(variants, BTreeSet::from(["exclusive", "time-slicing[slice=long]"]));
    Ok(())
}

#[test]
fn a_time_slice_that_cannot_be_set_is_waived_with_a_remedy() -> TestResult {
    // This device has a fixed time slice.
    let fixed = Lab::on("a100-80")?;
    add(&fixed, &time_slice("short"))?;
    // A named mechanism is waived (3); the other one is measured.
    finish(fixed.reconfigure("time-slicing,mps", "out"))?.ended_with(3)?;
    let record = fixed.record("out")?;
    let (kind, reason, scored) = outcome(&record, "time-slicing")?;
    assert_eq!((kind, scored), (OutcomeKind::Waived, false), "{reason}");
    assert!(reason.contains("Timeslice: Not Supported"), "{reason}");
    let (kind, _, scored) = outcome(&record, "mps")?;
    assert_eq!((kind, scored), (OutcomeKind::Measured, true));
    assert_eq!(fixed.journal(), "");
    let remedy = mechanism_row(&record, "time-slicing")?.remedy.as_deref();
    assert_eq!(remedy, Some("[time-slicing] slice = \"default\""));
    // The remedy works.
    let profile = std::fs::read_to_string(fixed.path("short.toml"))?;
    let profile = profile.replace("slice = \"short\"", "slice = \"default\"");
    fixed.write("short.toml", &profile)?;
    done(&fixed.reconfigure("time-slicing", "remedied").output()?)?;
    let (kind, reason, _) = outcome(&fixed.record("remedied")?, "time-slicing")?;
    assert_eq!(kind, OutcomeKind::Measured, "{reason}");
    Ok(())
}

/// The row of `mps-quota` beside an aggressor.
fn quota(record: &RunRecord) -> Result<&MatrixRow, Error> {
    let is_wanted = |row: &&MatrixRow| {
        row.mechanism == "mps-quota" && row.aggressor.as_deref() == Some("fma-hog")
    };
    let found = record.matrix.iter().find(is_wanted);
    Ok(found.ok_or("mps-quota has no row")?)
}

#[test]
fn neighbours_of_lower_priority_are_proved_and_keep_their_resident_work() -> TestResult {
    const CHECK: &str = "the neighbours alone were started with a priority below normal";
    let mut kept = Vec::new();
    for word in ["normal", "below-normal"] {
        let lab = Lab::on("hopper")?;
        // No tenant has a limit on its SMs, so only the priority separates them.
        add(&lab, &format!("[mps-quota]\npct = 100\nneighbours = \"{word}\"\n"))?;
        done(&lab.reconfigure("mps-quota", word).output()?)?;
        let record = lab.record(word)?;
        let found = quota(&record)?;
        assert!(found.outcome.is_measured(), "{word}: {found:?}");
        let mechanism = mechanism_row(&record, "mps-quota")?;
        let below = word == "below-normal";
        let named = mechanism.variant.contains("neighbours=below-normal");
        assert_eq!(named, below, "{}", mechanism.variant);
        let proofs: Vec<_> = mechanism.proof.iter().filter(|p| p.check == CHECK).collect();
        assert_eq!(!proofs.is_empty(), below, "{word}: {:?}", mechanism.proof);
        for proof in proofs {
            let expected = "CUDA_MPS_CLIENT_PRIORITY: victim not set, neighbour-1 1";
            assert_eq!((proof.holds, proof.evidence.as_str()), (true, expected));
        }
        kept.push(found.retention.clone().ok_or("no retention")?);
    }
    let [normal, below] = &kept[..] else { return Err("two runs must have two rows".into()) };
    // A priority orders what has not started, and the neighbours fill the device.
    let ratio = below.value / normal.value;
    assert!((ratio - 1.0).abs() < 0.01, "{below:?} is not {normal:?}");
    Ok(())
}

// A device in MIG mode, with instances and without: mechanisms that `doctor` calls available run
// in the instances, and mechanisms that need the whole device are waived.

/// Half of an H100.
const HALF: &str = "3g.40gb";
const NO_WHOLE_DEVICE: &str = "MIG mode is on, so there is no whole device";

/// A `hopper` in MIG mode with this many instances of half its size.
struct Divided {
    host: Resident,
    device: Device,
}

impl Divided {
    fn new(halves: usize) -> Result<Self, Error> {
        let host = Resident::start(Lab::of_machine(&quick_hopper()?)?)?;
        let device = host.open()?;
        let machine = device.machine();
        let mig = machine.mig.as_ref().ok_or("no MIG")?;
        let index = mig.profile.iter().position(|one| one.name == HALF);
        let index = u32::try_from(index.ok_or("no half")?)?;
        let slices = mig.profile[index as usize].slices;
        device.transact(|state, _| {
            mig::set_mode(state, machine, true);
            for _ in 0..halves {
                let instance = mig::create_instance(state, machine, index, None)?;
                mig::create_engine(state, machine, instance, slices)?;
            }
            Ok::<(), mig::MigError>(())
        })??;
        Ok(Self { host, device })
    }

    fn run(&self, verb: &[&str], more: &[&str]) -> Result<Finished, Error> {
        let mut command = self.host.gpubench(verb);
        command.args(["--profile", "short.toml"]).args(more);
        finish(command)
    }

    fn matrix(&self, out: &str, more: &[&str]) -> Result<Finished, Error> {
        self.run(&["matrix", "--out", out], more)?.ended_with(0)
    }

    /// The report of `doctor`, its status, and the mechanisms that it calls available.
    fn doctor(&self, more: &[&str]) -> Result<(Value, Option<i32>, Vec<String>), Error> {
        let done = self.run(&["doctor", "--format", "json"], more)?;
        let report: Value = serde_json::from_str(&done.stdout)?;
        let all = report["mechanisms"].as_array().ok_or("no mechanisms")?;
        let available = all.iter().filter(|one| one["availability"]["availability"] == "available");
        let names = available.filter_map(|one| one["variant"]["mechanism"].as_str());
        let names = names.map(str::to_owned).collect();
        Ok((report, done.code, names))
    }
}

/// The available mechanisms are measured and proved; all others are waived.
fn agrees(record: &RunRecord, available: &[String]) -> TestResult {
    for one in &record.mechanisms {
        let (kind, reason, _) = outcome(record, &one.name)?;
        if available.contains(&one.name) {
            assert_eq!(kind, OutcomeKind::Measured, "{}: {reason}", one.name);
            let proofs = &mechanism_row(record, &one.name)?.proof;
            assert!(!proofs.is_empty() && proofs.iter().all(|p| p.holds), "{proofs:?}");
        } else {
            assert_eq!(
                (kind, reason.as_str()),
                (OutcomeKind::Waived, NO_WHOLE_DEVICE),
                "{}",
                one.name
            );
        }
    }
    let mig_rows = record.matrix.iter().filter(|row| row.mechanism.starts_with("mig"));
    for row in mig_rows {
        let reason = row.outcome.reason.clone().unwrap_or_default();
        assert!(!reason.contains("no proof"), "{reason}");
        assert!(row.guarantee.is_none() && row.effectiveness.is_none(), "{row:?}");
    }
    Ok(())
}

#[test]
fn available_mechanisms_run_in_existing_instances() -> TestResult {
    let divided = Divided::new(2)?;
    let (report, code, available) = divided.doctor(&[])?;
    assert_eq!(
        (code, available.as_slice()),
        (Some(0), &["mig".to_owned(), "mig-mps".to_owned()][..])
    );
    assert_eq!(report["scope"], "first MIG instance");
    assert_eq!(report["device"]["sm_count"], 0, "no instance has all SMs");
    divided.matrix("out", &[])?;
    let record = divided.host.lab.record("out")?;
    assert_eq!(record.mechanisms.len(), gpubench_catalogue::mechanism::names().len());
    agrees(&record, &available)?;
    // The victim keeps to its share, 3/7 of the 8 memory slices. The instance has 4 of them.
    let events = std::fs::read_to_string(divided.host.lab.path("out/events.jsonl"))?;
    assert!(
        events.contains("calibrated under mig[3g+3g], the victim for 0.857 of its instance"),
        "{}",
        events.lines().find(|line| line.contains("MIG mode is on:")).unwrap_or_default()
    );
    assert_eq!(divided.host.lab.journal(), "");
    Ok(())
}

#[test]
fn without_instances_a_run_needs_permission_to_create_them() -> TestResult {
    let divided = Divided::new(0)?;
    let none: Vec<String> = Vec::new();
    let (report, code, available) = divided.doctor(&["--no-reconfigure"])?;
    assert_eq!((code, &available), (Some(3), &none));
    assert!(report["device"]["name"].as_str().is_some(), "{report}");
    let effect = report["detectable_effect"]["reason"].as_str().unwrap_or_default();
    assert_eq!(effect, "MIG mode is on, and there is no instance");
    for verb in ["plan", "matrix"] {
        let waived = divided.run(&[verb, "--no-reconfigure"], &[])?.ended_with(3)?;
        let reason = format!("exclusive: {NO_WHOLE_DEVICE}");
        assert!(waived.stderr.contains(&reason), "{verb}: {}", waived.stderr);
    }
    let (_, code, available) = divided.doctor(&["--allow-reconfigure"])?;
    assert_eq!(
        (code, available.as_slice()),
        (Some(0), &["mig".to_owned(), "mig-mps".to_owned()][..])
    );
    divided.matrix("out", &["--allow-reconfigure", "--mechanism", "mig-mps"])?;
    agrees(&divided.host.lab.record("out")?, &available)?;
    let left =
        divided.device.transact(|state, _| (state.mig.current, mig::instances(state).count()))?;
    assert_eq!(left, (true, 0), "the state from before");
    assert_eq!(divided.host.lab.journal(), "");
    Ok(())
}

/// The first and the last value that an option accepts, as in a profile.
fn ends(accepted: &[&str]) -> [String; 2] {
    match accepted {
        [range] if range.contains(" to ") => {
            let (least, greatest) = range.split_once(" to ").unwrap_or_default();
            [least.to_owned(), greatest.to_owned()]
        }
        // Layouts, of which the list has no ends.
        ["auto", example, ..] if example.contains('+') => {
            ["1g+1g", "4g+3g"].map(|layout| format!("\"{layout}\""))
        }
        ["auto", ..] => ["1g", "7g"].map(|layout| format!("\"{layout}\"")),
        words => [words[0], words[words.len() - 1]].map(|word| {
            if matches!(word, "true" | "false") { word.to_owned() } else { format!("\"{word}\"") }
        }),
    }
}

/// No accepted value of an option makes a mechanism fail: what this host cannot do is waived, with
/// what the user can do.
#[test]
fn the_least_and_the_greatest_value_of_every_option_are_measured_or_waived() -> TestResult {
    let names = gpubench_catalogue::mechanism::names();
    let mechanisms = names.iter().filter_map(|name| gpubench_host::mechanism::find(name));
    let entries: Vec<_> = mechanisms.map(|one| one.entry()).collect();
    assert_eq!(entries.len(), names.len());
    for (end, what) in ["least", "greatest"].into_iter().enumerate() {
        let lab = Lab::on("hopper")?;
        // A victim that abides by the least limit.
        let share = if end == 0 { "share = 0.01\n" } else { "" };
        let mut profile = share.to_owned() + SHORT;
        for entry in entries.iter().filter(|entry| !entry.options.is_empty()) {
            profile += &format!("[{}]\n", entry.name);
            for option in entry.options {
                profile += &format!("{} = {}\n", option.key, ends(option.accepted)[end]);
            }
        }
        lab.write("short.toml", &profile)?;
        let run = finish(lab.matrix("out", &["--allow-reconfigure"]))?;
        let record = lab.record("out").map_err(|error| format!("{error}: {}", run.text()))?;
        for row in &record.mechanisms {
            let (kind, reason) = (row.outcome.outcome, &row.outcome.reason);
            let has_remedy = kind == OutcomeKind::Waived && row.remedy.is_some();
            assert!(
                kind == OutcomeKind::Measured || has_remedy,
                "{what} {}: {reason:?}",
                row.variant
            );
        }
        let measured = record.mechanisms.iter().filter(|row| row.outcome.is_measured()).count();
        assert!(measured + 2 >= names.len(), "{what}: {measured}");
        assert_eq!(run.code, Some(0), "{what}: {}", run.text());
    }
    Ok(())
}
