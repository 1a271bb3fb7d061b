//! The third version of the interface: `MODULE VERB [NAME...] [--KEY=VALUE...]`, as the vendor's
//! documentation has it (release 615, "MPS v3 Interface"). Of its modules there are `server`,
//! `namespace`, `client` and `device`; every other is refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::daemon::Daemon;
use super::listen::answering;
use super::named::{self, DEFAULT, Named, Namespace, NamespaceId, NamespaceSocket};
use super::{MpsdError, command, partition, query, rows, watch};
use gpubench_virtual_gpu_model::mps::Wish;

/// What stands before an answer that is a refusal, by which the front end knows it.
pub const REFUSED: &str = "Error: ";

/// Carries a command out and returns the answer.
pub fn answer(daemon: &Arc<Daemon>, words: &[&str]) -> String {
    // Lists must not name the dead.
    let alive = daemon.device.reap_dead_processes().map_err(MpsdError::from);
    match alive.and_then(|()| carry_out(daemon, words)) {
        Ok(text) => text,
        Err(error) => format!("{REFUSED}{error}\n"),
    }
}

fn carry_out(daemon: &Arc<Daemon>, words: &[&str]) -> Result<String, MpsdError> {
    let [module, verb, rest @ ..] = words else {
        return match words {
            ["quit"] => command::quit(daemon, Some("0")),
            _ => refuse("a command is MODULE VERB [ARGUMENTS]".to_owned()),
        };
    };
    let asked = Asked::read(rest)?;
    match (*module, *verb, &asked.names[..]) {
        ("server", "create", [name]) => create_server(daemon, name, &asked),
        ("server", "delete", [name]) => delete_server(daemon, name, &asked),
        ("server", "set", [name]) => set_bounds(daemon, name, DEFAULT, &asked),
        ("server", "list", []) => asked.only(&["format"], |a| list_servers(daemon, None, a)),
        ("server", "list", [name]) => {
            asked.only(&["format"], |a| list_servers(daemon, Some(name), a))
        }
        ("server", "get", [name, field]) => get(&rows::SERVER, &server_row(daemon, name)?, field),
        ("namespace", "create", [name]) => create_namespace(daemon, name, &asked),
        ("namespace", "delete", [name]) => delete_namespace(daemon, name, &asked),
        ("namespace", "set", [name]) => {
            let server = asked.server()?;
            set_bounds(daemon, server, name, &asked)
        }
        ("namespace", "list", []) => {
            asked.only(&["format", "server"], |a| list_namespaces(daemon, a))
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
            asked.only(&["format", "server", "all"], |a| list_clients(daemon, a))
        }
        ("client", "terminate", [pid]) => terminate(daemon, pid),
        ("device", "list", []) => asked.only(&[], |_| query::device_list(daemon)),
        _ => refuse(format!(
            "unknown command, or wrong arguments: {}",
            words.join(" ")
        )),
    }
}

fn refuse<T>(why: String) -> Result<T, MpsdError> {
    Err(MpsdError::Refused(why))
}

/// The arguments of a command.
struct Asked<'a> {
    names: Vec<&'a str>,
    keys: BTreeMap<&'a str, &'a str>,
}

impl<'a> Asked<'a> {
    fn read(words: &[&'a str]) -> Result<Self, MpsdError> {
        let mut asked = Self {
            names: Vec::new(),
            keys: BTreeMap::new(),
        };
        for word in words {
            let option = word.strip_prefix("--");
            match (option.unwrap_or(word).split_once('='), option) {
                (Some((key, value)), _) => _ = asked.keys.insert(key, value),
                (None, Some(flag)) => _ = asked.keys.insert(flag, ""),
                (None, None) => asked.names.push(word),
            }
        }
        Ok(asked)
    }

    /// Does something if no other keys are there.
    fn only<R>(
        &self,
        known: &[&str],
        then: impl FnOnce(&Self) -> Result<R, MpsdError>,
    ) -> Result<R, MpsdError> {
        match self.keys.keys().find(|key| !known.contains(key)) {
            Some(key) => refuse(format!("unknown option --{key} (accepted: {known:?})")),
            None => then(self),
        }
    }

    fn get(&self, key: &str) -> Option<&'a str> {
        self.keys.get(key).copied()
    }

    fn server(&self) -> Result<&'a str, MpsdError> {
        let missing = || MpsdError::Refused("--server=NAME is missing".to_owned());
        self.get("server").ok_or_else(missing)
    }

    fn table(&self, columns: &[&str], rows: &[Vec<String>]) -> Result<String, MpsdError> {
        rows::table(self.get("format").unwrap_or("table"), columns, rows)
    }
}

fn create_server(daemon: &Arc<Daemon>, name: &str, asked: &Asked) -> Result<String, MpsdError> {
    asked.only(&["uid", "allowed-devices"], |_| named::valid(name))?;
    let uid = match asked.get("uid").map(str::parse) {
        None => daemon.uid,
        Some(Ok(uid)) => uid,
        Some(Err(_)) => return refuse("--uid takes the number of a user".to_owned()),
    };
    let devices = asked.get("allowed-devices");
    let own = daemon
        .device
        .transact(|state, _| partition::uuid(state, &daemon.device, daemon.row))?;
    if devices.is_some_and(|named| named != "0" && named != own) {
        return refuse(format!("the device of this daemon is 0, {own}"));
    }
    let mut inside = daemon.inside();
    if inside.named.iter().any(|server| server.name == name) {
        return refuse(format!("there is a server {name} already"));
    }
    let row = daemon.start(&mut inside, uid)?;
    let namespace_id = NamespaceId {
        server: name.to_owned(),
        namespace: DEFAULT.to_owned(),
    };
    let socket = NamespaceSocket::open(&daemon.pipe.join(name), answering(daemon, namespace_id))?;
    inside.named.push(Named {
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

fn delete_server(daemon: &Arc<Daemon>, name: &str, asked: &Asked) -> Result<String, MpsdError> {
    let force = asked.only(&["force"], |a| Ok(a.get("force").is_some()))?;
    let mut inside = daemon.inside();
    let at = inside.named.iter().position(|server| server.name == name);
    let at = at.ok_or_else(|| no_server(name))?;
    let row = inside.named[at].row;
    if !force && !query::client_pids(daemon, row)?.is_empty() {
        return refuse(format!("server {name} has clients"));
    }
    inside.named.remove(at);
    let running = inside.servers.iter().position(|s| s.process.row == row);
    if let Some(index) = running {
        watch::stop(daemon, &mut inside, index)?;
    }
    Ok(String::new())
}

fn create_namespace(daemon: &Arc<Daemon>, name: &str, asked: &Asked) -> Result<String, MpsdError> {
    let server = asked.only(&["server"], Asked::server)?;
    named::valid(name)?;
    with_server(daemon, server, |found| {
        if found.namespaces.iter().any(|known| known.name == name) {
            return refuse(format!("server {server} has a namespace {name} already"));
        }
        let namespace_id = NamespaceId {
            server: server.to_owned(),
            namespace: name.to_owned(),
        };
        let folder = daemon.pipe.join(server).join(name);
        found.namespaces.push(Namespace {
            name: name.to_owned(),
            bounds: Wish::default(),
            socket: NamespaceSocket::open(&folder, answering(daemon, namespace_id))?,
        });
        Ok(String::new())
    })
}

fn delete_namespace(daemon: &Arc<Daemon>, name: &str, asked: &Asked) -> Result<String, MpsdError> {
    let server = asked.only(&["server", "force"], Asked::server)?;
    let force = asked.get("force").is_some();
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
            Some(0) => refuse(format!("the namespace {DEFAULT} goes with its server")),
            Some(at) => {
                found.namespaces.remove(at);
                Ok(String::new())
            }
            None => Err(no_namespace(server, name)),
        }
    })
}

/// Sets what the clients of a namespace may have at most.
fn set_bounds(
    daemon: &Arc<Daemon>,
    server: &str,
    name: &str,
    asked: &Asked,
) -> Result<String, MpsdError> {
    const KEYS: [&str; 3] = [
        "pinned-memory-limit",
        "active-thread-percentage",
        "client-priority",
    ];
    asked.only(&[KEYS[0], KEYS[1], KEYS[2], "server"], |_| Ok(()))?;
    let memory = asked.get(KEYS[0]).map(command::valid_limit).transpose()?;
    let percentage = asked
        .get(KEYS[1])
        .map(command::valid_percentage)
        .transpose()?;
    let priority = asked
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

fn terminate(daemon: &Arc<Daemon>, pid: &str) -> Result<String, MpsdError> {
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

fn no_server(name: &str) -> MpsdError {
    MpsdError::Refused(format!("there is no server {name}"))
}

fn no_namespace(server: &str, name: &str) -> MpsdError {
    MpsdError::Refused(format!("server {server} has no namespace {name}"))
}

fn with_server<R>(
    daemon: &Daemon,
    name: &str,
    body: impl FnOnce(&mut Named) -> Result<R, MpsdError>,
) -> Result<R, MpsdError> {
    let mut inside = daemon.inside();
    let mut all = inside.named.iter_mut();
    body(
        all.find(|server| server.name == name)
            .ok_or_else(|| no_server(name))?,
    )
}

/// Every client of a server with a name, by process id, with its namespace.
fn clients(daemon: &Daemon) -> Result<Vec<(u32, NamespaceId)>, MpsdError> {
    let servers: Vec<(u32, String)> = {
        let inside = daemon.inside();
        let named = inside.named.iter();
        named
            .map(|server| (server.row, server.name.clone()))
            .collect()
    };
    let mut found = Vec::new();
    for (row, server) in servers {
        for pid in query::client_pids(daemon, row)? {
            let namespaces_of = &daemon.inside().namespaces_of;
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

fn get(columns: &[&str], row: &[String], field: &str) -> Result<String, MpsdError> {
    match columns.iter().position(|column| *column == field) {
        Some(at) => Ok(format!("{}\n", row[at])),
        None => refuse(format!("unknown field {field:?} (accepted: {columns:?})")),
    }
}

fn server_row(daemon: &Daemon, name: &str) -> Result<Vec<String>, MpsdError> {
    let rows = server_rows(daemon)?;
    let found = rows.into_iter().find(|row| row[0] == name);
    found.ok_or_else(|| no_server(name))
}

/// A row for each server with a name whose process is there.
fn server_rows(daemon: &Daemon) -> Result<Vec<Vec<String>>, MpsdError> {
    let inside = daemon.inside();
    let mut found = Vec::new();
    for server in &inside.named {
        let mut running = inside.servers.iter();
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

fn list_servers(daemon: &Daemon, name: Option<&str>, a: &Asked) -> Result<String, MpsdError> {
    let rows = match name {
        Some(name) => vec![server_row(daemon, name)?],
        None => server_rows(daemon)?,
    };
    a.table(&rows::SERVER, &rows)
}

fn namespace_rows(daemon: &Daemon, only: Option<&str>) -> Result<Vec<Vec<String>>, MpsdError> {
    let servers = server_rows(daemon)?;
    let inside = daemon.inside();
    let mut found = Vec::new();
    for server in inside
        .named
        .iter()
        .filter(|s| only.is_none_or(|only| only == s.name))
    {
        let status = servers.iter().find(|row| row[0] == server.name);
        let status = status.map_or("Gone", |row| &row[3]);
        found.extend(server.namespaces.iter().map(|namespace| {
            let bounds = &namespace.bounds;
            let told = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
            vec![
                namespace.name.clone(),
                server.name.clone(),
                status.to_owned(),
                told(bounds.memory_limit.map(|bytes| format!("{}M", bytes >> 20))),
                told(bounds.percentage.map(|percent| percent.to_string())),
                told(bounds.priority.map(|priority| priority.to_string())),
                namespace.socket.folder().display().to_string(),
            ]
        }));
    }
    Ok(found)
}

fn list_namespaces(daemon: &Daemon, a: &Asked) -> Result<String, MpsdError> {
    a.table(&rows::NAMESPACE, &namespace_rows(daemon, a.get("server"))?)
}

fn list_clients(daemon: &Daemon, a: &Asked) -> Result<String, MpsdError> {
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
