//! The other programs that gpubench is when it is started in a special way: guard and tenant.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use gpubench_host::device::lock::GUARD_ARG;
use gpubench_host::mechanism::host::RunId;
use gpubench_host::tenant::{PANICKED, TENANT_ARG, USER_VICTIM_ARG};
use gpubench_record::ExitCode;
use gpubench_record::user_victim::{Reports, UserVictim};
use gpubench_workloads::user_victim::process_tree;
use rustix::process::{Signal, set_parent_process_death_signal};

use super::signals::Signals;
use crate::verbs::recovery::{IN_ORDER, after_death};

// The hidden entry of a guard process: it waits for the death of its coordinator and undoes what
// the run left.

/// Longest work after a death. A healthy host needs less than 2 s.
const LIMIT: Duration = Duration::from_secs(60);

/// Guards a run until its coordinator has ended; `None` if this process is no guard process.
pub fn run_guard(argv: &[OsString]) -> Option<u8> {
    if argv.get(1)? != GUARD_ARG {
        return None;
    }
    let run: Option<RunId> = argv.get(2).and_then(|run| run.to_str()?.parse().ok());
    Some(match run.map(|run| guard(&run)) {
        Some(Ok(())) => ExitCode::Done.code(),
        Some(Err(_)) | None => ExitCode::Internal.code(),
    })
}

fn guard(run: &RunId) -> std::io::Result<()> {
    // Signals that end a coordinator are sent to guard processes too, by a service manager or by
    // name. With handlers that do nothing they leave this process alive until its work is done.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let _entered = runtime.enter();
    let _caught = Signals::catch()?;
    let mut received = Vec::new();
    // The pipe ends with the coordinator; a read error is an end too.
    let _ = std::io::stdin().lock().read_to_end(&mut received);
    if received != IN_ORDER {
        let (done, ended) = channel();
        let run = run.clone();
        std::thread::spawn(move || {
            after_death(&run);
            done.send(())
        });
        // A driver call that hangs must not keep this process; the journal has what is left.
        let _ = ended.recv_timeout(LIMIT);
    }
    Ok(())
}

// The hidden entry of a tenant: the coordinator starts this binary, so both have the same version.
// A tenant exchanges wire messages over its pipes and parses no command line.

/// The status with which a panic ends this process.
pub fn panic_status(argv: &[OsString]) -> u8 {
    tenant_verb(argv).map_or(ExitCode::Internal.code(), |_| PANICKED)
}

fn tenant_verb(argv: &[OsString]) -> Option<&OsString> {
    argv.get(1).filter(|verb| *verb == TENANT_ARG || *verb == USER_VICTIM_ARG)
}

/// Serves the coordinator until it ends the tenant; `None` if this process is not a tenant.
pub fn run_tenant(argv: &[OsString]) -> Option<u8> {
    let verb = tenant_verb(argv)?;
    // The kernel kills this tenant when the coordinator dies. A coordinator that dies before this
    // call, or a kernel that refuses it, leaves the end of standard input to end the tenant.
    let _refused = set_parent_process_death_signal(Some(Signal::KILL));
    if verb == USER_VICTIM_ARG {
        return Some(user_victim(&argv[2..]));
    }
    // Under some mechanisms tenants share a process; the other tenants use sockets.
    if let (Some(path), Some(count)) = (argv.get(2), argv.get(3)) {
        let count = count.to_str().and_then(|text| text.parse().ok()).unwrap_or(0);
        if gpubench_workloads::child::serve_beside(Path::new(path), count).is_err() {
            return Some(ExitCode::Internal.code());
        }
    }
    let stdin = std::io::stdin().lock();
    let status = match replies() {
        Ok(replies) => gpubench_workloads::child::tenant_main(stdin, replies),
        // Without a pipe for replies the exit code is the only report.
        Err(_) => return Some(ExitCode::Internal.code()),
    };
    Some(u8::try_from(status).unwrap_or(ExitCode::Internal.code()))
}

/// A tenant that runs a program of the user.
fn user_victim(arguments: &[OsString]) -> u8 {
    let internal = ExitCode::Internal.code();
    let (Some(victim), Ok(replies)) = (program(arguments), replies()) else {
        return internal;
    };
    if process_tree::adopt_orphans().is_err() {
        return internal;
    }
    let stdin = std::io::stdin().lock();
    let status = gpubench_workloads::user_victim::serve(&victim, stdin, replies);
    u8::try_from(status).unwrap_or(internal)
}

/// The program in the coordinator's arguments; `None` for other arguments.
fn program(arguments: &[OsString]) -> Option<UserVictim> {
    let [reports, ready_ns, command] = arguments else {
        return None;
    };
    Some(UserVictim {
        command: command.to_str()?.to_owned(),
        reports: Reports::find(reports.to_str()?)?,
        ready_ns: ready_ns.to_str()?.parse().ok()?,
    })
}

/// The pipe to the coordinator, moved away from standard output. Output of kernels goes to standard
/// output, which is discarded: it must not be read as a reply.
fn replies() -> std::io::Result<File> {
    let stdout = std::io::stdout();
    let replies = File::from(stdout.as_fd().try_clone_to_owned()?);
    rustix::stdio::dup2_stdout(File::options().write(true).open("/dev/null")?)?;
    Ok(replies)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::run_tenant;

    #[test]
    fn only_the_first_argument_selects_a_tenant() {
        for line in [&["gpubench"][..], &["gpubench", "list", "__tenant"], &[]] {
            let argv: Vec<OsString> = line.iter().map(OsString::from).collect();
            assert_eq!(run_tenant(&argv), None);
        }
    }
}
