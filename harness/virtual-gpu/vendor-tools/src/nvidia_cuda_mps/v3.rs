//! Protocol version 3: `MODULE VERB [NAME...] [--KEY=VALUE...]`, as in the vendor's documentation
//! (release 615, "MPS v3 Interface"). The modules are `server`, `namespace`, `client` and `device`;
//! others are refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::daemon::Daemon;
use super::listen::handler;
use super::named::{self, DEFAULT, NamedServer, Namespace, NamespaceId, NamespaceSocket};
use super::{MpsError, command, partition, query, rows, watch};
use gpubench_virtual_gpu_model::mps::Wish;

/// Prefix of a refusal, by which the front end recognises it.
pub const REFUSED: &str = "Error: ";

/// Runs a command and returns its answer.
pub fn answer(daemon: &Arc<Daemon>, words: &[&str]) -> String {
    // Lists contain live processes only.
    let alive = daemon.device.reap_dead_processes().map_err(MpsError::from);
    match alive.and_then(|()| run(daemon, words)) {
        Ok(text) => text,
        Err(error) => format!("{REFUSED}{error}\n"),
    }
}

fn run(daemon: &Arc<Daemon>, words: &[&str]) -> Result<String, MpsError> {
    let [module, verb, rest @ ..] = words else {
        return match words {
            ["quit"] => command::quit(daemon, Some("0")),
            _ => refuse("accepted is MODULE VERB [ARGUMENTS]".to_owned()),
        };
    };
    let arguments = Arguments::read(rest)?;
    match (*module, *verb, &arguments.names[..]) {
        ("server", "create", [name]) => create_server(daemon, name, &arguments),
        ("server", "delete", [name]) => delete_server(daemon, name, &arguments),
        ("server", "set", [name]) => set_bounds(daemon, name, DEFAULT, &arguments),
        ("server", "list", []) => {
            arguments.accept_only(&["format"], |a| list_servers(daemon, None, a))
        }
        ("server", "list", [name]) => {
            arguments.accept_only(&["format"], |a| list_servers(daemon, Some(name), a))
        }
        ("server", "get", [name, field]) => get(&rows::SERVER, &server_row(daemon, name)?, field),
        ("namespace", "create", [name]) => create_namespace(daemon, name, &arguments),
        ("namespace", "delete", [name]) => delete_namespace(daemon, name, &arguments),
        ("namespace", "set", [name]) => {
            let server = arguments.server()?;
            set_bounds(daemon, server, name, &arguments)
        }
        ("namespace", "list", []) => {
            arguments.accept_only(&["format", "server"], |a| list_namespaces(daemon, a))
        }
        ("namespace", "get", [name, server, field]) => {
            let found = namespace_rows(daemon, Some(server))?;
            let row = found.into_iter().find(|row| row[0] == *name);
            get(
                &rows::NAMESPACE,
                &row.ok_or_else(|| no_namespace(server, name))?,
                field,
            )
        }
        ("client", "list", []) => {
            arguments.accept_only(&["format", "server", "all"], |a| list_clients(daemon, a))
        }
        ("client", "terminate", [pid]) => terminate(daemon, pid),
        ("device", "list", []) => arguments.accept_only(&[], |_| query::device_list(daemon)),
        _ => refuse(format!(
            "unknown command, or wrong arguments: {}",
            words.join(" ")
        )),
    }
}

fn refuse<T>(why: String) -> Result<T, MpsError> {
    Err(MpsError::Refused(why))
}

/// The arguments of a command.
struct Arguments<'a> {
    names: Vec<&'a str>,
    keys: BTreeMap<&'a str, &'a str>,
}

impl<'a> Arguments<'a> {
    fn read(words: &[&'a str]) -> Result<Self, MpsError> {
        let mut arguments = Self {
            names: Vec::new(),
            keys: BTreeMap::new(),
        };
        for word in words {
            let option = word.strip_prefix("--");
            match (option.unwrap_or(word).split_once('='), option) {
                (Some((key, value)), _) => _ = arguments.keys.insert(key, value),
                (None, Some(flag)) => _ = arguments.keys.insert(flag, ""),
                (None, None) => arguments.names.push(word),
            }
        }
        Ok(arguments)
    }

    /// Runs `then` unless there are other keys.
    fn accept_only<R>(
        &self,
        known: &[&str],
        then: impl FnOnce(&Self) -> Result<R, MpsError>,
    ) -> Result<R, MpsError> {
        match self.keys.keys().find(|key| !known.contains(key)) {
            Some(key) => refuse(format!("unknown option --{key} (accepted: {known:?})")),
            None => then(self),
        }
    }

    fn get(&self, key: &str) -> Option<&'a str> {
        self.keys.get(key).copied()
    }

    fn server(&self) -> Result<&'a str, MpsError> {
        let missing = || MpsError::Refused("--server=NAME is missing".to_owned());
        self.get("server").ok_or_else(missing)
    }

    fn table(&self, columns: &[&str], rows: &[Vec<String>]) -> Result<String, MpsError> {
        rows::table(self.get("format").unwrap_or("table"), columns, rows)
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
    let own = daemon
        .device
        .transact(|state, _| partition::uuid(state, &daemon.device, daemon.row))?;
    if devices.is_some_and(|named| named != "0" && named != own) {
        return refuse(format!("the device of this daemon is 0, {own}"));
    }
    let mut shared = daemon.shared();
    if shared.named.iter().any(|server| server.name == name) {
        return refuse(format!("server {name} already exists"));
    }
    let row = daemon.start(&mut shared, uid)?;
    let namespace_id = NamespaceId {
        server: name.to_owned(),
        namespace: DEFAULT.to_owned(),
    };
    let socket = NamespaceSocket::open(&daemon.pipe.join(name), handler(daemon, namespace_id))?;
    shared.named.push(NamedServer {
        name: name.to_owned(),
        uid,
        devices: devices.map(str::to_owned),
        row,
        namespaces: vec![Namespace {
            name: DEFAULT.to_owned(),
            bounds: Wish::default(),
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
        let namespace_id = NamespaceId {
            server: server.to_owned(),
            namespace: name.to_owned(),
        };
        let folder = daemon.pipe.join(server).join(name);
        found.namespaces.push(Namespace {
            name: name.to_owned(),
            bounds: Wish::default(),
            socket: NamespaceSocket::open(&folder, handler(daemon, namespace_id))?,
        });
        Ok(String::new())
    })
}

fn delete_namespace(
    daemon: &Arc<Daemon>,
    name: &str,
    arguments: &Arguments,
) -> Result<String, MpsError> {
    let server = arguments.accept_only(&["server", "force"], Arguments::server)?;
    let force = arguments.get("force").is_some();
    let namespace_id = NamespaceId {
        server: server.to_owned(),
        namespace: name.to_owned(),
    };
    let clients = clients(daemon)?;
    if !force && clients.iter().any(|(_, known)| *known == namespace_id) {
        return refuse(format!("namespace {name} has clients"));
    }
    with_server(daemon, server, |found| {
        let at = found.namespaces.iter().position(|known| known.name == name);
        match at {
            Some(0) => refuse(format!(
                "the namespace {DEFAULT} is deleted with its server"
            )),
            Some(at) => {
                found.namespaces.remove(at);
                Ok(String::new())
            }
            None => Err(no_namespace(server, name)),
        }
    })
}

/// Sets the limits of new clients of a namespace.
fn set_bounds(
    daemon: &Arc<Daemon>,
    server: &str,
    name: &str,
    arguments: &Arguments,
) -> Result<String, MpsError> {
    const KEYS: [&str; 3] = [
        "pinned-memory-limit",
        "active-thread-percentage",
        "client-priority",
    ];
    arguments.accept_only(&[KEYS[0], KEYS[1], KEYS[2], "server"], |_| Ok(()))?;
    let memory = arguments
        .get(KEYS[0])
        .map(command::valid_limit)
        .transpose()?;
    let percentage = arguments
        .get(KEYS[1])
        .map(command::valid_percentage)
        .transpose()?;
    let priority = arguments
        .get(KEYS[2])
        .map(command::valid_priority)
        .transpose()?;
    if memory.is_none() && percentage.is_none() && priority.is_none() {
        return refuse(format!("nothing to set (accepted: {KEYS:?})"));
    }
    with_server(daemon, server, |found| {
        let mut all = found.namespaces.iter_mut();
        let namespace = all.find(|known| known.name == name);
        let bounds = &mut namespace.ok_or_else(|| no_namespace(server, name))?.bounds;
        *bounds = Wish {
            memory_limit: memory.or(bounds.memory_limit),
            percentage: percentage.or(bounds.percentage),
            priority: priority.or(bounds.priority),
            partition: None,
        };
        Ok(String::new())
    })
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
        false => refuse(format!(
            "MPS server {} has no client {pid}",
            namespace_id.server
        )),
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
    body(
        all.find(|server| server.name == name)
            .ok_or_else(|| no_server(name))?,
    )
}

/// Every client of a named server, by process id, with its namespace.
fn clients(daemon: &Daemon) -> Result<Vec<(u32, NamespaceId)>, MpsError> {
    let servers: Vec<(u32, String)> = {
        let shared = daemon.shared();
        let named = shared.named.iter();
        named
            .map(|server| (server.row, server.name.clone()))
            .collect()
    };
    let mut found = Vec::new();
    for (row, server) in servers {
        for pid in query::client_pids(daemon, row)? {
            let namespaces_of = &daemon.shared().namespaces_of;
            let namespace = namespaces_of
                .get(&pid)
                .map_or(DEFAULT, |namespace_id| &namespace_id.namespace);
            let namespace_id = NamespaceId {
                server: server.clone(),
                namespace: namespace.to_owned(),
            };
            found.push((pid, namespace_id));
        }
    }
    Ok(found)
}

fn get(columns: &[&str], row: &[String], field: &str) -> Result<String, MpsError> {
    match columns.iter().position(|column| *column == field) {
        Some(at) => Ok(format!("{}\n", row[at])),
        None => refuse(format!("unknown field {field:?} (accepted: {columns:?})")),
    }
}

fn server_row(daemon: &Daemon, name: &str) -> Result<Vec<String>, MpsError> {
    let rows = server_rows(daemon)?;
    let found = rows.into_iter().find(|row| row[0] == name);
    found.ok_or_else(|| no_server(name))
}

/// A row for each named server with a live process.
fn server_rows(daemon: &Daemon) -> Result<Vec<Vec<String>>, MpsError> {
    let shared = daemon.shared();
    let mut found = Vec::new();
    for server in &shared.named {
        let mut running = shared.servers.iter();
        let Some(running) = running.find(|s| s.process.row == server.row) else {
            continue;
        };
        let folder = server.namespaces.first().map(|first| first.socket.folder());
        found.push(vec![
            server.name.clone(),
            server.uid.to_string(),
            running.process.pid().to_string(),
            query::state_of(daemon, server.row, ["Fault", "Starting", "Ready"])?.to_owned(),
            folder.map_or_else(String::new, |folder| folder.display().to_string()),
            server.devices.clone().unwrap_or_else(|| "all".to_owned()),
            "-".to_owned(),
        ]);
    }
    Ok(found)
}

fn list_servers(daemon: &Daemon, name: Option<&str>, a: &Arguments) -> Result<String, MpsError> {
    let rows = match name {
        Some(name) => vec![server_row(daemon, name)?],
        None => server_rows(daemon)?,
    };
    a.table(&rows::SERVER, &rows)
}

fn namespace_rows(daemon: &Daemon, only: Option<&str>) -> Result<Vec<Vec<String>>, MpsError> {
    let servers = server_rows(daemon)?;
    let shared = daemon.shared();
    let mut found = Vec::new();
    for server in shared
        .named
        .iter()
        .filter(|s| only.is_none_or(|only| only == s.name))
    {
        let status = servers.iter().find(|row| row[0] == server.name);
        let status = status.map_or("Gone", |row| &row[3]);
        found.extend(server.namespaces.iter().map(|namespace| {
            let bounds = &namespace.bounds;
            let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
            vec![
                namespace.name.clone(),
                server.name.clone(),
                status.to_owned(),
                or_dash(bounds.memory_limit.map(|bytes| format!("{}M", bytes >> 20))),
                or_dash(bounds.percentage.map(|percent| percent.to_string())),
                or_dash(bounds.priority.map(|priority| priority.to_string())),
                namespace.socket.folder().display().to_string(),
            ]
        }));
    }
    Ok(found)
}

fn list_namespaces(daemon: &Daemon, a: &Arguments) -> Result<String, MpsError> {
    a.table(&rows::NAMESPACE, &namespace_rows(daemon, a.get("server"))?)
}

fn list_clients(daemon: &Daemon, a: &Arguments) -> Result<String, MpsError> {
    let only = a.get("server");
    let mut found = clients(daemon)?;
    found.retain(|(_, namespace_id)| only.is_none_or(|only| only == namespace_id.server));
    let row = |(pid, namespace_id): (u32, NamespaceId)| {
        let pid = pid.to_string();
        let command = query::command_line(&pid);
        vec![
            pid,
            namespace_id.server,
            command::DEVICE.to_owned(),
            namespace_id.namespace,
            command,
        ]
    };
    let rows: Vec<Vec<String>> = found.into_iter().map(row).collect();
    a.table(&rows::CLIENT, &rows)
}
