//! The pre-kill hook of a tenant runs before any signal: an MPS daemon disconnects its client while
//! the client runs and has received no signal.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio::process::{Child, Command};

use super::{Link, PreKillHook};

/// A tenant that records SIGTERM in a file and does not end.
fn stubborn(folder: &Path) -> std::io::Result<Child> {
    let script =
        "trap 'touch \"$0/terminated\"' TERM; touch \"$0/ready\"; while :; do sleep 0.01; done";
    Command::new("sh")
        .args(["-c", script])
        .arg(folder)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .process_group(0)
        .spawn()
}

#[test]
fn the_pre_kill_hook_runs_before_every_signal() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut child = stubborn(dir.path())?;
        let pid = child.id().ok_or("the child has no process id")?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let ends = input.zip(output).ok_or("the child has no pipes")?;
        while !dir.path().join("ready").exists() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        let mut link = Link::new(child, ends.0, ends.1);
        let called = Arc::new(Mutex::new(Vec::new()));
        let (log, terminated) = (Arc::clone(&called), dir.path().join("terminated"));
        link.set_pre_kill_hook(PreKillHook::new(move |pid| {
            // Long enough for the child to record an earlier signal.
            std::thread::sleep(std::time::Duration::from_millis(100));
            let runs = PathBuf::from(format!("/proc/{pid}/exe")).exists();
            let mut log = log.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            log.push((pid, runs, terminated.exists()));
        }));
        let how = link.kill().await;
        assert_eq!(how, "stopped by the coordinator, killed by signal 9");
        let called = called.lock().map_err(|_| "a panic")?.clone();
        assert_eq!(called, [(pid, true, false)]);
        assert!(dir.path().join("terminated").exists(), "SIGTERM is sent before SIGKILL");
        assert_eq!(link.kill().await, how, "a second kill reports the same");
        Ok(())
    })
}
