//! Protocol version 3: `MODULE VERB [NAME...] [--KEY=VALUE...]`, as in the vendor's documentation
//! (release 615, "MPS v3 Interface"). It has the verbs that a sharing set-up needs:
//! `server create`, `set`, `delete` and `list`, `namespace create` and `set`, `client list` and
//! `terminate`, `feature`; others are refused.

mod arguments;
mod lists;

use std::sync::Arc;

use super::daemon::{Daemon, Features};
use super::listen::handler;
use super::log::Which;
use super::named::{self, DEFAULT, NamedServer, Namespace, NamespaceId, NamespaceSocket};
use super::{MpsError, command, partition, query, refuse, watch};
use arguments::Arguments;
use gpubench_virtual_gpu_model::mps::ClientRequest;
use lists::{clients, list_clients, list_servers};

/// Prefix of a refusal, by which the front end recognises it.
pub const REFUSED: &str = "Error: ";
const FEATURES: [&str; 2] = ["memacct", "context-share"];

pub fn answer(daemon: &Arc<Daemon>, words: &[&str]) -> String {
    // Lists contain live processes only.
    let alive = daemon.device.reap_dead_processes().map_err(MpsError::from);
    match alive.and_then(|()| run(daemon, words)) {
        Ok(text) => text,
        Err(error) => format!("{REFUSED}{error}\n"),
    }
}

/// Runs a command and returns its answer, or why it is refused.
pub fn run(daemon: &Arc<Daemon>, words: &[&str]) -> Result<String, MpsError> {
    let [module, verb, rest @ ..] = words else {
        return match words {
            ["quit"] => command::quit(daemon, Some("0")),
            _ => refuse("accepted is MODULE VERB [ARGUMENTS]".to_owned()),
        };
    };
    let arguments = Arguments::read(rest);
    match (*module, *verb, &arguments.names[..]) {
        ("server", "create", [name]) => create_server(daemon, name, &arguments),
        // Limits of a server are those of its default namespace.
        ("server", "set", [name]) => set_bounds(daemon, name, DEFAULT, &arguments),
        ("server", "delete", [name]) => delete_server(daemon, name, &arguments),
        ("server", "list", []) => arguments.accept_only(&["format"], |a| list_servers(daemon, a)),
        ("namespace", "create", [name]) => create_namespace(daemon, name, &arguments),
        ("namespace", "set", [name]) => {
            let server = arguments.server()?;
            set_bounds(daemon, server, name, &arguments)
        }
        ("client", "list", []) => {
            arguments.accept_only(&["format", "server", "all"], |a| list_clients(daemon, a))
        }
        ("client", "terminate", [pid]) => terminate(daemon, pid),
        ("feature", "enable", [name]) => set_feature(daemon, name, true),
        ("feature", "disable", [name]) => set_feature(daemon, name, false),
        ("feature", "describe", []) => arguments.accept_only(&["format"], |a| features(daemon, a)),
        _ => refuse(format!("unknown command, or wrong arguments: {}", words.join(" "))),
    }
}

fn create_server(
    daemon: &Arc<Daemon>,
    name: &str,
    arguments: &Arguments,
) -> Result<String, MpsError> {
    arguments.accept_only(&["uid", "allowed-devices"], |_| named::valid(name))?;
    let uid = match arguments.get("uid").map(str::parse) {
        None => daemon.uid,
        Some(Ok(uid)) => uid,
        Some(Err(_)) => return refuse("--uid takes a numeric user id".to_owned()),
    };
    let devices = arguments.get("allowed-devices");
    let own =
        daemon.device.transact(|state, _| partition::uuid(state, &daemon.device, daemon.row))?;
    if devices.is_some_and(|named| named != "0" && named != own) {
        let mps = daemon.device.machine().mps.as_ref();
        if mps.is_some_and(|mps| mps.unknown_gpu_refused) {
            return refuse(format!("the device of this daemon is 0, {own}"));
        }
        daemon.note(Which::Server, "no CUDA-capable device is detected");
        return Ok(String::new());
    }
    let mut shared = daemon.shared();
    if shared.named.iter().any(|server| server.name == name) {
        return refuse(format!("server {name} already exists"));
    }
    let row = daemon.start(&mut shared, uid)?;
    let namespace_id = NamespaceId { server: name.to_owned(), namespace: DEFAULT.to_owned() };
    let socket = NamespaceSocket::open(&daemon.pipe.join(name), handler(daemon, namespace_id))?;
    shared.named.push(NamedServer {
        name: name.to_owned(),
        uid,
        devices: devices.map(str::to_owned),
        row,
        namespaces: vec![Namespace {
            name: DEFAULT.to_owned(),
            bounds: ClientRequest::default(),
            socket,
        }],
    });
    Ok(String::new())
}

fn delete_server(
    daemon: &Arc<Daemon>,
    name: &str,
    arguments: &Arguments,
) -> Result<String, MpsError> {
    let force = arguments.accept_only(&["force"], |a| Ok(a.get("force").is_some()))?;
    let mut shared = daemon.shared();
    let at = shared.named.iter().position(|server| server.name == name);
    let at = at.ok_or_else(|| no_server(name))?;
    let row = shared.named[at].row;
    if !force && !query::client_pids(daemon, row)?.is_empty() {
        return refuse(format!("server {name} has clients"));
    }
    shared.named.remove(at);
    let running = shared.servers.iter().position(|s| s.process.row == row);
    if let Some(index) = running {
        watch::stop(daemon, &mut shared, index)?;
    }
    Ok(String::new())
}

fn create_namespace(
    daemon: &Arc<Daemon>,
    name: &str,
    arguments: &Arguments,
) -> Result<String, MpsError> {
    let server = arguments.accept_only(&["server"], Arguments::server)?;
    named::valid(name)?;
    with_server(daemon, server, |found| {
        if found.namespaces.iter().any(|known| known.name == name) {
            return refuse(format!("server {server} already has a namespace {name}"));
        }
        let namespace_id = NamespaceId { server: server.to_owned(), namespace: name.to_owned() };
        let folder = daemon.pipe.join(server).join(name);
        found.namespaces.push(Namespace {
            name: name.to_owned(),
            bounds: ClientRequest::default(),
            socket: NamespaceSocket::open(&folder, handler(daemon, namespace_id))?,
        });
        Ok(String::new())
    })
}

/// Sets the limits of new clients of a namespace.
fn set_bounds(
    daemon: &Arc<Daemon>,
    server: &str,
    name: &str,
    arguments: &Arguments,
) -> Result<String, MpsError> {
    const KEYS: [&str; 3] = ["pinned-memory-limit", "active-thread-percentage", "client-priority"];
    arguments.accept_only(&[KEYS[0], KEYS[1], KEYS[2], "server"], |_| Ok(()))?;
    let memory = arguments.get(KEYS[0]).map(command::valid_limit).transpose()?;
    let percentage = arguments.get(KEYS[1]).map(command::valid_percentage).transpose()?;
    let priority = arguments.get(KEYS[2]).map(command::valid_priority).transpose()?;
    if memory.is_none() && percentage.is_none() && priority.is_none() {
        return refuse(format!("nothing to set (accepted: {KEYS:?})"));
    }
    with_server(daemon, server, |found| {
        let mut all = found.namespaces.iter_mut();
        let namespace = all.find(|known| known.name == name);
        let bounds = &mut namespace.ok_or_else(|| no_namespace(server, name))?.bounds;
        *bounds = ClientRequest {
            memory_limit: memory.or(bounds.memory_limit),
            percentage: percentage.or(bounds.percentage),
            priority: priority.or(bounds.priority),
            partition: None,
        };
        Ok(String::new())
    })
}

/// Switches a feature on or off, for new clients.
fn set_feature(daemon: &Daemon, name: &str, on: bool) -> Result<String, MpsError> {
    let features = &mut daemon.shared().features;
    match name {
        "memacct" => features.memacct = on,
        "context-share" => features.context_share = on,
        other => return refuse(format!("{other:?} is not a feature ({FEATURES:?})")),
    }
    Ok(String::new())
}

fn features(daemon: &Daemon, arguments: &Arguments) -> Result<String, MpsError> {
    let Features { memacct, context_share, .. } = daemon.shared().features;
    let row = |(name, on): (&str, bool)| {
        let state = if on { "enabled (default)" } else { "disabled" };
        [name, state, name, "-"].map(str::to_owned).to_vec()
    };
    let rows: Vec<_> = FEATURES.into_iter().zip([memacct, context_share]).map(row).collect();
    arguments.table(&["feature", "state", "module", "covers"], &rows)
}

fn terminate(daemon: &Arc<Daemon>, pid: &str) -> Result<String, MpsError> {
    let found = clients(daemon)?;
    let known = found.iter().find(|(client, _)| client.to_string() == pid);
    let Some((_, namespace_id)) = known else {
        return refuse(format!("there is no client {pid}"));
    };
    let row = with_server(daemon, &namespace_id.server, |server| Ok(server.row))?;
    match command::terminate_in(daemon, row, pid)? {
        true => Ok(String::new()),
        false => refuse(format!("MPS server {} has no client {pid}", namespace_id.server)),
    }
}

fn no_server(name: &str) -> MpsError {
    MpsError::Refused(format!("there is no server {name}"))
}

fn no_namespace(server: &str, name: &str) -> MpsError {
    MpsError::Refused(format!("server {server} has no namespace {name}"))
}

fn with_server<R>(
    daemon: &Daemon,
    name: &str,
    body: impl FnOnce(&mut NamedServer) -> Result<R, MpsError>,
) -> Result<R, MpsError> {
    let mut shared = daemon.shared();
    let mut all = shared.named.iter_mut();
    body(all.find(|server| server.name == name).ok_or_else(|| no_server(name))?)
}
