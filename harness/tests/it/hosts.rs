//! The zoo: every host of `profiles/machines/hosts.toml`. `doctor`, `plan`, `matrix` and `nightly`
//! say what is wrong with it, end with its status, and answer in time. No night on a host without
//! verdicts is green.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gpubench_virtual_gpu::machine::{Host, hosts};

use crate::support::{Lab, TestResult, finish, program};

/// Longest time of what can be known before the first cell, and of a short run.
const OUTSET: Duration = Duration::from_secs(10);
const RUN: Duration = Duration::from_secs(30);

/// The shortest profile, of these mechanisms.
fn profile(mechanisms: &[impl AsRef<str>]) -> String {
    let names: Vec<&str> = mechanisms.iter().map(AsRef::as_ref).collect();
    format!("mechanisms = {names:?}\n{}", include_str!("data/short.toml"))
}

/// What a verb did wrong on a host, in one line.
fn wrong(lab: &Lab, host: &Host, verb: &str) -> Result<Option<String>, crate::support::Error> {
    let device = lab.device();
    let more: &[&str] = match verb {
        "matrix" => &["--out", "out", "--no-faults", "--full"],
        "nightly" => &["nights", "--strict"],
        _ => &[],
    };
    let (exit, limit) = match verb {
        "plan" => (host.plan.unwrap_or(host.exit), OUTSET),
        "doctor" => (host.doctor.unwrap_or(host.exit), OUTSET + Duration::from_secs(3)),
        _ => (host.exit, RUN),
    };
    let begun = Instant::now();
    let mut command = lab.gpubench([verb, "--device", &device, "--profile", "short.toml"]);
    command.args(more).env("COLUMNS", "4000");
    let found = finish(command)?;
    let (took, text) = (begun.elapsed(), found.text());
    // What only a tenant or `doctor` can tell is no part of a plan.
    let has_doctor = host.doctor.is_none();
    let is_silent = match verb {
        "plan" => host.plan.is_some(),
        "doctor" => !has_doctor,
        // What `doctor` cannot tell only `matrix` says.
        _ => host.plan.is_some() && exit == 0 && verb == "matrix" && has_doctor,
    };
    let is_said = is_silent || text.contains(&host.says);
    let names_a_bug = text.contains("internal error") || text.contains("panicked");
    let is_red = verb != "nightly" || text.contains("nightly: not measured");
    let right = found.code == Some(exit) && is_said && is_red && took < limit && !names_a_bug;
    Ok((!right).then(|| {
        format!("{} {verb}: {:?} instead of {exit} in {took:.1?}: {text}", host.name, found.code)
    }))
}

#[test]
fn every_host_is_answered_the_same_by_every_verb_and_in_time() -> TestResult {
    // Most of the time of a host that hangs is waiting.
    let (hosts, next) = (hosts()?, AtomicUsize::new(0));
    let work = || -> Result<Vec<String>, crate::support::Error> {
        let mut problems = Vec::new();
        while let Some(host) = hosts.get(next.fetch_add(1, Ordering::Relaxed)) {
            // A night on a host with verdicts is a run as that of `matrix`.
            let verbs = ["doctor", "plan", "matrix", "nightly"];
            for verb in verbs.into_iter().take(if host.exit == 0 { 3 } else { 4 }) {
                let lab = Lab::on(&host.name)?.profile(&profile(&host.mechanisms))?;
                problems.extend(wrong(&lab, host, verb)?);
            }
        }
        Ok(problems)
    };
    let found = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        let joined = threads.into_iter().map(|thread| match thread.join() {
            Ok(problems) => problems,
            Err(_) => Err("a worker panicked".into()),
        });
        joined.collect::<Result<Vec<_>, _>>()
    })?;
    let problems = found.concat();
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
    Ok(())
}

/// Limits of a shell under which a run would end somewhere in its middle.
#[test]
fn limits_of_the_process_are_named_at_once() -> TestResult {
    let lab = Lab::on("hopper")?.profile(&profile(&["exclusive", "time-slicing", "mps"]))?;
    let is_root = std::fs::metadata("/proc/self")?.uid() == 0;
    let user = "exec setpriv --reuid 65534 --regid 65534 --clear-groups bash -c";
    for (limit, exit, says) in [
        ("ulimit -s 512; exec", 0, "mechanisms are available"),
        ("ulimit -n 64; exec", 7, "(ulimit -n)"),
        ("ulimit -v 400000; exec", 7, "(ulimit -v)"),
        ("ulimit -u 20; exec", 7, "(ulimit -u is 20"),
        ("ulimit -d 20000; exec", 7, "(ulimit -d)"),
        ("ulimit -t 3; exec", 7, "(ulimit -t)"),
    ] {
        // Root has no limit of threads.
        let of_user = limit.contains("-u ");
        if of_user && !is_root {
            continue;
        }
        for verb in ["doctor", "plan", "matrix --no-faults --full --out out"] {
            let run = format!("{} {verb} --device virtual:hopper", program().display());
            let run = format!("{limit} {run} --profile short.toml");
            let script = if of_user { format!("{user} '{run}'") } else { run };
            let mut shell = Command::new("bash");
            shell.args(["-c", &script]).current_dir(lab.path("")).env("COLUMNS", "4000");
            if of_user {
                std::fs::set_permissions(lab.path(""), Permissions::from_mode(0o777))?;
                shell.env("HOME", lab.path("")).env_remove("XDG_CACHE_HOME");
            }
            // What a run needs of files is no need of the others.
            let exit = if limit.contains("-n") && verb.starts_with("matrix") { 7 } else { exit };
            let found = finish(shell)?.ended_with(exit)?;
            let is_said = found.text().contains(says) || exit == 0 && verb != "doctor";
            assert!(is_said, "{limit} {verb}: {}", found.text());
            let _ = std::fs::remove_dir_all(lab.path("out"));
        }
    }
    Ok(())
}
