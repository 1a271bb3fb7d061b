//! What cannot run says why, and what would make it run: on machines that lack it, for users who
//! may not, beside others who are there first, and with libraries that limit nothing.

mod mechanism_support;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gpubench_record::OutcomeKind;
use mechanism_support::{Place, TestResult, done, outcome, row, text};
use serde_json::Value;

/// Reason and remedy of every mechanism that `plan` waives, by its name.
type Waived = Vec<(String, String, String)>;

fn waived(command: &mut Command) -> Result<Waived, Box<dyn std::error::Error>> {
    let output = command.args(["--format", "json"]).output()?;
    done(&output)?;
    read_skips(&output.stdout)
}

fn read_skips(json: &[u8]) -> Result<Waived, Box<dyn std::error::Error>> {
    let document: Value = serde_json::from_slice(json)?;
    let skips = document["plan"]["skips"].as_array().ok_or("no skips")?;
    let word = |skip: &Value, key: &str| skip[key].as_str().unwrap_or_default().to_owned();
    let one = |skip: &Value| {
        let name = word(skip, "mechanism");
        let name = name.split('[').next().unwrap_or_default().to_owned();
        (name, word(skip, "reason"), word(skip, "remedy"))
    };
    Ok(skips.iter().map(one).collect())
}

/// Every mechanism of the list is waived with a reason and a remedy that say this.
fn holds(found: &Waived, wanted: &[(&str, &str, &str)]) {
    for (name, reason, remedy) in wanted {
        let row = found.iter().find(|(known, _, _)| known == name);
        let Some((_, why, way)) = row else {
            panic!("{name} is not waived: {found:?}");
        };
        assert!(why.contains(reason), "{name}: {why:?}, not {reason:?}");
        assert!(way.contains(remedy), "{name}: {way:?}, not {remedy:?}");
        assert!(!remedy.is_empty() || way.is_empty(), "{name}: {way:?}");
    }
}

fn plan(place: &Place, more: &[&str]) -> Command {
    let device = place.device();
    let mut command = place.gpubench(&["plan", "--device", &device]);
    command
        .arg("--profile")
        .arg(place.path("short.toml"))
        .args(more);
    command
}

#[test]
fn what_a_machine_lacks_is_named() -> TestResult {
    let found = waived(&mut plan(&Place::new("turing")?, &[]))?;
    holds(
        &found,
        &[
            ("mig", "the device has no MIG", ""),
            ("mig-mps", "the device has no MIG", ""),
            ("mps-static", "need driver 590", "newer driver"),
            (
                "mps-memory",
                "need driver 615 and CUDA 13.4",
                "newer driver",
            ),
            ("hami", "libvgpu.so was not found", "--hami-lib PATH"),
            (
                "exclusive-process",
                "device settings (compute mode)",
                "--allow-reconfigure",
            ),
        ],
    );
    let text = include_str!("../../profiles/machines/turing.toml");
    let mps = text.find("\n[mps]").map(|at| &text[at..]).ok_or("no MPS")?;
    let old = [("cuda = \"13.0\"", "cuda = \"12.0\""), (mps, "\n")];
    let found = waived(&mut plan(&Place::bent("turing", &old, "")?, &[]))?;
    holds(
        &found,
        &[
            ("mps", "nvidia-cuda-mps-control is not on PATH", "MPS tools"),
            (
                "mps-quota",
                "nvidia-cuda-mps-control is not on PATH",
                "MPS tools",
            ),
            (
                "green-context",
                "CUDA 12.0, green contexts need 12.4",
                "550",
            ),
        ],
    );
    let pascal = [(
        "compute_capability = \"7.5\"",
        "compute_capability = \"6.1\"",
    )];
    let found = waived(&mut plan(&Place::bent("turing", &pascal, "")?, &[]))?;
    holds(&found, &[("mps", "compute capability 6.1", "")]);
    Ok(())
}

#[test]
fn a_user_without_rights_is_told_so() -> TestResult {
    let ordinary = [("version = 1", "version = 1\nprivileged = false")];
    let place = Place::bent("hopper", &ordinary, "")?;
    let mut profile = std::fs::OpenOptions::new()
        .append(true)
        .open(place.path("short.toml"))?;
    writeln!(profile, "[time-slicing]\nslice = \"short\"")?;
    let found = waived(&mut plan(&place, &[]))?;
    let leave = "--allow-reconfigure";
    holds(
        &found,
        &[
            ("time-slicing", "device settings (time slice)", leave),
            ("exclusive-process", "device settings (compute mode)", leave),
        ],
    );
    let found = waived(&mut plan(&place, &[leave]))?;
    holds(
        &found,
        &[
            ("time-slicing", "takes CAP_SYS_ADMIN", "run as root"),
            ("exclusive-process", "takes CAP_SYS_ADMIN", "run as root"),
            ("mps-memory", "takes CAP_SYS_ADMIN", "run as root"),
            ("mig", "MIG cannot be looked at", "run as root"),
            ("mig-mps", "MIG cannot be looked at", "run as root"),
        ],
    );
    Ok(())
}

#[test]
fn a_library_that_limits_nothing_is_not_preloaded() -> TestResult {
    let place = Place::new("hopper")?;
    let said = |path: &Path| -> Result<Waived, Box<dyn std::error::Error>> {
        let path = path.display().to_string();
        waived(&mut plan(&place, &["--hami-lib", &path]))
    };
    let remedy = "--hami-lib PATH of HAMi-core's libvgpu.so";
    let script = place.path("libvgpu.so");
    std::fs::write(&script, "#!/bin/sh\n")?;
    holds(&said(&script)?, &[("hami", "it is no ELF file", remedy)]);
    let libc = mapped("/libc.so").ok_or("a program without libc")?;
    let lacks = "it does not hook cuMemAlloc_v2, cuLaunchKernel";
    holds(&said(&libc)?, &[("hami", lacks, remedy)]);
    let nowhere = place.path("none.so");
    holds(
        &said(&nowhere)?,
        &[("hami", "none.so cannot be read", remedy)],
    );
    std::fs::create_dir(place.path("my libs"))?;
    let apart = place.path("my libs/libvgpu.so");
    std::fs::copy(&libc, &apart)?;
    holds(&said(&apart)?, &[("hami", "a space or a colon", remedy)]);
    Ok(())
}

#[test]
fn a_static_program_is_not_taken_for_one_that_can_be_capped() -> TestResult {
    let place = Place::new("hopper")?;
    let source = place.path("serve.c");
    std::fs::write(&source, "int main(void) { return 0; }\n")?;
    let said = |form: &str| -> Result<Waived, Box<dyn std::error::Error>> {
        let built = place.path(form).display().to_string();
        let compiled = Command::new("cc")
            .args([form, "-o", &built])
            .arg(&source)
            .output()?;
        assert!(compiled.status.success(), "{}", text(&compiled.stderr));
        waived(&mut plan(&place, &["--victim-cmd", &built]))
    };
    let remedy = "a build for a dynamic target";
    for form in ["-static", "-static-pie"] {
        let reason = format!("{form} is a static binary, into which nothing can be preloaded");
        holds(&said(form)?, &[("hami", &reason, remedy)]);
    }
    let found = said("-rdynamic")?;
    assert!(found.iter().all(|(name, _, _)| name != "hami"), "{found:?}");
    Ok(())
}

/// A file that is mapped into this very program.
fn mapped(name: &str) -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.contains(name))?;
    line.find('/').map(|at| PathBuf::from(&line[at..]))
}

/// What a shell script prints on a virtual GPU; `gpubench` and `client` stand in it for the
/// programs.
fn shell(place: &Place, machine: &str, script: &str) -> Result<String, Box<dyn std::error::Error>> {
    let program = env!("CARGO_BIN_EXE_gpubench");
    let mut command = place.gpubench(&["virtual-gpu", "exec", "--machine", machine]);
    let plan = format!(
        "plan() {{ {program} plan --profile {} --format json \"$@\"; }}\n",
        place.path("short.toml").display()
    );
    let output = command
        .args(["--", "sh", "-c", &(plan + script)])
        .output()?;
    done(&output)?;
    Ok(text(&output.stdout))
}

#[test]
fn the_remedy_for_a_compute_mode_is_one() -> TestResult {
    let place = Place::new("hopper")?;
    let script = r#"
        nvidia-smi -c EXCLUSIVE_PROCESS > /dev/null
        plan > "$OUT/exclusive.json"
        nvidia-smi -c PROHIBITED > /dev/null
        plan > /dev/null 2> "$OUT/prohibited"
        echo "prohibited $?"
        nvidia-smi -c DEFAULT > /dev/null
        plan > "$OUT/default.json"
    "#;
    let script = script.replace("$OUT", &place.path("").display().to_string());
    let said = shell(&place, "hopper", &script)?;
    assert!(said.contains("prohibited 3"), "{said}");
    let read = |name: &str| std::fs::read(place.path(name));
    let keeps = "EXCLUSIVE_PROCESS keeps a second process out";
    let remedy = "nvidia-smi -c DEFAULT";
    let found = read_skips(&read("exclusive.json")?)?;
    holds(
        &found,
        &[("time-slicing", keeps, remedy), ("hami", keeps, remedy)],
    );
    for able in ["mps", "exclusive-process", "green-context"] {
        assert!(
            found.iter().all(|(name, _, _)| name != able),
            "{able}: {found:?}"
        );
    }
    let prohibited = text(&read("prohibited")?);
    assert!(
        prohibited.contains("PROHIBITED keeps every process out"),
        "{prohibited}"
    );
    let found = read_skips(&read("default.json")?)?;
    assert!(
        found.iter().all(|(name, _, _)| name != "time-slicing"),
        "{found:?}"
    );
    Ok(())
}

#[test]
fn a_pending_mode_is_told_and_comes_with_the_reset_that_it_waits_for() -> TestResult {
    let place = Place::new("a100-80")?;
    let script = r#"
        plan --allow-reconfigure --mechanism mig,exclusive --rehearse > "$OUT/refused.json"
        plan --allow-reconfigure > "$OUT/before.json"
        nvidia-smi -mig 1 > /dev/null
        plan --allow-reconfigure > "$OUT/pending.json"
        nvidia-smi --gpu-reset > /dev/null
        plan --allow-reconfigure > "$OUT/on.json"
    "#;
    let script = script.replace("$OUT", &place.path("").display().to_string());
    shell(&place, "a100-80", &script)?;
    let refused: Value = serde_json::from_slice(&std::fs::read(place.path("refused.json"))?)?;
    let mig = refused.as_array().and_then(|rows| {
        let mut rows = rows.iter();
        rows.find(|row| {
            row["variant"]
                .as_str()
                .is_some_and(|v| v.starts_with("mig"))
        })
    });
    let mig = mig.ok_or("mig was not rehearsed")?;
    assert_eq!(mig["outcome"], "waived", "{mig}");
    assert!(mig["remedy"].to_string().contains("--gpu-reset"), "{mig}");
    let of = |name: &str| read_skips(&std::fs::read(place.path(name))?);
    let lacks_mig = |found: &Waived| found.iter().any(|(name, _, _)| name == "mig");
    assert!(
        !lacks_mig(&of("before.json")?),
        "what was refused is taken back"
    );
    let pending = "on is pending: the GPU must be reset";
    holds(
        &of("pending.json")?,
        &[("mig", pending, "nvidia-smi --gpu-reset")],
    );
    let found = of("on.json")?;
    assert!(!lacks_mig(&found), "{found:?}");
    let cut = "MIG mode is on";
    holds(
        &found,
        &[
            ("mps", cut, "nvidia-smi -mig 0"),
            ("hami", cut, "nvidia-smi -mig 0"),
        ],
    );
    Ok(())
}

#[test]
fn whoever_is_there_first_is_in_the_way() -> TestResult {
    let place = Place::new("hopper")?;
    let client = std::env::current_exe()?;
    let client = client.parent().and_then(Path::parent).ok_or("no target")?;
    let client = client.join("examples/driver_client");
    assert!(
        client.is_file(),
        "the examples of this package are not built"
    );
    let client = client.display().to_string();
    let mut command = place.gpubench(&["virtual-gpu", "exec", "--machine", "hopper", "--"]);
    let script = format!(
        "{client} hold < \"$0/held\" > \"$0/said\" & \
         for i in $(seq 500); do grep -q holding \"$0/said\" && break; sleep 0.02; done; \
         {} plan --profile \"$0/short.toml\" --allow-reconfigure --format json; \
         read go",
        env!("CARGO_BIN_EXE_gpubench")
    );
    let made = Command::new("mkfifo").arg(place.path("held")).status()?;
    assert!(made.success());
    std::fs::write(place.path("said"), "")?;
    let mut run = command
        .args(["sh", "-c", &script])
        .arg(place.path(""))
        .stdin(Stdio::piped())
        .spawn()?;
    let held = std::fs::OpenOptions::new()
        .write(true)
        .open(place.path("held"))?;
    let mut lines = BufReader::new(run.stdout.take().ok_or("no output")?);
    let (mut json, mut line) = (String::new(), String::new());
    while lines.read_line(&mut line)? > 0 {
        json.push_str(&line);
        if line == "}\n" {
            break;
        }
        line.clear();
    }
    drop((held, run.stdin.take()));
    run.wait()?;
    let way = "end them, or choose another --device";
    holds(
        &read_skips(json.as_bytes())?,
        &[
            ("exclusive-process", "one process cannot have it alone", way),
            ("mig", "MIG mode cannot be switched", way),
            ("mig-mps", "MIG mode cannot be switched", way),
        ],
    );
    Ok(())
}

/// Every mechanism whose tenants are clients of a server.
const SERVED: [&str; 5] = ["mps", "mps-quota", "mps-static", "mps-memory", "mig-mps"];

#[test]
fn a_server_that_is_full_waives_and_fails_nothing() -> TestResult {
    let place = Place::bent("hopper", &[("clients = 60", "clients = 1")], "")?;
    let names = SERVED.join(",") + ",time-slicing";
    let output = place.matrix(&names, "out").output()?;
    // They were named, and are not there; what else was named is measured.
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains("requested by --mechanism and waived: mps: "),
        "{said}"
    );
    let record = place.record("out")?;
    for name in SERVED {
        let (kind, reason, scored) = outcome(&record, name)?;
        assert_eq!(
            (kind, scored),
            (OutcomeKind::Waived, false),
            "{name}: {reason}"
        );
        assert!(
            reason.contains("takes no more clients (808"),
            "{name}: {reason}"
        );
        let remedy = row(&record, name)?.remedy.as_deref();
        assert_eq!(remedy, Some("fewer tenants"), "{name}");
    }
    let (kind, _, scored) = outcome(&record, "time-slicing")?;
    assert_eq!((kind, scored), (OutcomeKind::Measured, true));
    let failed = |cell: &gpubench_record::CellResult| cell.outcome.outcome == OutcomeKind::Failed;
    assert!(!record.cells.iter().any(failed), "a cell failed");
    Ok(())
}
