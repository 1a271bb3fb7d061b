//! `doctor` and the record name the circumstances of a device: hypervisor, confidential computing,
//! agents, other processes on the device, and clocks that are set. No mechanism is waived for them.

use std::process::Command;

use crate::support::{Error, Lab, TestResult, driver_client, finish, program};
use serde_json::Value;

/// Runs `doctor` in both formats while a client holds a context and an agent runs.
const SCRIPT: &str = r#"
    sleep 120 > "$HERE/held" & keeper=$!
    "$CLIENT" hold < "$HERE/held" > "$HERE/output" &
    "$HERE/nv-hostengine" 120 & agent=$!
    for i in $(seq 500); do grep -q holding "$HERE/output" && break; sleep 0.02; done
    "$GPUBENCH" doctor --format json > "$HERE/doctor.json"
    "$GPUBENCH" doctor > "$HERE/doctor.txt"
    kill $agent $keeper
    wait
"#;

/// The reports of `doctor` while the script runs, in JSON and as text.
fn doctor(lab: &Lab) -> Result<(Value, String), Error> {
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
    let json = std::fs::read(lab.path("doctor.json"))?;
    let text = std::fs::read_to_string(lab.path("doctor.txt"))?;
    Ok((serde_json::from_slice(&json)?, text))
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
    let (report, text) = doctor(&Lab::changed("turing", &[], end)?)?;
    let labels = report["labels"].as_array().ok_or("no labels")?;
    let labels: Vec<&str> = labels.iter().filter_map(Value::as_str).collect();
    for prefix in [
        "virtualization: vGPU: ",
        "confidential computing: on: ",
        "processes: on the device already: [",
        "agent: nv-hostengine (process ",
    ] {
        assert!(labels.iter().any(|l| l.starts_with(prefix)), "{prefix}: {labels:?}");
        assert!(text.contains(&format!("host: {prefix}")), "{prefix}: {text}");
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
fn a_plain_machine_has_no_labels() -> TestResult {
    let report = virtual_report(&Lab::on("turing")?)?;
    // Agents of the test host are named too.
    let labels = report["labels"].as_array().ok_or("no labels")?;
    let of_device = |label: &&Value| !label.as_str().is_some_and(|l| l.starts_with("agent: "));
    assert_eq!(labels.iter().filter(of_device).collect::<Vec<_>>(), Vec::<&Value>::new());
    let clocks = &report["clocks"];
    assert_eq!(clocks["greatest_sm_mhz"], 1590, "{clocks}");
    assert_eq!(clocks["application_sm_mhz"], 1590, "{clocks}");
    let samples = clocks["samples"].as_u64().unwrap_or(0);
    assert!(samples >= 10, "{clocks}");
    assert_ne!(clocks["verdict"], "set", "{clocks}");
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
