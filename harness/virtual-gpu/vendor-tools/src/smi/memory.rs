//! `nvidia-smi memory-limits`: how much of the device's memory the processes of a control group
//! may have together (MPS documentation, release 615, "MPS v3 Memory Partitioning"). Setting takes
//! rights, asking does not; values are whole MiB, or `max` for all there is.

use std::cell::RefCell;

use super::{Answer, INVALID_ARGUMENT, NO_PERMISSION, NOT_FOUND, NOT_SUPPORTED, OTHER};
use super::{invalid, options, refusal};
use gpubench_virtual_gpu_driver::device::{Device, DeviceError};
use gpubench_virtual_gpu_model::cgroup;
use gpubench_virtual_gpu_model::memory;
use gpubench_virtual_gpu_model::mps::folder_key;
use gpubench_virtual_gpu_model::state::Context;

/// Name of the subcommand, which comes first.
pub(super) const NAME: &str = "memory-limits";

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wish {
    /// Folder of the group.
    group: String,
    /// Soft and hard limit in bytes, 0 for a hard limit that is none; absent to ask for them.
    limits: Option<(u64, u64)>,
}

/// The options as they were given.
#[derive(Debug, Default)]
struct Given {
    group: Option<String>,
    get: bool,
    soft: Option<u64>,
    hard: Option<u64>,
}

/// What the arguments behind the subcommand ask, and of which device.
pub(super) fn parse<'a>(args: &[&'a str]) -> Result<(Wish, Option<&'a str>), Answer> {
    let given = RefCell::new(Given::default());
    let (_, id) = options::parse(args, |name, options| {
        let mut given = given.borrow_mut();
        let mut limit = || bytes(options.value()?).ok_or_else(|| options.wrong());
        match name {
            "--set" => given.get = false,
            "--get" => given.get = true,
            "--soft-limit" => given.soft = Some(limit()?),
            "--hard-limit" => given.hard = Some(limit()?),
            "-n" | "--namespace" => given.group = Some(options.value()?.to_owned()),
            _ => return Err(options.wrong()),
        }
        Ok(())
    })?;
    let Given {
        group,
        get,
        soft,
        hard,
    } = given.into_inner();
    let limits = match (get, soft, hard) {
        (true, None, None) => None,
        (false, None, None) | (true, ..) => return Err(invalid(NAME)),
        (false, soft, hard) => Some((soft.unwrap_or(0), hard.unwrap_or(0))),
    };
    let group = group.ok_or_else(|| invalid("--namespace"))?;
    Ok((Wish { group, limits }, id))
}

/// A limit in whole MiB; 0 stands for all there is.
fn bytes(text: &str) -> Option<u64> {
    match text {
        "max" | "default" => Some(0),
        mib => mib.parse::<u64>().ok()?.checked_mul(1 << 20),
    }
}

/// Sets or tells the limits.
pub(super) fn answer(wish: &Wish, device: &Device) -> Result<Answer, DeviceError> {
    let machine = device.machine();
    let protocol = machine.mps.as_ref().map_or(0, |mps| mps.protocol);
    if protocol < cgroup::PROTOCOL_MIN {
        let text = format!("Option {NAME} is not recognized");
        return Ok(refusal(INVALID_ARGUMENT, &text));
    }
    let Some(folder) = cgroup::folder(device.dir(), &wish.group) else {
        return Ok(refusal(NOT_FOUND, &format!("{}: Not Found", wish.group)));
    };
    let key = folder_key(&folder);
    match wish.limits {
        None => tell(wish, device, key),
        Some(_) if !device.session().privileged => {
            Ok(refusal(NO_PERMISSION, "Insufficient Permissions"))
        }
        Some(limits) => set(limits, device, key),
    }
}

fn set(limits: (u64, u64), device: &Device, key: u64) -> Result<Answer, DeviceError> {
    let set = device.transact(|state, _| {
        cgroup::forget_gone(state, device.dir());
        // A divided device has no such limits.
        (!state.mig.current).then(|| cgroup::limit(state, device.machine(), key, limits))
    })?;
    Ok(match set {
        None => refusal(NOT_SUPPORTED, "Memory limits: Not Supported"),
        Some(false) => refusal(OTHER, "there is no room for the limits of another group"),
        Some(true) => Answer {
            text: format!("Memory limits set for GPU {}\n", device.machine().uuid()),
            code: 0,
        },
    })
}

fn tell(wish: &Wish, device: &Device, key: u64) -> Result<Answer, DeviceError> {
    device.reap_dead_processes()?;
    let (limits, used) = device.transact(|state, _| {
        let member = Context {
            memory_group: key,
            ..Context::default()
        };
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
            wish.group,
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
    fn limits_are_those_of_a_group_and_take_rights() -> Result<(), Error> {
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
            let said = run(&ask)?.text;
            let told = "soft limit: 1024 MiB\nhard limit: 2048 MiB\ncurrent used: 0 MiB\n";
            assert!(said.ends_with(told), "{said}");
            assert_eq!(
                run(&format!("{set} --soft-limit 0 --hard-limit max"))?.code,
                0
            );
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
