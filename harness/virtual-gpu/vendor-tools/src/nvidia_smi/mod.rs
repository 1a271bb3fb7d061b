//! `nvidia-smi`: what it shows of the device, its place and its MIG instances, the time-slice
//! level, which NVML cannot set, memory limits of control groups, and the settings that gpubench
//! names as remedies.
//!
//! Exit codes are those of the vendor's manual page, texts those of public logs. All other options
//! are refused.

mod facts;
mod lists;
mod memory;
mod mig;
mod options;
mod query;
mod settings;
mod table;
mod topo;
mod tree;

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;

use gpubench_virtual_gpu_driver::device::{Device, DeviceError};
use gpubench_virtual_gpu_driver::session;
use settings::Setting;

pub const NAME: &str = "nvidia-smi";

/// Exit codes (nvidia-smi manual page, "Return value").
const INVALID_ARGUMENT: u8 = 2;
const NOT_SUPPORTED: u8 = 3;
const NO_PERMISSION: u8 = 4;
const NOT_FOUND: u8 = 6;
const NO_DRIVER: u8 = 9;
const OTHER: u8 = 255;

const LEVELS: [&str; 4] = ["Default", "Short", "Medium", "Long"];

/// Output and exit code of the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub text: String,
    pub code: u8,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Request {
    List,
    Set(u32),
    Change(Setting),
    Memory(memory::Request),
    Mig(mig::Request),
    Topology,
    Query(query::Request),
}

/// Runs the command on the device of the environment, and returns its exit code.
pub fn run(argv: &[OsString]) -> u8 {
    let answer = match std::env::var_os(session::ENV) {
        None => refusal(NO_DRIVER, "NVIDIA-SMI has failed: no virtual GPU was started"),
        Some(dir) => {
            let args = argv.get(1..).unwrap_or_default();
            let device = Device::open(Path::new(&dir));
            let answered = device.and_then(|device| answer(args, &device));
            answered.unwrap_or_else(|error| refusal(OTHER, &error.to_string()))
        }
    };
    // A closed standard output still leaves the exit code.
    let _ = std::io::stdout().write_all(answer.text.as_bytes());
    answer.code
}

/// Answers the command's arguments, without the command's name.
/// Fails when the device cannot be used.
pub fn answer(args: &[OsString], device: &Device) -> Result<Answer, DeviceError> {
    let args: Vec<_> = args.iter().map(|arg| arg.to_string_lossy()).collect();
    let args: Vec<&str> = args.iter().map(AsRef::as_ref).collect();
    let (request, id) = match parse(&args) {
        Ok(parsed) => parsed,
        Err(answer) => return Ok(answer),
    };
    if id.is_some_and(|id| id != "0" && id != device.machine().uuid()) {
        return Ok(refusal(NOT_FOUND, "No devices were found"));
    }
    match request {
        Request::List => list(device),
        Request::Set(level) => set(device, level),
        Request::Change(setting) => settings::answer(setting, device),
        Request::Memory(request) => memory::answer(&request, device),
        Request::Mig(request) => mig::answer(request, device),
        Request::Topology => Ok(topo::answer()),
        Request::Query(request) => Ok(query::answer(&request, device)
            .unwrap_or_else(|error| refusal(error as u8, &format!("{error:?}")))),
    }
}

fn parse<'a>(args: &[&'a str]) -> Result<(Request, Option<&'a str>), Answer> {
    let [first, rest @ ..] = args else { return Ok((Request::Query(query::Request::Table), None)) };
    if *first == memory::NAME {
        let (request, id) = memory::parse(rest)?;
        return Ok((Request::Memory(request), id));
    }
    if *first == mig::NAME {
        let (request, id) = mig::parse(rest)?;
        return Ok((Request::Mig(request), id));
    }
    if *first == topo::NAME {
        return Ok((Request::Topology, topo::parse(rest)?));
    }
    if let Some(parsed) = query::parse(args) {
        return parsed.map(|(request, id)| (Request::Query(request), id));
    }
    if *first != "compute-policy" {
        let (setting, id) = settings::parse(args)?;
        return Ok((Request::Change(setting), id));
    }
    let (request, id) = options::parse(rest, |name, options| match name {
        "-l" | "--list" => Ok(Request::List),
        "--set-timeslice" => {
            let level = options.value()?.parse().ok();
            let level = level.filter(|level| (*level as usize) < LEVELS.len());
            level.map(Request::Set).ok_or_else(|| options.wrong())
        }
        _ => Err(options.wrong()),
    })?;
    Ok((request.ok_or_else(|| invalid("compute-policy"))?, id))
}

/// Refusal of unsupported options.
const NOT_HERE: &str = "Not Supported: the virtual GPU's nvidia-smi has -L, -q (-x, -d), \
                        --query-gpu, --query-compute-apps, mig (-lgip, -lgipp, -lgi, -lcip, \
                        -lci), topo -m, compute-policy (-l, --set-timeslice), memory-limits, \
                        -c, -mig and -r";

fn invalid(option: &str) -> Answer {
    let text = format!("Invalid combination of input arguments at {option}");
    refusal(INVALID_ARGUMENT, &text)
}

fn refusal(code: u8, text: &str) -> Answer {
    Answer { text: format!("{text}\n"), code }
}

fn list(device: &Device) -> Result<Answer, DeviceError> {
    let level = device.transact(|state, _| state.slice_level)?;
    let word = LEVELS.get(level as usize).copied().unwrap_or("Unknown");
    // Text of an H100 80GB HBM3 (driver 580.159.04, 2026-11-22).
    let text = format!(
        "+-------------------------------------+\n\
         | GPU compute policies:               |\n\
         | GPU     Name           Value        |\n\
         |=====================================|\n\
         |   0   Timeslice       {word:<14}|\n\
         +-------------------------------------+\n"
    );
    Ok(Answer { text, code: 0 })
}

fn set(device: &Device, level: u32) -> Result<Answer, DeviceError> {
    let not_supported = || Ok(refusal(NOT_SUPPORTED, "Timeslice: Not Supported"));
    let Some(slice_ns) = device.machine().slice_ns(level) else { return not_supported() };
    if !device.session().privileged {
        return Ok(refusal(NO_PERMISSION, "Insufficient Permissions"));
    }
    let done = device.transact(|state, _| {
        // Time slices apply to the whole device: under MIG there is no such setting.
        if state.mig.current {
            return false;
        }
        state.slice_level = level;
        state.slice_ns = slice_ns;
        true
    })?;
    if !done {
        return not_supported();
    }
    let word = LEVELS[level as usize];
    Ok(Answer {
        text: format!("Timeslice set to {word} for GPU {}\n", device.machine().uuid()),
        code: 0,
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::{Answer, answer};
    use gpubench_virtual_gpu_driver::device::Device;
    use gpubench_virtual_gpu_driver::session::{Session, TimeMode};
    use gpubench_virtual_gpu_model::machine::Machine;

    type Error = Box<dyn std::error::Error>;

    pub(super) fn on(
        machine: &Machine,
        privileged: bool,
        body: impl FnOnce(&dyn Fn(&str) -> Result<Answer, Error>, &Device) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let dir = tempfile::tempdir()?;
        let session = Session { privileged, ..Session::new(TimeMode::Wall, 1) };
        session.create(dir.path(), machine)?;
        let device = Device::open(dir.path())?;
        let run = |line: &str| {
            let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
            Ok(answer(&args, &device)?)
        };
        body(&run, &device)
    }

    /// What driver 580.159.04 printed for an H200.
    pub(super) fn facts(file: &str) -> Result<String, Error> {
        let folder = "/../../../reports/facts/h200_580.159.04/";
        Ok(std::fs::read_to_string(env!("CARGO_MANIFEST_DIR").to_owned() + folder + file)?)
    }

    #[test]
    fn a_level_is_set_listed_and_applied() -> Result<(), Error> {
        let machine = Machine::load("turing")?;
        on(&machine, true, |run, device| {
            let uuid = machine.uuid();
            let word = |text: &str| text.lines().find(|l| l.contains("Timeslice")).map(slice);
            let listed = || run("compute-policy -l").map(|found| word(&found.text));
            assert_eq!(listed()?.as_deref(), Some("Default"));
            // The whole table is that of driver 580.159.04.
            assert_eq!(run("compute-policy -l")?.text, facts("policy.txt")?);
            for (arguments, want, ns) in [
                (format!("-i {uuid} --set-timeslice 1"), "Short", 500_000),
                ("-i 0 --set-timeslice=3".to_owned(), "Long", 16_000_000),
                ("--set-timeslice 0".to_owned(), "Default", 2_000_000),
            ] {
                assert_eq!(run(&format!("compute-policy {arguments}"))?.code, 0);
                assert_eq!(listed()?.as_deref(), Some(want), "{arguments}");
                assert_eq!(device.shared().read(|state| state.slice_ns)?, ns);
            }
            Ok(())
        })
    }

    fn slice(line: &str) -> String {
        let word = line.trim_matches(['|', ' ']).rsplit(' ').next();
        word.unwrap_or_default().to_owned()
    }

    #[test]
    fn other_options_are_refused_with_the_vendors_codes() -> Result<(), Error> {
        let machine = Machine::load("turing")?;
        on(&machine, true, |run, _| {
            for (line, code) in [
                ("", 0),
                ("-q", 0),
                ("-q -i 1", 6),
                ("mig -lgip", 6),
                ("mig -cgi 9", 3),
                ("topo -p2p r", 3),
                ("-x", 2),
                ("-q -d NOTHING", 2),
                ("compute-policy", 2),
                ("compute-policy --set-timeslice 4", 2),
                ("compute-policy --set-timeslice", 2),
                ("compute-policy --set-preemption 1", 2),
                ("compute-policy -i 1 -l", 6),
            ] {
                let found = run(line)?;
                assert_eq!(found.code, code, "{line}: {}", found.text);
            }
            Ok(())
        })?;
        on(&machine, false, |run, _| {
            assert_eq!(run("compute-policy --set-timeslice 1")?.code, 4);
            assert_eq!(run("compute-policy -l")?.code, 0);
            Ok(())
        })?;
        let mut fixed = Machine::load("turing")?;
        fixed.scheduler.levels = None;
        on(&fixed, true, |run, _| {
            assert_eq!(run("compute-policy --set-timeslice 1")?.code, 3);
            Ok(())
        })?;
        let hopper = Machine::load("hopper")?;
        on(&hopper, true, |run, device| {
            device.transact(|state, _| {
                gpubench_virtual_gpu_model::mig::set_mode(state, &hopper, true)
            })?;
            assert_eq!(run("compute-policy --set-timeslice 1")?.code, 3);
            Ok(())
        })
    }
}
