//! Lists of servers and clients.

use super::arguments::Arguments;
use crate::nvidia_cuda_mps::daemon::Daemon;
use crate::nvidia_cuda_mps::named::{DEFAULT, NamespaceId};
use crate::nvidia_cuda_mps::{MpsError, command, query, rows};

pub(super) fn clients(daemon: &Daemon) -> Result<Vec<(u32, NamespaceId)>, MpsError> {
    let servers: Vec<(u32, String)> = {
        let shared = daemon.shared();
        let named = shared.named.iter();
        named.map(|server| (server.row, server.name.clone())).collect()
    };
    let mut found = Vec::new();
    for (row, server) in servers {
        for pid in query::client_pids(daemon, row)? {
            let namespaces_of = &daemon.shared().namespaces_of;
            let namespace =
                namespaces_of.get(&pid).map_or(DEFAULT, |namespace_id| &namespace_id.namespace);
            let namespace_id =
                NamespaceId { server: server.clone(), namespace: namespace.to_owned() };
            found.push((pid, namespace_id));
        }
    }
    Ok(found)
}

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

pub(super) fn list_servers(daemon: &Daemon, a: &Arguments) -> Result<String, MpsError> {
    a.table(&rows::SERVER, &server_rows(daemon)?)
}

pub(super) fn list_clients(daemon: &Daemon, a: &Arguments) -> Result<String, MpsError> {
    let only = a.get("server");
    let mut found = clients(daemon)?;
    found.retain(|(_, namespace_id)| only.is_none_or(|only| only == namespace_id.server));
    let row = |(pid, namespace_id): (u32, NamespaceId)| {
        let pid = pid.to_string();
        let command = query::command_line(&pid);
        vec![pid, namespace_id.server, command::DEVICE.to_owned(), namespace_id.namespace, command]
    };
    let rows: Vec<Vec<String>> = found.into_iter().map(row).collect();
    a.table(&rows::CLIENT, &rows)
}
