//! `nvidia-cuda-mps-control` on a virtual GPU, from a shell: output, errors, exit status.

use crate::support::{Error, Finished, TestResult, finish, gpubench};

/// Runs a shell script on a virtual GPU, with MPS folders of its own.
fn shell(machine: &str, script: &str) -> Result<Finished, Error> {
    let folder = tempfile::tempdir()?;
    let exec = ["virtual-gpu", "exec", "--machine", machine, "--"];
    let mut command = gpubench(exec);
    command
        .args(["sh", "-c", script])
        .env("CUDA_MPS_PIPE_DIRECTORY", folder.path().join("pipe"))
        .env("CUDA_MPS_LOG_DIRECTORY", folder.path().join("log"));
    finish(command)
}

#[test]
fn a_daemon_listens_once_started_and_quit_ends_it() -> TestResult {
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
    let run = shell("hopper", script)?.ended_with(0)?;
    let expected = [
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
    // Lines and streams are those of the vendor's command (driver 580.159.04, 2026-11-22).
    let printed: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(printed, expected, "{}", run.stderr);
    let errors: Vec<&str> = run.stderr.lines().collect();
    assert_eq!(errors, ["Cannot find MPS control daemon process"]);
    Ok(())
}

#[test]
fn partitions_are_created_and_listed_if_the_driver_supports_them() -> TestResult {
    let script = r#"
        control() { echo "$*" | nvidia-cuda-mps-control; }
        nvidia-cuda-mps-control -d -S || exit
        gpu=$(control device_query | tail -1 | tr -s ' ' | cut -d ' ' -f 3)
        control sm_partition add "$gpu" 4 | sed "s/$gpu/GPU/"
        control lspart | tail -1 | tr -s ' ' | cut -d ' ' -f 2-
        control quit
    "#;
    let run = shell("hopper", script)?.ended_with(0)?;
    let printed: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(printed, ["Partition GPU/1 created", "1 - 4 - 32 No"]);
    let refused = shell("turing", script)?.ended_with(1)?;
    assert_eq!(refused.stdout, "");
    let stderr = refused.stderr;
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains("has no"), "{stderr}");
    Ok(())
}

#[test]
fn a_failed_start_prints_one_line_and_ends_with_one() -> TestResult {
    let long = "x".repeat(120);
    for (script, reason) in [
        ("nvidia-cuda-mps-control -x".to_owned(), "unknown option \"-x\""),
        ("nvidia-cuda-mps-control -d -p 4".to_owned(), "protocol version"),
        ("CUDA_VISIBLE_DEVICES=7 nvidia-cuda-mps-control -d".to_owned(), "no device is visible"),
        ("CUDA_MPS_LOG_DIRECTORY=/proc/no nvidia-cuda-mps-control -d".to_owned(), "/proc/no"),
        (
            format!(
                "CUDA_MPS_PIPE_DIRECTORY=$CUDA_MPS_PIPE_DIRECTORY/{long} nvidia-cuda-mps-control -d"
            ),
            "SUN_LEN",
        ),
        ("env -u GPUBENCH_VIRTUAL_GPU nvidia-cuda-mps-control -d".to_owned(), "no virtual GPU"),
        ("nvidia-cuda-mps-server".to_owned(), "by its control daemon"),
    ] {
        let refused = shell("hopper", &script)?.ended_with(1)?;
        let stderr = refused.stderr;
        assert_eq!(refused.stdout, "", "{script}: {stderr}");
        assert!(stderr.contains(reason) && stderr.lines().count() == 1, "{script}: {stderr}");
    }
    Ok(())
}
