//! Texts: profiles, machine files, scenarios, demands, events, messages of tenants, PTX.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use gpubench::error::ExpectedError;
use gpubench_kernels::Kernel;
use gpubench_plan::profile;
use gpubench_plan::profile::Overrides;
use gpubench_predict::pack::Demand;
use gpubench_predict::simulate::Scenario;
use gpubench_profiles::PROFILES;
use gpubench_record::wire::from_line;
use gpubench_record::{FromTenant, ToTenant};
use gpubench_store::parse_events;
use gpubench_virtual_gpu::machine::{BUILT_IN, Machine};
use gpubench_virtual_gpu_driver::placement::CONTROL_SOCKET;
use gpubench_virtual_gpu_ptx::{Program, parse};

use crate::edit::input;
use crate::is_one_line;

const SCENARIOS: [&[u8]; 1] = [include_bytes!("samples/scenario.toml")];
const DEMANDS: [&[u8]; 1] = [include_bytes!("samples/demand.toml")];
const EVENTS: [&[u8]; 1] = [include_bytes!("samples/events.jsonl")];
const WIRE: [&[u8]; 1] = [include_bytes!("samples/wire.jsonl")];
const PTX: [&[u8]; 2] =
    [Kernel::PatternFill.info().ptx.as_bytes(), Kernel::Matmul.info().ptx.as_bytes()];

fn text(bytes: &[u8], samples: &[&[u8]]) -> String {
    String::from_utf8_lossy(&input(bytes, samples)).into_owned()
}

#[test]
fn profile() {
    let profiles: Vec<&[u8]> = PROFILES.iter().map(|(_, text)| text.as_bytes()).collect();
    bolero::check!(name = "profile").for_each(|bytes: &[u8]| {
        let text = text(bytes, &profiles);
        if let Err(error) = profile::parse("f.toml", &text, &Overrides::default()) {
            is_one_line(&ExpectedError::from(error).to_string());
        }
    });
}

#[test]
fn machine_file() {
    let machines: Vec<&[u8]> = BUILT_IN.iter().map(|(_, text)| text.as_bytes()).collect();
    bolero::check!(name = "machine_file").for_each(|bytes: &[u8]| {
        match Machine::parse("f.toml", &text(bytes, &machines)) {
            Ok(machine) => {
                let _ = (machine.rules(), machine.uuid(), machine.cuda_version());
                let _ = (machine.planted(), machine.noise_lines());
                let _ = (machine.mps_server_bytes(), machine.shared_opt_in_bytes());
                for profile in machine.mig.iter().flat_map(|mig| &mig.profile) {
                    let mig = machine.mig.as_ref().expect("it has profiles");
                    let _ = machine.profile_sms(mig, profile);
                    let _ = machine.profile_memory_mib(mig, profile);
                }
            }
            Err(error) => is_one_line(&error.to_string()),
        }
    });
}

#[test]
fn scenario() {
    bolero::check!(name = "scenario").for_each(|bytes: &[u8]| {
        let read = Scenario::from_toml(&text(bytes, &SCENARIOS));
        if let Err(error) = read.and_then(|scenario| scenario.check()) {
            is_one_line(&error.to_string());
        }
    });
}

#[test]
fn demand() {
    bolero::check!(name = "demand").for_each(|bytes: &[u8]| {
        let read = Demand::from_toml(&text(bytes, &DEMANDS));
        if let Err(error) = read.and_then(|demand| demand.check()) {
            is_one_line(&error.to_string());
        }
    });
}

#[test]
fn event_lines() {
    bolero::check!(name = "event_lines").for_each(|bytes: &[u8]| {
        if let Err(error) = parse_events(Path::new("f.jsonl"), &input(bytes, &EVENTS)) {
            is_one_line(&error.to_string());
        }
    });
}

#[test]
fn wire_lines() {
    bolero::check!(name = "wire_lines").for_each(|bytes: &[u8]| {
        for line in text(bytes, &WIRE).split_inclusive('\n') {
            let read = [
                from_line::<ToTenant>(line).map(|_| ()),
                from_line::<FromTenant>(line).map(|_| ()),
            ];
            for error in read.into_iter().filter_map(Result::err) {
                is_one_line(&gpubench_record::on_one_line(&error.to_string()));
            }
        }
    });
}

#[test]
fn ptx() {
    bolero::check!(name = "ptx").for_each(|bytes: &[u8]| match parse(&text(bytes, &PTX)) {
        Ok(module) => {
            let addresses = vec![1 << 40; module.symbols.len()];
            let _ = Program::bind(Arc::new(module), addresses);
        }
        Err(error) => is_one_line(&error.to_string()),
    });
}

// Commands to the stand-in of the MPS control daemon: every line has an answer, and the daemon
// lives on.

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
