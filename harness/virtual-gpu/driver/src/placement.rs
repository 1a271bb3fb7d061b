//! Where a process's contexts run: the device or MIG instance that its environment makes visible,
//! and the MPS server that it is a client of.
//!
//! The environment is read once, as the real driver does. An unreachable daemon is no error: the
//! process then time-slices without a message, as the vendor documents. A measurement of MPS has to
//! detect that.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use crate::code::{self, Code};
use crate::cost::Part;
use crate::device::Device;
use crate::rules::{Rule, are_strict};
use gpubench_virtual_gpu_model::machine::Machine;
use gpubench_virtual_gpu_model::mps::{self, ClientRequest, Refusal};
use gpubench_virtual_gpu_model::state::{Context, State, WHOLE};
use gpubench_virtual_gpu_model::{cgroup, mig};

/// Name of the socket that a daemon listens on, in its pipe directory.
pub const CONTROL_SOCKET: &str = "control";

/// Default pipe directory of clients, and the root of a daemon of protocol version 3 (MPS
/// documentation).
pub const PIPE_DIRECTORY: &str = "/tmp/nvidia-mps";
pub const ROOT_DIRECTORY: &str = "/run/nvidia-mps";

/// Longest wait for a daemon that must start a server first.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// The server that this process is a client of. It is requested once.
static SERVER: OnceLock<Result<Option<u32>, Code>> = OnceLock::new();

/// The limits of its namespace, known once it is a client.
static BOUNDS: OnceLock<ClientRequest> = OnceLock::new();

/// The compute engine that the process's environment makes visible; `None` if there is none.
pub fn visible(state: &State, machine: &Machine) -> Option<u32> {
    static VISIBLE: OnceLock<Option<String>> = OnceLock::new();
    let devices = VISIBLE.get_or_init(|| std::env::var("CUDA_VISIBLE_DEVICES").ok());
    let first = devices.as_ref().map(|list| list.split(',').next().unwrap_or("").trim());
    let found = find(state, machine, first)?;
    Some(if machine.defects.mig_instances_swapped { next_instance(state, found) } else { found })
}

/// The next compute instance after this one; itself if there is no other.
fn next_instance(state: &State, engine: u32) -> u32 {
    let rows = state.engines.live().iter().enumerate().skip(1);
    let parts: Vec<u32> = rows.filter(|(_, row)| row.live).map(|(row, _)| row as u32).collect();
    let at = parts.iter().position(|&row| row == engine);
    at.map_or(engine, |at| parts[(at + 1) % parts.len()])
}

/// The compute engine that `first`, the first entry of a list of visible devices, names.
pub fn find(state: &State, machine: &Machine, first: Option<&str>) -> Option<u32> {
    let engines = || {
        let rows = state.engines.live().iter().enumerate();
        rows.filter(|(_, row)| row.live).map(|(row, _)| row as u32)
    };
    match first {
        None | Some("0") => engines().next(),
        Some(name) if name.starts_with("MIG-GPU-") => engines().find(|&row| {
            let (ci, gi) = (&state.engines.rows[row as usize], row != WHOLE);
            let id = state.instances.rows[ci.instance as usize].id;
            gi && name == format!("MIG-{}/{id}/{}", machine.uuid(), ci.id)
        }),
        Some(name) if name.starts_with("MIG-") => {
            engines().find(|&row| row != WHOLE && mig::uuid(state, machine, row) == name)
        }
        // A prefix of the UUID names a device.
        Some(name) if name.len() > 4 && machine.uuid().starts_with(name) => engines().next(),
        Some(_) => None,
    }
}

/// The part of the device that the kernels of a context may use.
pub fn part(state: &State, context: &Context) -> Part {
    let engine = &state.engines.rows[context.engine as usize];
    let instance = &state.instances.rows[engine.instance as usize];
    Part {
        sm_first: context.sm_first,
        sm_count: match context.sm_count {
            0 => engine.sm_count,
            count => count,
        },
        l2_bytes: instance.l2_bytes,
        bandwidth: instance.bandwidth as f64 / gpubench_virtual_gpu_model::state::ONE as f64,
    }
}

/// The context that the calling process would get: its engine, and the limits of MPS.
pub fn visible_context(device: &Device) -> Result<Context, Code> {
    let machine = device.machine();
    let server = server(device)?;
    let memory_group = cgroup::of_process(device.dir(), std::process::id());
    let found = device.shared().read(|state| {
        let mut context =
            Context { engine: visible(state, machine)?, memory_group, ..Context::default() };
        match server {
            None => context.memory_limit = own_limit(machine),
            // A refused client gets the whole device here; creating a context returns the
            // reason.
            Some(server) => {
                let _ = mps::admit(state, machine, server, &wish(machine), &mut context);
            }
        }
        Some(context)
    })?;
    found.ok_or(code::NO_DEVICE)
}

/// Sets the engine of a context, and its limits as a client of MPS.
pub fn place(
    state: &State,
    machine: &Machine,
    server: Option<u32>,
    context: &mut Context,
) -> Result<(), Code> {
    context.engine = visible(state, machine).ok_or(code::INVALID_DEVICE)?;
    let Some(server) = server else {
        context.memory_limit = own_limit(machine);
        return Ok(());
    };
    if names_devices(&variable(LIMIT)) && !takes_names(machine) {
        let answer = Rule::NamedLimit.broken();
        if are_strict() {
            return Err(answer);
        }
    }
    mps::admit(state, machine, server, &wish(machine), context).map_err(|refusal| match refusal {
        Refusal::Gone => code::MPS_RPC_FAILURE,
        Refusal::NotReady => code::MPS_SERVER_NOT_READY,
        Refusal::Full => code::MPS_MAX_CLIENTS_REACHED,
        // An inference: the documentation names no code for a client without a partition.
        Refusal::NoPartition => code::MPS_CONNECTION_FAILED,
    })
}

/// The memory limit of a client of a daemon that keeps its own context: that of its namespace.
fn own_limit(machine: &Machine) -> u64 {
    BOUNDS.get().map_or(0, |_| mps::memory_limit(machine, 0, wish(machine).memory_limit))
}

/// The MPS server that the process is a client of; `None` if no daemon answers, or if the process
/// keeps its own context.
pub fn server(device: &Device) -> Result<Option<u32>, Code> {
    let machine = device.machine();
    if machine.mps.is_none() || machine.defects.mps_unreachable {
        return Ok(None);
    }
    *SERVER.get_or_init(|| connect(device))
}

fn connect(device: &Device) -> Result<Option<u32>, Code> {
    let dir = std::env::var_os("CUDA_MPS_PIPE_DIRECTORY");
    let dir = dir.map_or_else(|| PathBuf::from(PIPE_DIRECTORY), PathBuf::from);
    let Some(reply) = request_server(&dir) else { return Ok(None) };
    // A daemon of another virtual device in this folder is ignored.
    let known = device.shared().read(|state| {
        let mut daemons = state.daemons.live().iter();
        // The folder of a namespace lies in its server's, which lies in the daemon's.
        let above: Vec<u64> = dir.ancestors().take(3).map(mps::folder_key).collect();
        daemons.any(|d| d.live && above.contains(&d.pipe))
    });
    if !known? {
        return Ok(None);
    }
    let charge = device.machine().mps.as_ref().map_or(0, |m| m.connect_us * 1000);
    device.charge(charge)?;
    let (server, bounds) = read_admitted(&reply).ok_or(code::MPS_CONNECTION_FAILED)?;
    if !device.machine().defects.mps_namespaces_ignored {
        BOUNDS.get_or_init(|| bounds);
    }
    Ok(server)
}

/// The reply of a daemon to a client: the row of its server, and the limits of its namespace.
/// A client that keeps its own context has no server.
pub fn admitted(server: Option<u32>, bounds: &ClientRequest) -> String {
    let field = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |v| v.to_string());
    let percentage = field(bounds.percentage.map(u64::from));
    let priority = field(bounds.priority.map(u64::from));
    let memory = field(bounds.memory_limit);
    let server = field(server.map(u64::from));
    format!("server {server} {percentage} {memory} {priority}\n")
}

/// Reads the reply that [`admitted`] writes; `None` for a refusal.
fn read_admitted(reply: &str) -> Option<(Option<u32>, ClientRequest)> {
    let mut words = reply.trim().strip_prefix("server ")?.split(' ');
    let mut number = || words.next()?.parse::<u64>().ok();
    let (server, percentage, memory_limit, priority) = (number(), number(), number(), number());
    let small = |value: Option<u64>| value.and_then(|value| u32::try_from(value).ok());
    let bounds = ClientRequest {
        percentage: small(percentage),
        memory_limit,
        priority: small(priority),
        partition: None,
    };
    Some((small(server), bounds))
}

/// Requests a server from the daemon of a pipe directory; `None` if no daemon replies.
fn request_server(dir: &Path) -> Option<String> {
    let mut stream = UnixStream::connect(dir.join(CONTROL_SOCKET)).ok()?;
    stream.set_read_timeout(Some(REPLY_TIMEOUT)).ok()?;
    let uid = crate::host_process::own_uid();
    writeln!(stream, "client {} {uid}", std::process::id()).ok()?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).ok()?;
    (!line.is_empty()).then_some(line)
}

/// The limits that the process's environment requests from MPS.
fn wish(machine: &Machine) -> ClientRequest {
    static READ: OnceLock<ClientRequest> = OnceLock::new();
    let own = *READ.get_or_init(|| {
        wish_of(
            machine,
            &variable("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"),
            &variable(LIMIT),
            &variable("CUDA_MPS_CLIENT_PRIORITY"),
            &variable("CUDA_MPS_SM_PARTITION"),
        )
    });
    let mut wish = BOUNDS.get().map_or(own, |bounds| own.within(bounds));
    if drops_limits(machine, &variable(LIMIT)) {
        wish.memory_limit = None;
    }
    wish
}

/// Whether an entry of a list of limits drops all of them: it names a GPU that is not seen.
fn drops_limits(machine: &Machine, list: &str) -> bool {
    let drops = machine.mps.as_ref().is_some_and(|mps| mps.unseen_gpu_drops_limits);
    let entries = list.split(',').filter_map(|entry| entry.split_once('='));
    let mut devices = entries.map(|(device, _)| device.trim());
    drops && takes_names(machine) && devices.any(|one| one != "0" && one != machine.uuid())
}

/// The limits that these variables request. A value that cannot be parsed counts as unset, as with
/// the real driver.
fn wish_of(
    machine: &Machine,
    percentage: &str,
    limit: &str,
    priority: &str,
    part: &str,
) -> ClientRequest {
    let percentage = percentage.trim().parse::<f64>().ok();
    let partition = part.split_once('/').filter(|(gpu, _)| *gpu == machine.uuid());
    ClientRequest {
        percentage: percentage.filter(|p| (0.0..=100.0).contains(p)).map(|p| p as u32),
        memory_limit: limit_of(machine, limit),
        priority: priority.trim().parse().ok().filter(|p| *p <= 1),
        partition: partition.and_then(|(_, id)| id.trim().parse().ok()),
    }
}

const LIMIT: &str = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT";

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

/// Whether limits may name a device by its UUID.
fn takes_names(machine: &Machine) -> bool {
    machine.mps.as_ref().is_some_and(|mps| mps.protocol >= 3)
}

fn names_devices(limits: &str) -> bool {
    limits.split(',').any(|entry| entry.trim().starts_with("GPU-"))
}

/// The limit of the only device in a list such as `0=1G,1=512MB`. Drivers with protocol version 3
/// also accept its UUID in place of the index (MPS documentation,
/// `CUDA_MPS_PINNED_DEVICE_MEM_LIMIT`).
pub fn limit_of(machine: &Machine, list: &str) -> Option<u64> {
    let named = takes_names(machine);
    let entries = list.split(',').filter_map(|entry| entry.split_once('='));
    let mut entries = entries.map(|(device, size)| (device.trim(), size));
    let is_own = |device| device == "0" || named && device == machine.uuid();
    bytes(entries.find(|(device, _)| is_own(*device))?.1)
}

/// A size with a unit, as MPS writes it: `1G`, `512MB`, `512M`.
pub fn bytes(text: &str) -> Option<u64> {
    let text = text.trim().trim_end_matches(['B', 'b']);
    let (digits, shift) = match text.as_bytes().last()? {
        b'G' | b'g' => (&text[..text.len() - 1], 30),
        b'M' | b'm' => (&text[..text.len() - 1], 20),
        b'K' | b'k' => (&text[..text.len() - 1], 10),
        _ => (text, 0),
    };
    digits.trim().parse::<u64>().ok()?.checked_shl(shift)
}

#[cfg(test)]
mod tests {
    use super::{bytes, drops_limits, find, limit_of, wish_of};
    use gpubench_virtual_gpu_model::machine::Machine;
    use gpubench_virtual_gpu_model::mps::ClientRequest;
    use gpubench_virtual_gpu_model::state::State;

    #[test]
    fn sizes_are_read_with_their_units() {
        let cases = [("1G", 1 << 30), ("512MB", 512 << 20), ("3k", 3072), ("77", 77)];
        for (text, expected) in cases {
            assert_eq!(bytes(text), Some(expected), "{text}");
        }
        assert_eq!(bytes("lots"), None);
    }

    #[test]
    fn limits_are_read_from_the_environment_and_invalid_ones_are_unset() {
        let machine = Machine::load("turing").expect("built in");
        let partition = format!("{}/3", machine.uuid());
        let wish = wish_of(&machine, "50", "1=1G,0=2G", "1", &partition);
        let expected = ClientRequest {
            percentage: Some(50),
            memory_limit: Some(2 << 30),
            priority: Some(1),
            partition: Some(3),
        };
        assert_eq!(wish, expected);
        let mut hopper = Machine::load("hopper").expect("built in");
        let named = format!("0=1G,{}=1G", hopper.uuid());
        for (list, drops) in [("0=1G,63=1G", true), (&named, false), ("", false), ("x", false)] {
            assert_eq!(drops_limits(&hopper, list), drops, "{list}");
            assert!(!drops_limits(&machine, list), "{list}: an older driver");
        }
        for (machine, limit) in [(&machine, None), (&hopper, Some(3 << 30))] {
            let named = format!("1=1G,{}=3G", machine.uuid());
            assert_eq!(limit_of(machine, &named), limit, "{}", machine.name);
        }
        if let Some(mps) = &mut hopper.mps {
            mps.unseen_gpu_drops_limits = false;
        }
        assert!(!drops_limits(&hopper, "63=1G"));
        assert_eq!(limit_of(&hopper, "1=1G,0=512M"), Some(512 << 20));
        assert_eq!([limit_of(&hopper, "1=1G"), limit_of(&hopper, "0=much")], [None, None]);
        assert_eq!(wish_of(&machine, "150", "x", "7", "GPU-x/1"), ClientRequest::default());
    }

    #[test]
    fn a_device_is_visible_under_its_names_and_no_other() {
        let machine = Machine::load("turing").expect("built in");
        let mut state = State::new(1, 0);
        gpubench_virtual_gpu_model::mig::undivided(&mut state, &machine);
        let uuid = machine.uuid();
        for name in [None, Some("0"), Some(uuid.as_str()), Some(&uuid[..9])] {
            assert_eq!(find(&state, &machine, name), Some(0), "{name:?}");
        }
        for name in ["", "1", "-1", "GPU-", "GPU-zz", "MIG-123"] {
            assert_eq!(find(&state, &machine, Some(name)), None, "{name:?}");
        }
    }
}
