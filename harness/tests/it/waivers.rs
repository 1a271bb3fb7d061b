//! Mechanisms that cannot run are waived with a reason and a remedy: on machines without them, for
//! users without rights, with libraries that enforce no limit, and because of the state of the
//! host.

mod host_state;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::mechanism::done;
use crate::support::{Error, Lab, SHORT, TestResult, machine_text, text};
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
    let value = |skip: &Value, key: &str| skip[key].as_str().unwrap_or_default().to_owned();
    let entry = |skip: &Value| {
        let variant = value(skip, "mechanism");
        let name = variant.split('[').next().unwrap_or_default().to_owned();
        (name, value(skip, "reason"), value(skip, "remedy"))
    };
    Ok(skips.iter().map(entry).collect())
}

/// Checks that every mechanism of the list is waived with a reason and a remedy that contain these
/// texts. An empty text means that there is no remedy.
fn check_waived(found: &Waived, wanted: &[(&str, &str, &str)]) {
    for (name, reason, remedy) in wanted {
        let row = found.iter().find(|(known, _, _)| known == name);
        let Some((_, why, fix)) = row else {
            panic!("{name} is not waived: {found:?}");
        };
        assert!(why.contains(reason), "{name}: {why:?}, not {reason:?}");
        assert!(fix.contains(remedy), "{name}: {fix:?}, not {remedy:?}");
        assert!(!remedy.is_empty() || fix.is_empty(), "{name}: {fix:?}");
    }
}

fn plan(lab: &Lab, more: &[&str]) -> Command {
    let device = lab.device();
    let mut command = lab.gpubench(["plan", "--device", &device]);
    command.arg("--profile").arg(lab.path("short.toml")).args(more);
    command
}

#[test]
fn missing_features_of_a_machine_are_named() -> TestResult {
    let found = waived(&mut plan(&Lab::on("turing")?, &["--no-reconfigure"]))?;
    check_waived(
        &found,
        &[
            ("mig", "the device has no MIG", ""),
            ("mig-mps", "the device has no MIG", ""),
            ("mps-static", "need driver 590", "newer driver"),
            ("mps-memory", "need driver 615 and CUDA 13.4", "newer driver"),
            ("hami", "libvgpu.so was not found", "--hami-lib PATH"),
            ("exclusive-process", "device settings (compute mode)", "--allow-reconfigure"),
        ],
    );
    let text = machine_text("turing")?;
    let mps = text.find("\n[mps]").map(|at| &text[at..]).ok_or("no MPS")?;
    let old = [("cuda = \"13.0\"", "cuda = \"12.0\""), (mps, "\n")];
    let found = waived(&mut plan(&Lab::changed("turing", &old, "")?, &[]))?;
    check_waived(
        &found,
        &[
            ("mps", "nvidia-cuda-mps-control is not on PATH", "MPS tools"),
            ("mps-quota", "nvidia-cuda-mps-control is not on PATH", "MPS tools"),
            ("green-context", "CUDA 12.0, green contexts need 12.4", "550"),
        ],
    );
    let pascal = [("compute_capability = \"7.5\"", "compute_capability = \"6.1\"")];
    let found = waived(&mut plan(&Lab::changed("turing", &pascal, "")?, &[]))?;
    check_waived(&found, &[("mps", "compute capability 6.1", "")]);
    Ok(())
}

#[test]
fn missing_rights_are_named() -> TestResult {
    let ordinary = [("version = 1", "version = 1\nprivileged = false")];
    let lab = Lab::changed("hopper", &ordinary, "")?;
    lab.write("short.toml", &format!("{SHORT}[time-slicing]\nslice = \"short\"\n"))?;
    let found = waived(&mut plan(&lab, &["--no-reconfigure"]))?;
    let flag = "--allow-reconfigure";
    check_waived(
        &found,
        &[
            ("time-slicing", "device settings (time slice)", flag),
            ("exclusive-process", "device settings (compute mode)", flag),
        ],
    );
    // A virtual GPU lets settings change without the flag.
    let found = waived(&mut plan(&lab, &[]))?;
    check_waived(
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
fn a_library_that_enforces_no_limit_is_not_preloaded() -> TestResult {
    let lab = Lab::on("hopper")?;
    let plan_with = |path: &Path| -> Result<Waived, Error> {
        let path = path.display().to_string();
        waived(&mut plan(&lab, &["--hami-lib", &path]))
    };
    let remedy = "--hami-lib PATH of HAMi-core's libvgpu.so";
    let script = lab.path("libvgpu.so");
    std::fs::write(&script, "#!/bin/sh\n")?;
    check_waived(&plan_with(&script)?, &[("hami", "it is no ELF file", remedy)]);
    let libc = mapped("/libc.so").ok_or("a program without libc")?;
    let lacks = "it does not hook cuMemAlloc_v2, cuLaunchKernel";
    check_waived(&plan_with(&libc)?, &[("hami", lacks, remedy)]);
    let missing = lab.path("none.so");
    check_waived(&plan_with(&missing)?, &[("hami", "none.so cannot be read", remedy)]);
    std::fs::create_dir(lab.path("my libs"))?;
    let spaced = lab.path("my libs/libvgpu.so");
    std::fs::copy(&libc, &spaced)?;
    check_waived(&plan_with(&spaced)?, &[("hami", "a space or a colon", remedy)]);
    Ok(())
}

#[test]
fn a_static_program_waives_hami() -> TestResult {
    let lab = Lab::on("hopper")?;
    let source = lab.path("serve.c");
    std::fs::write(&source, "int main(void) { return 0; }\n")?;
    let plan_with = |form: &str| -> Result<Waived, Error> {
        let built = lab.path(form).display().to_string();
        let compiled = Command::new("cc").args([form, "-o", &built]).arg(&source).output()?;
        assert!(compiled.status.success(), "{}", text(&compiled.stderr));
        waived(&mut plan(&lab, &["--victim-cmd", &built]))
    };
    let remedy = "a build for a dynamic target";
    for form in ["-static", "-static-pie"] {
        let reason = format!("{form} is a static binary, into which no library can be preloaded");
        check_waived(&plan_with(form)?, &[("hami", &reason, remedy)]);
    }
    let found = plan_with("-rdynamic")?;
    assert!(found.iter().all(|(name, _, _)| name != "hami"), "{found:?}");
    Ok(())
}

/// A file that is mapped into this process.
fn mapped(name: &str) -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.contains(name))?;
    line.find('/').map(|at| PathBuf::from(&line[at..]))
}
