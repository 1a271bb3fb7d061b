//! Inputs without end or measure: each is refused in one line that names the accepted range, or
//! bounded, in seconds.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::support::fault::signal;
use super::support::guarded::Resident;
use crate::support::{
    Error, Finished, Lab, TestResult, driver_client, finish, gpubench, program, quick_hopper,
    wait_during,
};

/// Longest refusal: a busy host starts a process slowly.
const SECONDS: Duration = Duration::from_secs(10);
/// Longest part of an input in a message, and what stands around it.
const ECHO_BYTES: usize = 200;

/// A command that is refused with this status, in one line that contains a text.
fn refused(command: Command, code: i32, part: &str) -> Result<String, Error> {
    let begin = Instant::now();
    let done = finish(command)?.ended_with(code)?;
    assert!(begin.elapsed() < SECONDS, "{part}: {:?}", begin.elapsed());
    let errors = done.stderr.lines().filter(|line| line.starts_with("error: "));
    assert_eq!(errors.count(), 1, "{part}: {}", done.stderr);
    assert!(done.stderr.contains(part), "{part}: {}", done.stderr);
    Ok(done.stderr)
}

#[test]
fn a_simulation_without_end_is_refused_with_the_range() -> TestResult {
    for (line, part) in [
        ("simulate --replications 1000000000", "accepted: a whole number from 1 to 100000"),
        (
            "simulate --quantum-ms 1e-9",
            "event.quantum_ms is 0.000000001: accepted is a larger number, because a run has at",
        ),
        (
            "simulate --hami-percent 1e-9",
            "event.hami_percent is 0.000000001: accepted is a larger number",
        ),
        (
            "simulate --bursts 1e-7:1e-7",
            "event.arrivals.on_ms is 0.0000001: accepted is a larger number",
        ),
        ("simulate --replications 100000 --loads 0.01..1:1000", "accepted is at most 1000000 runs"),
        (
            "simulate --duration 1e9",
            "duration_s is 1000000000: accepted is a number above 0 and at most 31536000",
        ),
        ("simulate --threads 100000", "accepted: a whole number from 1 to 1024"),
        ("simulate --config /dev/zero", "it is a pipe or a device (accepted: a regular file)"),
    ] {
        refused(gpubench(line.split_whitespace()), 2, part)?;
    }
    Ok(())
}

#[test]
fn a_machine_file_out_of_range_is_refused_by_the_verb() -> TestResult {
    for (from, to, part) in [
        (
            "sm_clock_mhz = 1980",
            "sm_clock_mhz = 0",
            "gpu.sm_clock_mhz is 0, accepted is 1 to 100000",
        ),
        ("idle_w = 70.0", "idle_w = nan", "power.idle_w is NaN, accepted is 0 to 100000"),
        (
            "connect_us = 900",
            "connect_us = 9223372036854775807",
            "mps.connect_us is 9223372036854775807, accepted is 0 to 60000000",
        ),
        ("name = \"hopper\"", "name = \"a/b\"", "name is a/b, accepted is 1 to 64 letters"),
    ] {
        let lab = Lab::changed("hopper", &[(from, to)], "")?;
        refused(lab.matrix("out", &[]), 2, part)?;
    }
    let lab = Lab::on("turing")?;
    let device = ["plan", "--device", "virtual:/dev/zero"];
    refused(lab.gpubench(device), 2, "it is a folder, a pipe or a device (accepted: a file)")?;
    Ok(())
}

fn with_record(lab: &Lab, name: &str, replace: impl Fn(&Path) -> TestResult) -> TestResult {
    let file = lab.path("out").join(name);
    let bytes = std::fs::read(&file)?;
    std::fs::remove_file(&file)?;
    replace(&file)?;
    for verb in [
        &["report", "out"][..],
        &["report", "out", "--verify"],
        &["claims", "out"],
        &["diff", "out", "--", "out"],
        &["simulate", "--calibrate", "out"],
    ] {
        let begin = Instant::now();
        let done: Finished = finish(lab.gpubench(verb))?;
        assert!(begin.elapsed() < SECONDS, "{name}: {verb:?}");
        // `--verify` prints the problems as its result.
        let said = done.stdout + &done.stderr;
        assert!(said.contains(name), "{name}: {verb:?}: {}", done.stderr);
        assert!(!done.stderr.contains("internal"), "{verb:?}: {}", done.stderr);
        if name == "record.json" {
            assert_eq!(done.code, Some(2), "{verb:?}: {}", done.stderr);
        }
    }
    std::fs::remove_file(&file).or_else(|_| std::fs::remove_dir(&file))?;
    std::fs::write(&file, bytes)?;
    Ok(())
}

#[test]
fn a_folder_a_pipe_or_a_device_in_a_record_is_named() -> TestResult {
    let lab = Lab::on("turing")?;
    finish(lab.matrix("out", &["--mechanism=time-slicing"]))?.ended_with(0)?;
    for name in ["record.json", "samples.parquet", "latencies.hlog", "telemetry.parquet"] {
        with_record(&lab, name, |file| Ok(std::fs::create_dir(file)?))?;
        with_record(&lab, name, |file| {
            assert!(Command::new("mkfifo").arg(file).status()?.success());
            Ok(())
        })?;
        with_record(&lab, name, |file| Ok(std::os::unix::fs::symlink("/dev/zero", file)?))?;
    }
    Ok(())
}

#[test]
fn a_message_repeats_little_of_a_long_input() -> TestResult {
    let lab = Lab::on("turing")?;
    let (word, words) = ("x".repeat(50_000), "many words ".repeat(5_000));
    lab.write("key.toml", &format!("version = 1\n\"{word}\" = 1\n"))?;
    lab.write("value.toml", &format!("version = 1\naxes = [\"{words}\"]\n"))?;
    lab.write("scenario.toml", &format!("rng = \"{words}\"\n"))?;
    let long = |arguments: &[&str]| lab.gpubench(arguments);
    for command in [
        long(&["plan", "--device", "virtual:turing", "--profile", "key.toml"]),
        long(&["plan", "--device", "virtual:turing", "--profile", "value.toml"]),
        long(&["simulate", "--config", "scenario.toml"]),
        long(&["plan", "--device", &word]),
        long(&["plan", "--axis", &words]),
        long(&["plan", "--profile", &word]),
        long(&["report", &word]),
        long(&["report", "none", "--format", &words]),
        long(&["simulate", "--tenants", &word]),
        long(&["pack", "--gpu", &words]),
    ] {
        let shown = format!("{command:?}").chars().take(80).collect::<String>();
        let done = finish(command)?;
        assert!(done.code.is_some_and(|code| code != 0), "{shown}");
        let input = ["x".repeat(ECHO_BYTES + 1), "many words ".repeat(20)];
        for input in input {
            assert!(!done.stderr.contains(&input), "{shown}: {}", done.stderr.len());
        }
        assert!(done.stderr.len() < 3_000, "{shown}: {}", done.stderr);
    }
    Ok(())
}

#[test]
fn an_empty_environment_and_a_home_without_files_are_enough() -> TestResult {
    let lab = Lab::on("turing")?;
    for home in [None, Some("/proc"), Some("/nonexistent")] {
        let mut command = lab.matrix("out", &["--mechanism=time-slicing"]);
        command.env_clear().envs(home.map(|home| ("HOME", home)));
        finish(command)?.ended_with(0)?;
        std::fs::remove_dir_all(lab.path("out"))?;
    }
    Ok(())
}

/// A file system of so many MiB, in a mount namespace that ends with the command.
fn on_disk(lab: &Lab, mib: u32, line: &str) -> Result<Finished, Error> {
    let disk = lab.path("disk");
    std::fs::create_dir_all(&disk)?;
    let disk = disk.display();
    let script = format!("mount -t tmpfs -o size={mib}m tmpfs {disk} && {line}");
    let mut command = Command::new("unshare");
    command
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", &script])
        .current_dir(lab.path(""))
        .env("XDG_STATE_HOME", lab.path("state"));
    finish(command)
}

#[test]
fn a_full_home_sends_the_virtual_gpu_elsewhere_and_a_full_host_is_named() -> TestResult {
    let lab = Lab::on("turing")?;
    let disk = lab.arg("disk");
    let matrix = format!(
        "{} matrix --device virtual:turing --profile short.toml --axis bandwidth/dram \
         --mechanism exclusive,time-slicing --out out",
        program().display()
    );
    on_disk(&lab, 24, &format!("XDG_CACHE_HOME={disk} {matrix}"))?.ended_with(0)?;
    std::fs::remove_dir_all(lab.path("out"))?;
    // Without a report of free memory, none is taken for that of the device.
    let full = format!(
        "mount --bind /dev/null /proc/meminfo && \
         XDG_CACHE_HOME={disk} XDG_RUNTIME_DIR={disk} TMPDIR={disk} {matrix}"
    );
    let done = on_disk(&lab, 24, &full)?;
    assert!(done.code.is_some_and(|code| code != 0), "{}", done.stderr);
    assert!(done.stderr.to_lowercase().contains("no space left"), "{}", done.stderr);
    Ok(())
}

#[test]
fn a_gpu_with_other_work_is_refused_with_its_processes() -> TestResult {
    let host = Resident::start(Lab::of_machine(&quick_hopper()?)?)?;
    let mut other = Command::new(driver_client()?);
    other
        .arg("hold")
        .envs(host.environment())
        .stdin(std::process::Stdio::piped())
        .stdout(std::fs::File::create(host.lab.path("held"))?);
    let mut other = other.spawn()?;
    let holds = || {
        std::fs::read_to_string(host.lab.path("held")).is_ok_and(|text| text.contains("holding"))
    };
    wait_during(&mut other, "a context", holds)?;
    let matrix = ["matrix", "--profile", "short.toml", "--out", "out"];
    let pid = format!("is in use by other work: process {} (", other.id());
    refused(host.gpubench(&matrix), 3, &pid)?;
    assert!(!host.lab.path("out").exists(), "the run began");
    drop(other.stdin.take());
    other.wait()?;
    let mut run = host.gpubench(&matrix).spawn()?;
    let events = host.lab.path("out/events.jsonl");
    wait_during(&mut run, "the run begins", || events.exists())?;
    signal(run.id(), "TERM")?;
    Finished::from(run.wait_with_output()?).ended_with(130)?;
    Ok(())
}
