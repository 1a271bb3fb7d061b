//! Looking around a cell: who is on the device, who serves whom, and what is mapped where.

use std::ffi::OsString;

use gpubench_record::Condition;

use super::Run;
use super::device_processes::DeviceProcesses;
use super::tenant_set::TenantSet;
use crate::mechanism::{Observation, ProgramObservation, TenantEnv};

/// Who serves whom, as the mechanism itself tells it while the contexts of a cell are open.
pub struct Serving {
    services: Vec<u32>,
    daemon_clients: Option<Result<Vec<u32>, String>>,
}

impl Serving {
    /// Asks.
    pub fn now(tenants: &TenantSet) -> Self {
        let set_up = &tenants.config().set_up;
        match set_up.servers() {
            Ok(services) => Self {
                daemon_clients: set_up.clients(&services),
                services,
            },
            Err(error) => Self {
                services: Vec::new(),
                daemon_clients: Some(Err(error)),
            },
        }
    }
}

/// Everything that proofs are made of.
pub fn seen(
    run: &Run,
    tenants: &TenantSet,
    condition: Condition,
    on_device: &DeviceProcesses,
    serving: &Serving,
) -> Observation {
    // Everybody that anybody names: among them are the processes of a program of the user's.
    let named = [&on_device.listed, &on_device.mps_clients]
        .into_iter()
        .flatten();
    let of_daemon = serving.daemon_clients.iter().flatten();
    let mut named: Vec<u32> = named.chain(of_daemon).flatten().copied().collect();
    named.sort_unstable();
    named.dedup();
    Observation {
        tenants: tenants.observations(),
        listed: on_device.listed.clone(),
        mps_clients: on_device.mps_clients.clone(),
        access_attempts: tenants.access_attempts(),
        compute_mode: on_device.compute_mode.clone(),
        native_sm_count: Some(run.setup.identity.sm_count).filter(|&count| count > 0),
        services: serving.services.clone(),
        daemon_clients: serving.daemon_clients.clone(),
        program: tenants
            .program()
            .map(|pids| program_seen(tenants, pids, &named, on_device)),
        ..Observation::new(condition, tenants.open_pids(&named))
    }
}

/// A program of the user's with these processes, as the system and NVML tell of it.
fn program_seen(
    tenants: &TenantSet,
    pids: Vec<u32>,
    named: &[u32],
    on_device: &DeviceProcesses,
) -> ProgramObservation {
    let of_program = |slot: &&(u32, Option<u32>)| pids.contains(&slot.0);
    let instances = on_device.instances.iter().filter(of_program).copied();
    let instances = instances.collect();
    let mut working = pids.clone();
    working.retain(|pid| named.contains(pid));
    if working.is_empty() {
        working.extend(pids.first());
    }
    let config = tenants.config();
    let handed = config.environments.first().cloned().unwrap_or_default();
    let files = |&pid: &u32| (pid, mapped(pid).unwrap_or_default());
    ProgramObservation {
        mapped: working.iter().map(files).collect(),
        lacking: working
            .iter()
            .flat_map(|&pid| lacking(pid, &handed))
            .collect(),
        working,
        instances,
        handed_instance: config.set_up.instances.first().map(|instance| instance.id),
    }
}

/// Which of these variables a process was started without; all where the system does not tell.
fn lacking(pid: u32, handed: &TenantEnv) -> Vec<(u32, String)> {
    use std::os::unix::ffi::OsStrExt;
    let bytes = environment(pid);
    let there: Vec<&[u8]> = bytes.split(|&byte| byte == 0).collect();
    let is_missing = |(name, value): &(&OsString, &OsString)| {
        let whole = [name.as_bytes(), b"=", value.as_bytes()].concat();
        !there.contains(&whole.as_slice())
    };
    let missing = handed.iter().filter(is_missing);
    missing
        .map(|(name, _)| (pid, name.to_string_lossy().into_owned()))
        .collect()
}

/// What a process was started with; nothing where the system does not tell.
fn environment(pid: u32) -> Vec<u8> {
    std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default()
}

/// A variable that a process was started with; absent too if the system does not tell.
pub fn variable(pid: u32, name: &str) -> Option<String> {
    let bytes = environment(pid);
    let mut all = bytes.split(|&byte| byte == 0);
    let value = |entry: &[u8]| {
        let entry = String::from_utf8_lossy(entry);
        let (known, value) = entry.split_once('=')?;
        (known == name).then(|| value.to_owned())
    };
    all.find_map(value)
}

/// Whether a process is there and has not ended; one whose parent has not asked for its end yet
/// has ended (`Z` and `X` in proc_pid_stat(5)).
pub fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name in parentheses may hold anything.
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// The files that a process has mapped, each once; absent if the system does not tell.
pub fn mapped(pid: u32) -> Option<Vec<String>> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let path = |line: &str| line.find('/').map(|at| line[at..].to_owned());
    let mut files: Vec<String> = maps.lines().filter_map(path).collect();
    files.sort();
    files.dedup();
    Some(files)
}

#[cfg(test)]
mod tests {
    use std::ffi::{OsStr, OsString};

    use super::{lacking, lives, mapped, variable};
    use crate::mechanism::TenantEnv;

    #[test]
    fn a_process_that_nobody_has_waited_for_lives_no_more() -> std::io::Result<()> {
        assert!(lives(std::process::id()));
        assert!(!lives(u32::MAX));
        let mut child = std::process::Command::new("sleep").arg("60").spawn()?;
        assert!(lives(child.id()));
        child.kill()?;
        while lives(child.id()) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        child.wait().map(drop)
    }

    #[test]
    fn this_very_program_is_mapped_into_itself() {
        let own = std::env::current_exe().ok();
        let files = mapped(std::process::id());
        let own = own.map(|path| path.display().to_string());
        assert!(own.is_some_and(|own| files.is_some_and(|files| files.contains(&own))));
        assert_eq!(mapped(0), None);
    }

    #[test]
    fn variables_of_a_process_are_held_against_those_that_it_was_handed() {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let (own, word) = (std::process::id(), "GPUBENCH_TEST_NOT_SET");
        let mut handed = TenantEnv::from([("PATH".into(), path)]);
        assert_eq!(lacking(own, &handed), []);
        let told = variable(own, "PATH").map(OsString::from);
        assert_eq!(told.as_ref(), handed.get(OsStr::new("PATH")));
        assert_eq!(variable(own, word), None);
        handed.insert(word.into(), "1".into());
        assert_eq!(lacking(own, &handed), [(own, word.to_owned())]);
        handed.insert("PATH".into(), "elsewhere".into());
        assert_eq!(lacking(own, &handed).len(), 2);
    }
}
