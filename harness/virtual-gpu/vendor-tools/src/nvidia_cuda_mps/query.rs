//! Queries about servers, clients and devices. Lists have one process id per line, tables the
//! vendor's columns.

use super::MpsError;
use super::daemon::Daemon;
use super::partition::uuid;
use gpubench_virtual_gpu_driver::kernel_log::PCI_BUS;
use gpubench_virtual_gpu_model::mps;
use gpubench_virtual_gpu_model::state::{ServerState, State};

pub fn server_row(daemon: &Daemon, pid: &str) -> Result<u32, MpsError> {
    let shared = daemon.shared();
    let mut servers = shared.servers.iter();
    let found = servers.find(|server| server.process.pid().to_string() == pid);
    let unknown = || MpsError::Refused(format!("there is no MPS server {pid}"));
    found.map(|server| server.process.row).ok_or_else(unknown)
}

/// `get_server_list`.
pub fn servers(daemon: &Daemon) -> String {
    lines(daemon.shared().servers.iter().map(|s| s.process.pid()))
}

/// `get_server_status PID`.
pub fn status(daemon: &Daemon, pid: &str) -> Result<String, MpsError> {
    let row = server_row(daemon, pid)?;
    let status = state_of(daemon, row, ["FAULT", "INITIALIZING", "ACTIVE"])?;
    Ok(format!("{status}\n"))
}

/// State of a server, in the three given words for fault, starting and ready.
pub fn state_of(
    daemon: &Daemon,
    row: u32,
    [fault, starting, ready]: [&'static str; 3],
) -> Result<&'static str, MpsError> {
    let word = daemon.device.transact(|state, _| {
        let server = &state.servers.rows[row as usize];
        if server.state == ServerState::Fault {
            fault
        } else if state.now_ns < server.ready_ns {
            starting
        } else {
            ready
        }
    })?;
    Ok(word)
}

/// `get_client_list PID`.
pub fn clients(daemon: &Daemon, pid: &str) -> Result<String, MpsError> {
    let row = server_row(daemon, pid)?;
    Ok(lines(client_pids(daemon, row)?))
}

/// Number of a client's context; the vendor's daemon uses 0 for the connection.
const CONTEXT: &str = "1";

/// `get_device_client_list [PID]`: the device, then the contexts of its clients, of all servers or
/// of one.
pub fn device_clients(daemon: &Daemon, pid: Option<&str>) -> Result<String, MpsError> {
    let product = &daemon.device.machine().gpu.product;
    let mut out = format!("[0] {PCI_BUS:02x}:00.0, {product}\n");
    for row in rows(daemon, pid)? {
        for client in client_pids(daemon, row)? {
            out += &format!("{client}.{CONTEXT}\n");
        }
    }
    Ok(out)
}

/// `ps [-p PID]`: a table of the clients of all servers, or of the one with this process id.
pub fn ps(daemon: &Daemon, only: Option<&str>) -> Result<String, MpsError> {
    let servers = rows(daemon, None)?;
    let pids = servers.into_iter().map(|row| (row, server_pid(daemon, row)));
    let wanted = |pid: u32| only.is_none_or(|only| only == pid.to_string());
    let servers: Vec<(u32, u32)> = pids.filter(|(_, pid)| wanted(*pid)).collect();
    if servers.is_empty() {
        return Err(MpsError::Refused("Server not found".to_owned()));
    }
    let mut out = row(["PID", "ID", "SERVER", "DEVICE", "NAMESPACE", "COMMAND"]);
    let device = daemon.device.transact(|state, _| uuid(state, &daemon.device, daemon.row))?;
    // The prefix of the UUID that fits the column.
    let device: String = device.chars().take(22).collect();
    for (server, of) in servers {
        for pid in client_pids(daemon, server)? {
            let (pid, of) = (pid.to_string(), of.to_string());
            let (space, command) = (namespace(&pid), command_line(&pid));
            out += &row([&pid, CONTEXT, &of, &device, &space, &command]);
        }
    }
    Ok(out)
}

/// `device_query [PID] [--csv]`: the device as the daemon gives it to servers, and as each server,
/// or one of them, has it.
pub fn device_query(daemon: &Daemon, pid: Option<&str>, as_csv: bool) -> Result<String, MpsError> {
    let uuid = daemon.device.transact(|state, _| uuid(state, &daemon.device, daemon.row))?;
    let product = &daemon.device.machine().gpu.product;
    let bus = format!("0000:{PCI_BUS:02x}.00.00");
    let names = ["Device Ordinal", "PCI IDs", "UUID", "Name", "Attributes"];
    let values = ["0", &bus, &uuid, product, "N/A"];
    let line = |[ordinal, bus, uuid, name, attributes]: [&str; 5]| match as_csv {
        true => format!("{ordinal},{bus},{uuid},{name},{attributes}\n"),
        false => format!("{ordinal:<16}{bus:<15}{uuid:<42}{name:<34}{attributes}\n"),
    };
    let table = |of: &str| format!("{of}\n{}{}", line(names), line(values));
    let servers = rows(daemon, pid)?.into_iter();
    let of_servers = servers.map(|row| table(&format!("Server {}", server_pid(daemon, row))));
    let tables = pid.is_none().then(|| table("Default")).into_iter();
    Ok(tables.chain(of_servers).collect::<Vec<String>>().join("\n"))
}

fn lines(pids: impl IntoIterator<Item = u32>) -> String {
    pids.into_iter().map(|pid| format!("{pid}\n")).collect()
}

/// Rows of all servers, or of the one with this process id.
fn rows(daemon: &Daemon, pid: Option<&str>) -> Result<Vec<u32>, MpsError> {
    match pid {
        Some(pid) => Ok(vec![server_row(daemon, pid)?]),
        None => {
            let shared = daemon.shared();
            Ok(shared.servers.iter().map(|s| s.process.row).collect())
        }
    }
}

fn server_pid(daemon: &Daemon, row: u32) -> u32 {
    let shared = daemon.shared();
    let found = shared.servers.iter().find(|s| s.process.row == row);
    found.map_or(0, |server| server.process.pid())
}

pub fn client_pids(daemon: &Daemon, server: u32) -> Result<Vec<u32>, MpsError> {
    let pids = daemon.device.transact(|state, _| pids(state, server))?;
    Ok(pids)
}

fn pids(state: &State, server: u32) -> Vec<u32> {
    let rows = mps::clients(state, server).into_iter();
    rows.map(|row| state.processes.rows[row as usize].pid).collect()
}

fn row(cells: [&str; 6]) -> String {
    let [pid, id, server, device, namespace, command] = cells;
    format!("{pid:<10}{id:<10}{server:<15}{device:<26}{namespace:<15}{command:<15}\n")
}

/// Number of the process namespace, `-` if unknown.
fn namespace(pid: &str) -> String {
    let link = std::fs::read_link(format!("/proc/{pid}/ns/pid")).unwrap_or_default();
    let text = link.to_string_lossy();
    let number = text.strip_prefix("pid:[").and_then(|rest| rest.strip_suffix(']'));
    number.unwrap_or("-").to_owned()
}

/// The command of a process, `-` if unknown.
pub fn command_line(pid: &str) -> String {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let first = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    match String::from_utf8_lossy(first) {
        name if name.is_empty() => "-".to_owned(),
        name => name.into_owned(),
    }
}
