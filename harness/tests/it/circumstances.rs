//! What stands around a device is detected and named, in `doctor` and in the record, and decides
//! nothing: hypervisors, confidential computing, agents, processes that are there already, and
//! clocks that somebody has set.

use std::path::Path;
use std::process::Command;

use crate::support::mechanism::done;
use crate::support::{Error, Lab, TestResult, program};
use serde_json::Value;

/// Runs `doctor` in both forms on a device with somebody on it and an agent beside it.
const SCRIPT: &str = r#"
    sleep 120 > "$HERE/held" & keeper=$!
    "$CLIENT" hold < "$HERE/held" > "$HERE/said" &
    "$HERE/nv-hostengine" 120 & agent=$!
    for i in $(seq 500); do grep -q holding "$HERE/said" && break; sleep 0.02; done
    "$GPUBENCH" doctor --format json > "$HERE/doctor.json"
    "$GPUBENCH" doctor > "$HERE/doctor.txt"
    kill $agent $keeper
    wait
"#;

/// What `doctor` says of a bent machine on which all of this goes on: JSON, and text.
fn doctor(place: &Lab) -> Result<(Value, String), Error> {
    let own = std::env::current_exe()?;
    let target = own.parent().and_then(Path::parent).ok_or("no target")?;
    assert!(
        Command::new("mkfifo")
            .arg(place.path("held"))
            .status()?
            .success()
    );
    // Known by its name alone, which is that of the file.
    std::fs::copy("/bin/sleep", place.path("nv-hostengine"))?;
    std::fs::write(place.path("said"), "")?;
    let machine = place.device();
    let machine = machine.trim_start_matches("virtual:");
    let mut command = place.gpubench(&["virtual-gpu", "exec", "--machine", machine]);
    let output = command
        .args(["--", "sh", "-c", SCRIPT])
        .env("HERE", place.path(""))
        .env("CLIENT", target.join("examples/driver_client"))
        .env("GPUBENCH", program())
        .output()?;
    done(&output)?;
    let json = std::fs::read(place.path("doctor.json"))?;
    let told = std::fs::read_to_string(place.path("doctor.txt"))?;
    Ok((serde_json::from_slice(&json)?, told))
}

#[test]
fn all_of_it_is_named_and_nothing_is_waived_for_it() -> TestResult {
    let around = "\n[circumstances]\nvirtualization = \"vgpu\"\nconfidential_computing = true\n\
                  application_sm_clock_mhz = 1005\n";
    let place = Lab::changed("turing", &[], around)?;
    let (said, told) = doctor(&place)?;
    let labels = said["labels"].as_array().ok_or("no labels")?;
    let labels: Vec<&str> = labels.iter().filter_map(Value::as_str).collect();
    for begins in [
        "virtualization: vGPU: ",
        "confidential computing: on: ",
        "processes: on the device already: [",
        "agent: nv-hostengine (process ",
    ] {
        assert!(
            labels.iter().any(|l| l.starts_with(begins)),
            "{begins}: {labels:?}"
        );
        assert!(
            told.contains(&format!("host: {begins}")),
            "{begins}: {told}"
        );
    }
    let mechanisms = said["mechanisms"].as_array().ok_or("no mechanisms")?;
    let mut slicing = mechanisms.iter();
    let slicing = slicing.find(|one| one["variant"]["mechanism"] == "time-slicing");
    assert_eq!(
        slicing.ok_or("none")?["availability"]["availability"],
        "available"
    );
    // The model runs at the clock that is set, and the share of the peak says so too.
    let clocks = &said["clocks"];
    assert_eq!(clocks["verdict"], "set", "{clocks}");
    assert_eq!(
        clocks["sm_mhz"],
        serde_json::json!({"least": 1005.0, "most": 1005.0})
    );
    assert_eq!(
        clocks["reasons"],
        serde_json::json!(["application clocks setting"])
    );
    let set = "SM clock under full load: 1005 MHz of at most 1590, limited by application clocks \
               setting; set: application clock 1005 MHz, default 1590 MHz (NVML does not report \
               clock locks)";
    assert!(told.contains(set), "{told}");
    let achieved = said["achieved"].as_array().ok_or("no rates")?;
    let fma = achieved
        .iter()
        .find(|one| one["name"] == "FMA")
        .ok_or("no FMA")?;
    let share = fma["share_of_peak"].as_f64().ok_or("no share")?;
    // A process that holds a context and does nothing takes nothing.
    assert!((share / (1005.0 / 1590.0) - 1.0).abs() < 0.1, "{share}");
    Ok(())
}

#[test]
fn nothing_is_named_where_nothing_stands() -> TestResult {
    let place = Lab::on("turing")?;
    let device = place.device();
    let args = ["doctor", "--device", &device, "--format", "json"];
    let output = place.gpubench(&args).output()?;
    done(&output)?;
    let said: Value = serde_json::from_slice(&output.stdout)?;
    // Agents of this very host, if it has any, are told all the same.
    let labels = said["labels"].as_array().ok_or("no labels")?;
    let own = |label: &&Value| !label.as_str().is_some_and(|l| l.starts_with("agent: "));
    assert_eq!(
        labels.iter().filter(own).collect::<Vec<_>>(),
        Vec::<&Value>::new()
    );
    let clocks = &said["clocks"];
    assert_eq!(clocks["greatest_sm_mhz"], 1590, "{clocks}");
    assert_eq!(clocks["application_sm_mhz"], 1590, "{clocks}");
    let samples = clocks["samples"].as_u64().unwrap_or(0);
    assert!(samples >= 10, "{clocks}");
    assert_ne!(clocks["verdict"], "set", "{clocks}");
    Ok(())
}

#[test]
fn the_record_names_what_stood_around() -> TestResult {
    let around = "\n[circumstances]\nvirtualization = \"passthrough\"\n";
    let place = Lab::changed("turing", &[], around)?;
    done(&place.reconfigure("time-slicing", "out").output()?)?;
    let record = place.record("out")?;
    let seen = record
        .provenance
        .host
        .get("observed")
        .cloned()
        .unwrap_or_default();
    assert!(seen.contains("virtualization: passthrough: "), "{seen:?}");
    Ok(())
}
