//! Options of mechanisms from outside: each does what it says to the device, is seen to, and is
//! taken back.

use std::io::Write as _;
use std::path::Path;

use crate::support::mechanism::{done, outcome, row};
use crate::support::{Error, Lab, TestResult, program, text};
use gpubench_record::{Condition, Estimate, MatrixRow, OutcomeKind, RunRecord};

/// Every length of a turn that can be set, and how long it is on the machine of these tests (us):
/// as in no machine file of ours.
const SLICES: [(&str, u32); 3] = [("short", 700), ("medium", 3_000), ("long", 20_000)];

/// `hopper` with these lengths and further changes to its file.
fn place(changes: &[(&str, &str)], option: &str) -> Result<Lab, Error> {
    let [short, medium, long] = SLICES.map(|(_, us)| us);
    let levels = format!("{{ short_us = {short}, medium_us = {medium}, long_us = {long} }}");
    let known = "{ short_us = 500, medium_us = 4000, long_us = 16000 }";
    let all = [&[(known, levels.as_str())], changes].concat();
    let place = Lab::changed("hopper", &all, "")?;
    add(&place, option)?;
    Ok(place)
}

/// Puts something at the end of the profile.
fn add(place: &Lab, option: &str) -> std::io::Result<()> {
    let mut profile = std::fs::OpenOptions::new();
    let mut profile = profile.append(true).open(place.path("short.toml"))?;
    profile.write_all(option.as_bytes())
}

fn sliced(word: &str) -> String {
    format!("[time-slicing]\nslice = \"{word}\"\n")
}

fn figure<'a>(record: &'a RunRecord, variant: &str, name: &str) -> Result<&'a Estimate, String> {
    let mut all = record.probe_figures.iter();
    let found = all.find(|one| one.variant == variant && one.figure == name);
    let missing = || format!("{variant}: no {name}: {:?}", record.probe_figures);
    found.map(|one| &one.estimate).ok_or_else(missing)
}

#[test]
fn each_length_of_a_turn_is_that_of_the_machine() -> TestResult {
    for (word, us) in SLICES {
        let place = place(&[], &sliced(word))?;
        let mut run = place.reconfigure("time-slicing", "out");
        done(&run.arg("--probes").output()?)?;
        let record = place.record("out")?;
        let (kind, reason, scored) = outcome(&record, "time-slicing")?;
        assert_eq!((kind, scored), (OutcomeKind::Measured, true), "{reason}");
        let variant = format!("time-slicing[slice={word}]");
        assert_eq!(row(&record, "time-slicing")?.variant, variant);
        let found = figure(&record, &variant, "time slice")?;
        let planted = f64::from(us) * 1e3;
        assert!(
            (found.value / planted - 1.0).abs() < 0.01,
            "{word}: {found:?} is not {planted}"
        );
        assert!(
            found.n >= 12 && found.lo <= found.value && found.value <= found.hi,
            "{word}: {found:?}"
        );
        assert_eq!(figure(&record, &variant, "overlap")?.value, 0.0, "{word}");
        assert_eq!(place.journal(), "", "{word}");
    }
    Ok(())
}

/// Stands in front of the command and writes down with what it was called.
const LISTENER: &str = "#!/bin/sh\necho \"$*\" >> \"$HERE/asked\"\nexec \"$STAND_IN\" \"$@\"\n";

/// Runs the main job on a device that was set up by a script before and is looked at after it;
/// what was said, and the lengths of a turn that were set, by number.
fn between(
    place: &Lab,
    before: &str,
    matrix: &str,
    after: &str,
) -> Result<(String, Vec<u32>), Error> {
    let listener = place.path("nvidia-smi");
    std::fs::write(&listener, LISTENER)?;
    std::fs::set_permissions(
        &listener,
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )?;
    std::fs::write(place.path("asked"), "")?;
    let script = format!(
        "{before}\nSTAND_IN=$(command -v nvidia-smi) PATH=\"$HERE:$PATH\" {} matrix {matrix} \
         --profile \"$HERE/short.toml\" --out \"$HERE/out\" > \"$HERE/said\"\n\
         echo \"status $?\"\n{after}",
        program().display()
    );
    let machine = place.device();
    let machine = machine.trim_start_matches("virtual:");
    let mut exec = place.gpubench(&["virtual-gpu", "exec", "--machine", machine, "--"]);
    exec.env(
        "HERE",
        place.path("").display().to_string().trim_end_matches('/'),
    );
    let output = exec.args(["sh", "-c", &script]).output()?;
    done(&output)?;
    let said = text(&output.stdout);
    // On the wall clock a busy host can keep the sampler from its look at a cell, without which
    // nothing is proved (4). What was set and put back is the same either way.
    let ended = ["status 0\n", "status 4\n"];
    assert!(
        ended.iter().any(|status| said.contains(status)),
        "{said}{}",
        text(&output.stderr)
    );
    let asked = std::fs::read_to_string(place.path("asked"))?;
    let set = |line: &str| {
        let (_, after) = line.split_once("--set-timeslice ")?;
        after.split(' ').next()?.parse().ok()
    };
    Ok((said, asked.lines().filter_map(set).collect()))
}

#[test]
fn the_length_that_was_found_is_put_back() -> TestResult {
    let place = place(&[], &sliced("short"))?;
    let (said, set) = between(
        &place,
        "nvidia-smi compute-policy --set-timeslice 2 > /dev/null",
        "--allow-reconfigure --mechanism time-slicing",
        "nvidia-smi compute-policy -l",
    )?;
    let is_medium = |line: &str| line.contains("Timeslice") && line.contains("Medium");
    assert!(said.lines().any(is_medium), "{said}");
    // To short and back to what was found, as often as the host was switched.
    let pairs: Vec<&[u32]> = set.chunks(2).collect();
    assert!(
        !pairs.is_empty() && pairs.iter().all(|pair| *pair == [1, 2]),
        "{set:?}"
    );
    assert_eq!(place.journal(), "");
    Ok(())
}

#[test]
fn a_form_that_nobody_asked_for_has_the_turns_that_are_there_and_takes_no_leave() -> TestResult {
    let place = place(&[], &sliced("short"))?;
    let (_, set) = between(&place, "", "--mechanism hami", "")?;
    assert_eq!(
        set,
        Vec::<u32>::new(),
        "the time slice was set without leave"
    );
    let record = place.record("out")?;
    let mut unprotected = record
        .cells
        .iter()
        .filter(|cell| cell.cell.condition == Condition::U);
    assert!(unprotected.clone().count() > 0);
    assert!(unprotected.all(|cell| cell.cell.variant == "time-slicing[slice=default]"));
    Ok(())
}

/// The run's exit status and what became of time-slicing: reason and remedy.
fn waived(place: &Lab, allow: bool) -> Result<(String, Option<String>), Error> {
    let mut run = if allow {
        place.reconfigure("time-slicing,mps", "out")
    } else {
        place.matrix("out", &["--mechanism", "time-slicing,mps"])
    };
    let output = run.output()?;
    // It was named and is not there; what else was named is measured.
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    let record = place.record("out")?;
    let (kind, reason, scored) = outcome(&record, "time-slicing")?;
    assert_eq!((kind, scored), (OutcomeKind::Waived, false), "{reason}");
    let (kind, _, scored) = outcome(&record, "mps")?;
    assert_eq!((kind, scored), (OutcomeKind::Measured, true));
    assert_eq!(place.journal(), "");
    let remedy = row(&record, "time-slicing")?.remedy.clone();
    Ok((reason, remedy))
}

#[test]
fn a_length_that_may_not_or_cannot_be_set_is_waived_with_what_would_help() -> TestResult {
    let of = |place: &Lab, allow| -> Result<(String, String), Error> {
        let (reason, remedy) = waived(place, allow)?;
        Ok((reason, remedy.ok_or("no remedy")?))
    };
    let (reason, remedy) = of(&place(&[], &sliced("medium"))?, false)?;
    assert!(
        reason.contains("it would change device settings (time slice)"),
        "{reason}"
    );
    assert_eq!(remedy, "--allow-reconfigure");
    let ordinary = [("version = 1", "version = 1\nprivileged = false")];
    let (reason, remedy) = of(&place(&ordinary, &sliced("long"))?, true)?;
    let takes = "changing the time slice takes CAP_SYS_ADMIN, which this user does not have";
    assert!(reason.contains(takes), "{reason}");
    assert_eq!(remedy, "run as root");
    // A device whose turns have one length says so when it is asked.
    let fixed = Lab::on("a100-80")?;
    add(&fixed, &sliced("short"))?;
    let (reason, remedy) = of(&fixed, true)?;
    assert!(reason.contains("Timeslice: Not Supported"), "{reason}");
    assert_eq!(remedy, "[time-slicing] slice = \"default\"");
    // What was said to help does.
    let profile = std::fs::read_to_string(fixed.path("short.toml"))?;
    let helped = profile.replace("slice = \"short\"", "slice = \"default\"");
    std::fs::write(fixed.path("short.toml"), helped)?;
    done(&fixed.reconfigure("time-slicing", "helped").output()?)?;
    let (kind, reason, _) = outcome(&fixed.record("helped")?, "time-slicing")?;
    assert_eq!(kind, OutcomeKind::Measured, "{reason}");
    Ok(())
}

/// The quota's row of an aggressor, as the run into that folder has it.
fn quota(out: &Path) -> Result<(RunRecord, MatrixRow), Error> {
    let record: RunRecord = serde_json::from_slice(&std::fs::read(out.join("record.json"))?)?;
    let mut rows = record.matrix.iter();
    let found = rows
        .find(|row| row.mechanism == "mps-quota" && row.aggressor.as_deref() == Some("fma-hog"));
    let found = found.ok_or("mps-quota has no row")?.clone();
    Ok((record, found))
}

#[test]
fn neighbours_below_normal_are_seen_to_be_and_leave_the_victim_more() -> TestResult {
    const CHECK: &str = "the neighbours alone were started with a priority below normal";
    let mut kept = Vec::new();
    for word in ["normal", "below-normal"] {
        let place = Lab::on("hopper")?;
        // Nobody's share of the SMs keeps them apart: what remains is who goes first.
        add(
            &place,
            &format!("[mps-quota]\npct = 100\nneighbours = \"{word}\"\n"),
        )?;
        done(&place.reconfigure("mps-quota", word).output()?)?;
        let (record, found) = quota(&place.path(word))?;
        assert!(found.outcome.is_measured(), "{word}: {found:?}");
        let mechanism = row(&record, "mps-quota")?;
        let below = word == "below-normal";
        let named = mechanism.variant.contains("neighbours=below-normal");
        assert_eq!(named, below, "{}", mechanism.variant);
        let proofs: Vec<_> = mechanism
            .proof
            .iter()
            .filter(|p| p.check == CHECK)
            .collect();
        assert_eq!(!proofs.is_empty(), below, "{word}: {:?}", mechanism.proof);
        for proof in proofs {
            let wanted = "CUDA_MPS_CLIENT_PRIORITY: victim not set, neighbour-1 1";
            assert_eq!((proof.holds, proof.evidence.as_str()), (true, wanted));
        }
        kept.push(found.retention.ok_or("no retention")?);
    }
    let [normal, below] = &kept[..] else {
        return Err("two runs have two rows".into());
    };
    assert!(below.lo > normal.hi, "{below:?} is no more than {normal:?}");
    Ok(())
}
