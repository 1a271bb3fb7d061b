//! `nvidia-smi memory-limits`: device memory limits of control groups (MPS documentation, release
//! 615, "MPS v3 Memory Partitioning"). Setting needs permission, reading does not. Values are whole
//! MiB, or `max` for no limit.

use std::cell::RefCell;

use super::{Answer, INVALID_ARGUMENT, NO_PERMISSION, NOT_FOUND, NOT_SUPPORTED, OTHER};
use super::{invalid, options, refusal};
use gpubench_virtual_gpu_driver::device::{Device, DeviceError};
use gpubench_virtual_gpu_model::cgroup;
use gpubench_virtual_gpu_model::memory;
use gpubench_virtual_gpu_model::mps::folder_key;
use gpubench_virtual_gpu_model::state::Context;

/// Name of the subcommand, the first argument.
pub(super) const NAME: &str = "memory-limits";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    group: String,
    /// Soft and hard limit in bytes, 0 for no hard limit; absent to read them.
    limits: Option<(u64, u64)>,
}

#[derive(Debug, Default)]
struct Options {
    group: Option<String>,
    get: bool,
    soft: Option<u64>,
    hard: Option<u64>,
}

/// Parses the arguments after the subcommand into a request and a device.
pub(super) fn parse<'a>(args: &[&'a str]) -> Result<(Request, Option<&'a str>), Answer> {
    let parsed = RefCell::new(Options::default());
    let (_, id) = options::parse(args, |name, options| {
        let mut parsed = parsed.borrow_mut();
        let mut limit = || bytes(options.value()?).ok_or_else(|| options.wrong());
        match name {
            "--set" => parsed.get = false,
            "--get" => parsed.get = true,
            "--soft-limit" => parsed.soft = Some(limit()?),
            "--hard-limit" => parsed.hard = Some(limit()?),
            "-n" | "--namespace" => parsed.group = Some(options.value()?.to_owned()),
            _ => return Err(options.wrong()),
        }
        Ok(())
    })?;
    let Options { group, get, soft, hard } = parsed.into_inner();
    let limits = match (get, soft, hard) {
        (true, None, None) => None,
        (false, None, None) | (true, ..) => return Err(invalid(NAME)),
        (false, soft, hard) => Some((soft.unwrap_or(0), hard.unwrap_or(0))),
    };
    let group = group.ok_or_else(|| invalid("--namespace"))?;
    Ok((Request { group, limits }, id))
}

/// A limit in whole MiB; 0 for `max`.
fn bytes(text: &str) -> Option<u64> {
    match text {
        "max" | "default" => Some(0),
        mib => mib.parse::<u64>().ok()?.checked_mul(1 << 20),
    }
}

/// Sets or prints the limits.
pub(super) fn answer(request: &Request, device: &Device) -> Result<Answer, DeviceError> {
    let machine = device.machine();
    let protocol = machine.mps.as_ref().map_or(0, |mps| mps.protocol);
    if protocol < cgroup::PROTOCOL_MIN {
        let text = format!("Option {NAME} is not recognized");
        return Ok(refusal(INVALID_ARGUMENT, &text));
    }
    let Some(folder) = cgroup::folder(device.dir(), &request.group) else {
        return Ok(refusal(NOT_FOUND, &format!("{}: Not Found", request.group)));
    };
    let key = folder_key(&folder);
    match request.limits {
        None => print(request, device, key),
        Some(_) if !device.session().privileged => {
            Ok(refusal(NO_PERMISSION, "Insufficient Permissions"))
        }
        Some(limits) => set(limits, device, key),
    }
}

fn set(limits: (u64, u64), device: &Device, key: u64) -> Result<Answer, DeviceError> {
    let set = device.transact(|state, _| {
        cgroup::forget_gone(state, device.dir());
        // MIG devices have no such limits.
        (!state.mig.current).then(|| cgroup::limit(state, device.machine(), key, limits))
    })?;
    Ok(match set {
        None => refusal(NOT_SUPPORTED, "Memory limits: Not Supported"),
        Some(false) => refusal(OTHER, "the table of limits is full"),
        Some(true) => Answer {
            text: format!("Memory limits set for GPU {}\n", device.machine().uuid()),
            code: 0,
        },
    })
}

fn print(request: &Request, device: &Device, key: u64) -> Result<Answer, DeviceError> {
    device.reap_dead_processes()?;
    let (limits, used) = device.transact(|state, _| {
        let member = Context { memory_group: key, ..Context::default() };
        let used = memory::group_bytes(state, &member);
        (cgroup::limits(state, key).unwrap_or_default(), used)
    })?;
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    let hard = match limits.hard_bytes {
        0 => "max".to_owned(),
        bytes => mib(bytes),
    };
    Ok(Answer {
        text: format!(
            "namespace: {}\nsoft limit: {}\nhard limit: {hard}\ncurrent used: {}\n",
            request.group,
            mib(limits.soft_bytes),
            mib(used)
        ),
        code: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::on;
    use gpubench_virtual_gpu_model::cgroup::TREE;
    use gpubench_virtual_gpu_model::machine::Machine;

    type Error = Box<dyn std::error::Error>;

    #[test]
    fn limits_belong_to_a_group_and_need_permission() -> Result<(), Error> {
        let machine = Machine::load("hopper")?;
        on(&machine, true, |run, device| {
            let group = device.dir().join(TREE).join("mine");
            let ask = format!("memory-limits --get -n {} -i 0", group.display());
            assert_eq!(run(&ask)?.code, 6, "no such group");
            std::fs::create_dir(&group)?;
            assert!(run(&ask)?.text.contains("hard limit: max"));
            let set = format!("memory-limits --set -n {} -i 0", group.display());
            for (line, code) in [
                (set.clone(), 2),
                (format!("{set} --hard-limit 4G"), 2),
                (format!("{set} --hard-limit 2048 --soft-limit 1024"), 0),
                (format!("{ask} --hard-limit 1"), 2),
                ("memory-limits --get".to_owned(), 2),
            ] {
                assert_eq!(run(&line)?.code, code, "{line}");
            }
            let text = run(&ask)?.text;
            let printed = "soft limit: 1024 MiB\nhard limit: 2048 MiB\ncurrent used: 0 MiB\n";
            assert!(text.ends_with(printed), "{text}");
            assert_eq!(run(&format!("{set} --soft-limit 0 --hard-limit max"))?.code, 0);
            assert!(run(&ask)?.text.contains("hard limit: max"));
            device.transact(|state, _| {
                gpubench_virtual_gpu_model::mig::set_mode(state, &machine, true)
            })?;
            assert_eq!(run(&format!("{set} --hard-limit 1"))?.code, 3);
            Ok(())
        })?;
        on(&machine, false, |run, device| {
            let group = device.dir().join(TREE).join("mine");
            std::fs::create_dir(&group)?;
            let of = format!("-n {}", group.display());
            assert_eq!(run(&format!("memory-limits {of} --hard-limit 1"))?.code, 4);
            assert_eq!(run(&format!("memory-limits --get {of}"))?.code, 0);
            Ok(())
        })?;
        on(&Machine::load("turing")?, true, |run, _| {
            assert_eq!(run("memory-limits --get -n /tmp")?.code, 2);
            Ok(())
        })
    }
}
