//! Mechanisms that cannot run are waived with a reason and a remedy: on machines without them, for
//! users without rights, with libraries that enforce no limit, and because of the state of the
//! host.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gpubench_record::OutcomeKind;
use serde_json::Value;

use super::support::fault::{done, mechanism_row, outcome};
use crate::support::{
    Error, Lab, SHORT, TestResult, driver_client, finish, machine_text, program, text,
};

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
        let Some((_, why, fix)) = row else { panic!("{name} is not waived: {found:?}") };
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
            ("time-slicing-capped", "need driver 615 and CUDA 13.4", "newer driver"),
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
            ("time-slicing-capped", "takes CAP_SYS_ADMIN", "run as root"),
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

// Mechanisms that are waived because of the state of the host: device modes, processes, a full MPS
// server.

/// The output of a shell script on a virtual GPU; `plan` in it is `gpubench plan`.
fn shell(lab: &Lab, machine: &str, script: &str) -> Result<String, Error> {
    let program = program().display();
    let mut command = lab.gpubench(["virtual-gpu", "exec", "--machine", machine]);
    let plan = format!(
        "plan() {{ {program} plan --profile {} --format json \"$@\"; }}\n",
        lab.path("short.toml").display()
    );
    let output = command.args(["--", "sh", "-c", &(plan + script)]).output()?;
    done(&output)?;
    Ok(text(&output.stdout))
}

#[test]
fn the_remedy_for_a_compute_mode_works() -> TestResult {
    let lab = Lab::on("hopper")?;
    let script = r#"
        nvidia-smi -c EXCLUSIVE_PROCESS > /dev/null
        plan > "$OUT/exclusive.json"
        nvidia-smi -c PROHIBITED > /dev/null
        plan --no-reconfigure > /dev/null 2> "$OUT/prohibited"
        echo "prohibited $?"
        nvidia-smi -c DEFAULT > /dev/null
        plan > "$OUT/default.json"
    "#;
    let script = script.replace("$OUT", &lab.path("").display().to_string());
    let printed = shell(&lab, "hopper", &script)?;
    assert!(printed.contains("prohibited 3"), "{printed}");
    let read = |name: &str| std::fs::read(lab.path(name));
    let keeps = "EXCLUSIVE_PROCESS keeps a second process out";
    let remedy = "nvidia-smi -c DEFAULT";
    let found = read_skips(&read("exclusive.json")?)?;
    check_waived(&found, &[("time-slicing", keeps, remedy), ("hami", keeps, remedy)]);
    for available in ["mps", "exclusive-process", "green-context"] {
        assert!(found.iter().all(|(name, _, _)| name != available), "{available}: {found:?}");
    }
    let prohibited = text(&read("prohibited")?);
    assert!(prohibited.contains("PROHIBITED keeps every process out"), "{prohibited}");
    let found = read_skips(&read("default.json")?)?;
    assert!(found.iter().all(|(name, _, _)| name != "time-slicing"), "{found:?}");
    Ok(())
}

#[test]
fn a_pending_mig_mode_names_the_reset_that_it_needs() -> TestResult {
    let lab = Lab::on("a100-80")?;
    let script = r#"
        plan --allow-reconfigure --mechanism mig,exclusive --rehearse > "$OUT/refused.json"
        plan --allow-reconfigure > "$OUT/before.json"
        nvidia-smi -mig 1 > /dev/null
        plan --allow-reconfigure > "$OUT/pending.json"
        nvidia-smi --gpu-reset > /dev/null
        plan --allow-reconfigure > "$OUT/on.json"
    "#;
    let script = script.replace("$OUT", &lab.path("").display().to_string());
    shell(&lab, "a100-80", &script)?;
    let refused: Value = serde_json::from_slice(&std::fs::read(lab.path("refused.json"))?)?;
    let mig = refused["rows"].as_array().and_then(|rows| {
        let mut rows = rows.iter();
        rows.find(|row| row["variant"].as_str().is_some_and(|v| v.starts_with("mig")))
    });
    let mig = mig.ok_or("mig was not rehearsed")?;
    assert_eq!(mig["outcome"], "waived", "{mig}");
    assert!(mig["remedy"].to_string().contains("--gpu-reset"), "{mig}");
    let skips = |name: &str| read_skips(&std::fs::read(lab.path(name))?);
    let lacks_mig = |found: &Waived| found.iter().any(|(name, _, _)| name == "mig");
    assert!(!lacks_mig(&skips("before.json")?), "a refused change is not undone");
    let pending = "on is pending: the GPU must be reset";
    check_waived(&skips("pending.json")?, &[("mig", pending, "nvidia-smi --gpu-reset")]);
    let found = skips("on.json")?;
    assert!(!lacks_mig(&found), "{found:?}");
    let mig_on = "MIG mode is on";
    check_waived(
        &found,
        &[("mps", mig_on, "nvidia-smi -mig 0"), ("hami", mig_on, "nvidia-smi -mig 0")],
    );
    Ok(())
}

#[test]
fn a_process_on_the_device_waives_mechanisms_that_need_an_idle_device() -> TestResult {
    let lab = Lab::on("hopper")?;
    let client = driver_client()?.display().to_string();
    let mut command = lab.gpubench(["virtual-gpu", "exec", "--machine", "hopper", "--"]);
    let script = format!(
        "{client} hold < \"$0/held\" > \"$0/client\" & \
         for i in $(seq 500); do grep -q holding \"$0/client\" && break; sleep 0.02; done; \
         {} plan --profile \"$0/short.toml\" --allow-reconfigure --format json; \
         read go",
        program().display()
    );
    let made = Command::new("mkfifo").arg(lab.path("held")).status()?;
    assert!(made.success());
    lab.write("client", "")?;
    let mut run =
        command.args(["sh", "-c", &script]).arg(lab.path("")).stdin(Stdio::piped()).spawn()?;
    let held = std::fs::OpenOptions::new().write(true).open(lab.path("held"))?;
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
    let remedy = "end them, or choose another --device";
    check_waived(
        &read_skips(json.as_bytes())?,
        &[
            ("exclusive-process", "no single process can have it", remedy),
            ("mig", "MIG mode cannot be switched", remedy),
            ("mig-mps", "MIG mode cannot be switched", remedy),
        ],
    );
    Ok(())
}

/// Every mechanism with an MPS server.
const SERVED: [&str; 5] = ["mps", "mps-quota", "mps-static", "mps-memory", "mig-mps"];

#[test]
fn a_full_mps_server_waives_its_mechanisms_and_fails_no_cell() -> TestResult {
    let lab = Lab::changed("hopper", &[("clients = 60", "clients = 1")], "")?;
    let names = SERVED.join(",") + ",time-slicing";
    // The mechanisms with a server are waived (3); the other one is measured.
    let stderr = finish(lab.reconfigure(&names, "out"))?.ended_with(3)?.stderr;
    let waived = "requested by --mechanism and waived: mps: ";
    assert!(stderr.contains(waived), "{stderr}");
    let record = lab.record("out")?;
    for name in SERVED {
        let (kind, reason, scored) = outcome(&record, name)?;
        assert_eq!((kind, scored), (OutcomeKind::Waived, false), "{name}: {reason}");
        assert!(reason.contains("takes no more clients (808"), "{name}: {reason}");
        let remedy = mechanism_row(&record, name)?.remedy.as_deref();
        assert_eq!(remedy, Some("fewer tenants"), "{name}");
    }
    let (kind, _, scored) = outcome(&record, "time-slicing")?;
    assert_eq!((kind, scored), (OutcomeKind::Measured, true));
    let failed = |cell: &gpubench_record::CellResult| cell.outcome.outcome == OutcomeKind::Failed;
    assert!(!record.cells.iter().any(failed), "a cell failed");
    Ok(())
}

// `doctor` and the record name the circumstances of a device: hypervisor, confidential computing,
// agents, other processes on the device, and clocks that are set. No mechanism is waived for them.

/// Runs `doctor` while a client holds a context and an agent runs.
const SCRIPT: &str = r#"
    sleep 120 > "$HERE/held" & keeper=$!
    "$CLIENT" hold < "$HERE/held" > "$HERE/output" &
    "$HERE/nv-hostengine" 120 & agent=$!
    for i in $(seq 500); do grep -q holding "$HERE/output" && break; sleep 0.02; done
    "$GPUBENCH" doctor --format json > "$HERE/doctor.json"
    kill $agent $keeper
    wait
"#;

/// The report of `doctor` while the script runs.
fn doctor(lab: &Lab) -> Result<Value, Error> {
    let held = lab.path("held");
    assert!(Command::new("mkfifo").arg(held).status()?.success());
    // An agent is recognised by its process name, which is the name of its file.
    std::fs::copy("/bin/sleep", lab.path("nv-hostengine"))?;
    lab.write("output", "")?;
    let mut command = lab.gpubench(["virtual-gpu", "exec", "--machine", lab.machine()]);
    command
        .args(["--", "sh", "-c", SCRIPT])
        .env("HERE", lab.path(""))
        .env("CLIENT", driver_client()?)
        .env("GPUBENCH", program());
    finish(command)?.ended_with(0)?;
    Ok(serde_json::from_slice(&std::fs::read(lab.path("doctor.json"))?)?)
}

/// The report of `doctor` in virtual time, where its rates do not depend on the load of the host.
fn virtual_report(lab: &Lab) -> Result<Value, Error> {
    let device = lab.device();
    let args = ["doctor", "--device", &device, "--format", "json"];
    let output = finish(lab.gpubench(args))?.ended_with(0)?;
    Ok(serde_json::from_str(&output.stdout)?)
}

#[test]
fn circumstances_are_named_and_waive_no_mechanism() -> TestResult {
    let end = "\n[circumstances]\nvirtualization = \"vgpu\"\nconfidential_computing = true\n\
               application_sm_clock_mhz = 1005\n";
    let lab = Lab::changed("turing", &[], end)?;
    let report = doctor(&lab)?;
    let labels = report["labels"].as_array().ok_or("no labels")?;
    let labels: Vec<&str> = labels.iter().filter_map(Value::as_str).collect();
    for prefix in [
        "virtualization: vGPU: ",
        "confidential computing: on: ",
        "processes: on the device already: [",
        "agent: nv-hostengine (process ",
    ] {
        assert!(labels.iter().any(|l| l.starts_with(prefix)), "{prefix}: {labels:?}");
    }
    let mechanisms = report["mechanisms"].as_array().ok_or("no mechanisms")?;
    let mut slicing = mechanisms.iter();
    let slicing = slicing.find(|one| one["variant"]["mechanism"] == "time-slicing");
    assert_eq!(slicing.ok_or("none")?["availability"]["availability"], "available");
    // The virtual GPU runs at the clock that is set.
    let clocks = &report["clocks"];
    assert_eq!(clocks["verdict"], "set", "{clocks}");
    assert_eq!(clocks["sm_mhz"], serde_json::json!({"least": 1005.0, "most": 1005.0}));
    assert_eq!(clocks["reasons"], serde_json::json!(["application clocks setting"]));
    // As text in virtual time, which does not wait.
    let mut text = lab.gpubench(["doctor", "--device", &lab.device()]);
    text.env("COLUMNS", "400");
    let text = finish(text)?.ended_with(0)?.stdout;
    for label in ["host: virtualization: vGPU: ", "host: confidential computing: on: "] {
        assert!(text.contains(label), "{label}: {text}");
    }
    let set = "SM clock under full load: 1005 MHz of at most 1590, limited by application clocks \
               setting; set: application clock 1005 MHz, default 1590 MHz (NVML does not report \
               clock locks)";
    assert!(text.contains(set), "{text}");
    Ok(())
}

#[test]
fn the_share_of_the_peak_falls_with_a_set_clock() -> TestResult {
    let end = "\n[circumstances]\napplication_sm_clock_mhz = 1005\n";
    let report = virtual_report(&Lab::changed("turing", &[], end)?)?;
    let mut achieved = report["achieved"].as_array().ok_or("no rates")?.iter();
    let fma = achieved.find(|one| one["name"] == "FMA").ok_or("no FMA")?;
    let share = fma["share_of_peak"].as_f64().ok_or("no share")?;
    assert!((share / (1005.0 / 1590.0) - 1.0).abs() < 0.1, "{share}");
    Ok(())
}

#[test]
fn the_record_names_the_circumstances() -> TestResult {
    let end = "\n[circumstances]\nvirtualization = \"passthrough\"\n";
    let lab = Lab::changed("turing", &[], end)?;
    finish(lab.reconfigure("time-slicing", "out"))?.ended_with(0)?;
    let record = lab.record("out")?;
    let observed = record.provenance.host.get("observed").cloned().unwrap_or_default();
    assert!(observed.contains("virtualization: passthrough: "), "{observed:?}");
    Ok(())
}

/// Every step that takes all memory of a device is refused where that is the memory of the host.
#[test]
fn an_integrated_device_keeps_the_memory_of_its_host() -> TestResult {
    let integrated = [("sm_count = 132", "integrated = true\nsm_count = 132")];
    let lab = Lab::changed("hopper", &integrated, "")?;
    let more = ["--mechanism=time-slicing", "--axis=memory", "--no-faults"];
    finish(lab.matrix("out", &more))?;
    let record = lab.record("out")?;
    let rows: Vec<_> = record.matrix.iter().filter(|row| row.axis == "memory").collect();
    assert!(rows.iter().any(|row| row.sub_axis.as_deref() == Some("capacity")), "{rows:?}");
    for row in rows {
        let said = row.outcome.reason.as_deref().unwrap_or_default();
        assert!(!row.outcome.is_measured(), "{row:?}");
        assert!(said.contains("CU_DEVICE_ATTRIBUTE_INTEGRATED"), "{row:?}");
    }
    Ok(())
}
