//! A mechanism that cannot run is waived with a reason and a remedy: on machines without it, for
//! users without rights, with libraries that limit nothing, and for the state of the host.

mod host_state;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::mechanism::done;
use crate::support::{Error, Lab, TestResult, text};
use serde_json::Value;

/// Reason and remedy of every mechanism that `plan` waives, by its name.
type Waived = Vec<(String, String, String)>;

fn waived(command: &mut Command) -> Result<Waived, Error> {
    let output = command.args(["--format", "json"]).output()?;
    done(&output)?;
    read_skips(&output.stdout)
}

fn read_skips(json: &[u8]) -> Result<Waived, Error> {
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

fn plan(place: &Lab, more: &[&str]) -> Command {
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
    let found = waived(&mut plan(&Lab::on("turing")?, &[]))?;
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
    let text = include_str!("../../../profiles/machines/turing.toml");
    let mps = text.find("\n[mps]").map(|at| &text[at..]).ok_or("no MPS")?;
    let old = [("cuda = \"13.0\"", "cuda = \"12.0\""), (mps, "\n")];
    let found = waived(&mut plan(&Lab::changed("turing", &old, "")?, &[]))?;
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
    let found = waived(&mut plan(&Lab::changed("turing", &pascal, "")?, &[]))?;
    holds(&found, &[("mps", "compute capability 6.1", "")]);
    Ok(())
}

#[test]
fn a_user_without_rights_is_told_so() -> TestResult {
    let ordinary = [("version = 1", "version = 1\nprivileged = false")];
    let place = Lab::changed("hopper", &ordinary, "")?;
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
            ("mig", "MIG cannot be queried", "run as root"),
            ("mig-mps", "MIG cannot be queried", "run as root"),
        ],
    );
    Ok(())
}

#[test]
fn a_library_that_limits_nothing_is_not_preloaded() -> TestResult {
    let place = Lab::on("hopper")?;
    let said = |path: &Path| -> Result<Waived, Error> {
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
    let place = Lab::on("hopper")?;
    let source = place.path("serve.c");
    std::fs::write(&source, "int main(void) { return 0; }\n")?;
    let said = |form: &str| -> Result<Waived, Error> {
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
        let reason = format!("{form} is a static binary, into which no library can be preloaded");
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
