//! `nvidia-cuda-mps-control` on a virtual GPU, as a shell meets it: what it prints where, and the
//! status with which it ends.

use crate::support::{Error, TestResult, binary};
use std::process::Stdio;

/// Runs a shell script on a virtual GPU, in folders of its own: status, output, complaints.
fn shell(machine: &str, script: &str) -> Result<(Option<i32>, String, String), Error> {
    let folder = tempfile::tempdir()?;
    let done = binary()
        .args([
            "virtual-gpu",
            "exec",
            "--machine",
            machine,
            "--",
            "sh",
            "-c",
        ])
        .arg(script)
        .env("CUDA_MPS_PIPE_DIRECTORY", folder.path().join("pipe"))
        .env("CUDA_MPS_LOG_DIRECTORY", folder.path().join("log"))
        .stdin(Stdio::null())
        .output()?;
    let stdout = String::from_utf8(done.stdout)?;
    Ok((done.status.code(), stdout, String::from_utf8(done.stderr)?))
}

/// Lines of output, each with what the script says of it.
fn lines(output: &str) -> Vec<&str> {
    output.lines().collect()
}

#[test]
fn a_daemon_listens_when_its_starter_returns_and_is_gone_after_quit() -> TestResult {
    let script = r#"
        control() { echo "$*" | nvidia-cuda-mps-control; }
        nvidia-cuda-mps-control -d
        echo "started $?"
        control start_server -uid "$(id -u)"
        server=$(control get_server_list)
        echo "served by $(cat /proc/$server/comm)"
        control get_server_status "$server"
        control set_default_active_thread_percentage 50
        control frobnicate | wc -l
        control frobnicate > /dev/null
        echo "answered $?"
        nvidia-cuda-mps-control -d
        echo "second $?"
        control quit
        echo "quit $?"
        test -e "/proc/$server/exe" && echo "the server is still there"
        control get_server_list
        echo "after $?"
    "#;
    let (code, stdout, stderr) = shell("hopper", script)?;
    assert_eq!(code, Some(0), "{stderr}");
    let want = [
        "started 0",
        "served by nvidia-cuda-mps",
        "ACTIVE",
        "50.0",
        "1",
        "answered 0",
        "An instance of this daemon is already running",
        "second 1",
        "quit 0",
        "after 1",
    ];
    assert_eq!(lines(&stdout), want, "{stderr}");
    let complaints: Vec<&str> = stderr.lines().collect();
    // What is said where is what the vendor's command said (driver 580.159.04, 2026-11-22).
    assert_eq!(complaints, ["Cannot find MPS control daemon process"]);
    Ok(())
}

#[test]
fn partitions_are_made_and_listed_where_the_driver_has_them() -> TestResult {
    let script = r#"
        control() { echo "$*" | nvidia-cuda-mps-control; }
        nvidia-cuda-mps-control -d -S || exit
        gpu=$(control device_query | tail -1 | tr -s ' ' | cut -d ' ' -f 3)
        control sm_partition add "$gpu" 4 | sed "s/$gpu/GPU/"
        control lspart | tail -1 | tr -s ' ' | cut -d ' ' -f 2-
        control quit
    "#;
    let (code, stdout, stderr) = shell("hopper", script)?;
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(lines(&stdout), ["Partition GPU/1 created", "1 - 4 - 32 No"]);
    let (code, stdout, stderr) = shell("turing", script)?;
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains("has no"), "{stderr}");
    Ok(())
}

#[test]
fn what_cannot_be_started_says_why_and_ends_with_one() -> TestResult {
    let long = "x".repeat(120);
    for (script, said) in [
        (
            "nvidia-cuda-mps-control -x".to_owned(),
            "unknown option \"-x\"",
        ),
        (
            "nvidia-cuda-mps-control -d -p 4".to_owned(),
            "protocol version",
        ),
        (
            "CUDA_VISIBLE_DEVICES=7 nvidia-cuda-mps-control -d".to_owned(),
            "no device is visible",
        ),
        (
            "CUDA_MPS_LOG_DIRECTORY=/proc/no nvidia-cuda-mps-control -d".to_owned(),
            "/proc/no",
        ),
        (
            format!(
                "CUDA_MPS_PIPE_DIRECTORY=$CUDA_MPS_PIPE_DIRECTORY/{long} nvidia-cuda-mps-control -d"
            ),
            "SUN_LEN",
        ),
        (
            "env -u GPUBENCH_VIRTUAL_GPU nvidia-cuda-mps-control -d".to_owned(),
            "no virtual GPU",
        ),
        ("nvidia-cuda-mps-server".to_owned(), "by its control daemon"),
    ] {
        let (code, stdout, stderr) = shell("hopper", &script)?;
        assert_eq!((code, stdout.as_str()), (Some(1), ""), "{script}: {stderr}");
        assert!(
            stderr.contains(said) && stderr.lines().count() == 1,
            "{script}: {stderr}"
        );
    }
    Ok(())
}
