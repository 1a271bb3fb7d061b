//! The hidden entry of a guard process: it waits for the death of its coordinator and undoes what
//! the run left.

use std::ffi::OsString;
use std::io::Read;
use std::sync::mpsc::channel;
use std::time::Duration;

use gpubench_record::ExitCode;

use super::signals::Signals;
use crate::device::lock::GUARD_ARG;
use crate::judge::recovery::IN_ORDER;
use crate::judge::recovery::after_death;
use crate::mechanism::host::RunId;

/// Longest work after a death. A healthy host needs less than 2 s.
const LIMIT: Duration = Duration::from_secs(60);

/// Guards a run until its coordinator has ended; `None` if this process is no guard process.
#[must_use]
pub fn run(argv: &[OsString]) -> Option<u8> {
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
