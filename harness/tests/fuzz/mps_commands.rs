//! Commands to the stand-in of the MPS control daemon: every line has an answer, and the daemon
//! lives on.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use gpubench_virtual_gpu_driver::placement::CONTROL_SOCKET;

use crate::edit::input;

const COMMANDS: [&[u8]; 10] = [
    b"get_server_list",
    b"get_client_list 12",
    b"ps -p 12",
    b"device_query 12 --csv",
    b"set_default_active_thread_percentage 50",
    b"set_active_thread_percentage 12 33.9",
    b"set_default_device_pinned_mem_limit 0 2G",
    b"set_default_client_priority 1",
    b"sm_partition add 0 2",
    b"terminate_client 12 13",
];
/// Longest wait for an answer.
const ANSWER: Duration = Duration::from_secs(10);

/// A daemon on a virtual GPU, which ends with its standard input.
struct Daemon {
    child: Child,
    pipe: tempfile::TempDir,
}

impl Daemon {
    fn start() -> std::io::Result<Self> {
        let pipe = tempfile::tempdir()?;
        let script = "nvidia-cuda-mps-control -d && echo ready && cat; \
                      echo quit | nvidia-cuda-mps-control";
        let mut child = Command::new(env!("CARGO_BIN_EXE_gpubench"))
            .args(["virtual-gpu", "exec", "--machine", "hopper", "--"])
            .args(["sh", "-c", script])
            .env("CUDA_MPS_PIPE_DIRECTORY", pipe.path())
            .env("CUDA_MPS_LOG_DIRECTORY", pipe.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut ready = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut ready)?;
        }
        assert_eq!(ready, "ready\n");
        Ok(Self { child, pipe })
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn answer(pipe: &Path, command: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(pipe.join(CONTROL_SOCKET))?;
    stream.set_read_timeout(Some(ANSWER))?;
    stream.set_write_timeout(Some(ANSWER))?;
    // The daemon closes the connection after the longest line, and then writes fail.
    let _ = stream.write_all(command).and_then(|()| stream.write_all(b"\n"));
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(error) if error.kind() != std::io::ErrorKind::ConnectionReset => Err(error),
        _ => Ok(answer),
    }
}

#[test]
fn mps_commands() {
    let daemon = Daemon::start().expect("a daemon");
    bolero::check!(name = "mps_commands").for_each(|bytes: &[u8]| {
        let command = input(bytes, &COMMANDS);
        // It would end the daemon.
        if command.trim_ascii_start().starts_with(b"quit") {
            return;
        }
        let found = answer(daemon.pipe.path(), &command).expect("an answer");
        assert!(found.len() < 1 << 16, "{} bytes", found.len());
    });
    let list = answer(daemon.pipe.path(), b"get_default_client_priority");
    assert!(list.is_ok_and(|answer| !answer.is_empty()), "the daemon died");
}
