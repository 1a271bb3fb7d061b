//! The commands of the daemon, as in nvidia-cuda-mps-control(1). Errors are part of the answer,
//! because the front end's status does not show them.
//!
//! Answers are those of the vendor's daemon on an H100 80GB HBM3 (driver 580.159.04, 2026-11-22),
//! in the same columns. Answers without a recorded one have wording of our own.

use super::daemon::Daemon;
use super::{MpsError, act, partition, query, refuse};
use gpubench_virtual_gpu_driver::host_process::monotonic_ns;
use gpubench_virtual_gpu_driver::placement;
use gpubench_virtual_gpu_model::mps;
use gpubench_virtual_gpu_model::state::{MpsDaemon, MpsServer, State};

/// The only device of a daemon, by its number in commands.
pub const DEVICE: &str = "0";

pub fn answer(daemon: &Daemon, words: &[&str]) -> String {
    // Lists contain live processes only.
    let alive = daemon.device.reap_dead_processes().map_err(MpsError::from);
    match alive.and_then(|()| run(daemon, words)) {
        Ok(text) => text,
        Err(error) => format!("{error}\n"),
    }
}

fn run(daemon: &Daemon, words: &[&str]) -> Result<String, MpsError> {
    match words {
        ["get_server_list"] => Ok(query::servers(daemon)),
        ["get_server_status", pid] => query::status(daemon, pid),
        ["get_client_list", pid] => query::clients(daemon, pid),
        ["get_device_client_list"] => query::device_clients(daemon, None),
        ["get_device_client_list", pid] => query::device_clients(daemon, Some(pid)),
        ["ps"] => query::ps(daemon, None),
        ["ps", "-p", pid] => query::ps(daemon, Some(pid)),
        ["device_query"] => query::device_query(daemon, None, false),
        ["device_query", "--csv"] => query::device_query(daemon, None, true),
        ["device_query", pid] => query::device_query(daemon, Some(pid), false),
        ["device_query", pid, "--csv"] => query::device_query(daemon, Some(pid), true),
        ["start_server", "-uid", uid] => start_server(daemon, uid),
        ["terminate_client", server, client] => terminate(daemon, server, client),
        ["quit"] => quit(daemon, None),
        ["quit", "-t", seconds] => quit(daemon, Some(seconds)),
        ["sm_partition", "add", gpu, chunks] => partition::add(daemon, gpu, chunks),
        // A daemon without static partitions does not have this command.
        ["lspart"] if daemon.static_partitions => partition::list(daemon),
        _ => setting(daemon, words),
    }
}

/// The commands that set and get limits.
fn setting(daemon: &Daemon, words: &[&str]) -> Result<String, MpsError> {
    match words {
        ["get_default_active_thread_percentage"] => {
            of_daemon(daemon, |row| Ok(as_percentage(row.percentage)))
        }
        ["set_default_active_thread_percentage", text] => {
            let percentage = valid_percentage(text)?;
            of_daemon(daemon, |row| {
                row.percentage = percentage;
                Ok(as_percentage(row.percentage))
            })
        }
        ["get_active_thread_percentage", pid] => {
            of_server(daemon, pid, |row| as_percentage(row.percentage))
        }
        ["set_active_thread_percentage", pid, text] => {
            let percentage = valid_percentage(text)?;
            of_server(daemon, pid, |row| {
                row.percentage = percentage;
                as_percentage(row.percentage)
            })
        }
        ["get_default_device_pinned_mem_limit", DEVICE] => {
            of_daemon(daemon, |row| Ok(as_limit(row.memory_limit)))
        }
        ["set_default_device_pinned_mem_limit", DEVICE, text] => {
            let limit = valid_limit(text)?;
            of_daemon(daemon, |row| {
                row.memory_limit = limit;
                Ok(String::new())
            })
        }
        ["get_device_pinned_mem_limit", pid, DEVICE] => {
            of_server(daemon, pid, |row| as_limit(row.memory_limit))
        }
        ["set_device_pinned_mem_limit", pid, DEVICE, text] => {
            let limit = valid_limit(text)?;
            of_server(daemon, pid, |row| {
                row.memory_limit = limit;
                String::new()
            })
        }
        ["get_default_client_priority"] => {
            of_daemon(daemon, |row| Ok(format!("{}\n", row.priority)))
        }
        ["set_default_client_priority", text] => of_daemon(daemon, |row| {
            row.priority = valid_priority(text)?;
            Ok(String::new())
        }),
        _ => refuse(format!("Unknown command \"{}\"", words.join(" "))),
    }
}

fn start_server(daemon: &Daemon, uid: &str) -> Result<String, MpsError> {
    let Ok(uid) = uid.parse() else {
        return refuse(format!("{uid:?} is not a user id"));
    };
    daemon.server(uid).map(|_| String::new())
}

fn terminate(daemon: &Daemon, server: &str, client: &str) -> Result<String, MpsError> {
    let row = query::server_row(daemon, server)?;
    Ok(match terminate_in(daemon, row, client)? {
        true => "0\n".to_owned(),
        false => format!("Invalid process {client}!\n1\n"),
    })
}

/// Ends the work of a client of the server in a row; false if it has no such client.
pub fn terminate_in(daemon: &Daemon, row: u32, client: &str) -> Result<bool, MpsError> {
    let found = act(&daemon.device, |state| {
        let process = process_row(state, client)?;
        let rules = daemon.device.rules();
        Some(mps::terminate(state, rules, row, process)).filter(|ended| *ended)
    })?;
    Ok(found.is_some())
}

fn process_row(state: &State, pid: &str) -> Option<u32> {
    let pid: u32 = pid.parse().ok().filter(|pid| *pid != 0)?;
    let mut rows = state.processes.live().iter();
    let found = rows.position(|process| process.pid == pid);
    found.map(|row| row as u32)
}

/// Ends the daemon once its clients have left, or by force after a time. The answer is the end of
/// the connection, so the front end waits until the daemon has ended.
pub fn quit(daemon: &Daemon, seconds: Option<&str>) -> Result<String, MpsError> {
    let at = match seconds.map(str::parse::<u32>) {
        None => u64::MAX,
        Some(Ok(seconds)) => monotonic_ns() + u64::from(seconds) * 1_000_000_000,
        Some(Err(_)) => return refuse("quit -t takes a whole number of seconds".to_owned()),
    };
    let mut shared = daemon.shared();
    // A later command can only advance the deadline.
    shared.quit_ns = Some(shared.quit_ns.map_or(at, |before| before.min(at)));
    daemon.changed.notify_all();
    drop(shared);
    loop {
        std::thread::park();
    }
}

fn of_daemon(
    daemon: &Daemon,
    body: impl FnOnce(&mut MpsDaemon) -> Result<String, MpsError>,
) -> Result<String, MpsError> {
    act(&daemon.device, |state| body(&mut state.daemons.rows[daemon.row as usize]))?
}

fn of_server(
    daemon: &Daemon,
    pid: &str,
    body: impl FnOnce(&mut MpsServer) -> String,
) -> Result<String, MpsError> {
    let row = query::server_row(daemon, pid)?;
    let text = act(&daemon.device, |state| body(&mut state.servers.rows[row as usize]))?;
    Ok(text)
}

/// An active-thread percentage: more than 0, at most 100, truncated to an integer.
pub fn percentage(text: &str) -> Option<u32> {
    let value: f64 = text.trim().parse().ok()?;
    (value > 0.0 && value <= 100.0).then(|| (value as u32).max(1))
}

/// [`percentage`], or an error with the accepted range.
pub fn valid_percentage(text: &str) -> Result<u32, MpsError> {
    let why = || MpsError::Refused(format!("{text:?} is not a percentage: accepted is 1 to 100"));
    percentage(text).ok_or_else(why)
}

/// 0 for normal and 1 for below normal, or an error with the accepted values.
pub fn valid_priority(text: &str) -> Result<u32, MpsError> {
    match text {
        "0" => Ok(0),
        "1" => Ok(1),
        other => refuse(format!("{other:?} is not a priority: accepted is 0 or 1")),
    }
}

fn as_percentage(percentage: u32) -> String {
    format!("{:.1}\n", f64::from(percentage))
}

/// A memory limit, or an error with the accepted format.
pub fn valid_limit(text: &str) -> Result<u64, MpsError> {
    let why = || {
        MpsError::Refused(format!(
            "{text:?} is not a size: accepted is a number with a unit, such as 2G or 512M"
        ))
    };
    placement::bytes(text).ok_or_else(why)
}

/// A limit in the format of the commands; without a limit the answer is empty.
fn as_limit(bytes: u64) -> String {
    const GIB: u64 = 1 << 30;
    match bytes {
        0 => String::new(),
        bytes if bytes.is_multiple_of(GIB) => format!("{}G\n", bytes / GIB),
        bytes => format!("{}M\n", bytes >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::{as_limit, percentage};

    #[test]
    fn percentages_are_within_bounds_and_whole() {
        for (text, want) in [
            ("50", Some(50)),
            ("33.9", Some(33)),
            ("0.5", Some(1)),
            ("100", Some(100)),
            ("0", None),
            ("101", None),
            ("half", None),
        ] {
            assert_eq!(percentage(text), want, "{text}");
        }
    }

    #[test]
    fn a_limit_is_printed_as_it_was_set() {
        for (set, printed) in [("4G", "4G\n"), ("1536M", "1536M\n"), ("0", "")] {
            let bytes = gpubench_virtual_gpu_driver::placement::bytes(set);
            assert_eq!(bytes.map(as_limit).as_deref(), Some(printed));
        }
    }
}
