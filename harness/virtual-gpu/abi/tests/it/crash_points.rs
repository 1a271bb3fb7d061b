//! Kills a process at every crash point of the shared-state protocol: under the lock before and
//! after each step, between granting the clock and waking, and outside the lock. The remaining
//! processes continue, and nothing of the dead process stays.

use std::os::unix::process::ExitStatusExt;

use gpubench_virtual_gpu_driver::crash::{ENV, Place};
use gpubench_virtual_gpu_driver::session::TimeMode::{self, Virtual, Wall};
use gpubench_virtual_gpu_driver::shm::Shared;
use gpubench_virtual_gpu_model::state::{EVENTS, ParticipantStatus};

use crate::mps_support::{Error, Stage, quiet, scene};

/// Passes of a crash point at which the process dies: while its context opens, and during the
/// rounds.
const PASSES: [u64; 4] = [3, 17, 60, 151];
/// Rounds of the dying process, more than it reaches.
const ROUNDS: usize = 1000;

/// Kills one process at a pass of a crash point, beside one that continues.
fn die_at(stage: &Stage, place: Place, pass: u64) -> Result<(), Error> {
    let what = format!("{}:{pass}", place.name());
    let dying = format!("open; recreate plain {ROUNDS}");
    let env = [(ENV, what.as_str()), ("GPUBENCH_VIRTUAL_GPU_SAMPLE", "1")];
    let cast = [(&env[1..], "open; recreate plain 80; close"), (&env[..], &dying)];
    let mut clients = stage.clients(&cast)?.into_iter();
    let (stays, dies) = (clients.next().ok_or("one")?, clients.next().ok_or("two")?);
    let output = stays.finish().map_err(|error| format!("{what}: {error}"))?;
    assert_eq!(output, ["0", "0", "0"], "{what}");
    let status = dies.ends()?;
    assert_eq!(status.signal(), Some(9), "{what}: {status}");
    assert_nothing_left(stage, &what)
}

/// Events that are not allocated.
fn free_events(shared: &Shared) -> usize {
    const UNUSED_SLOT: u32 = 90;
    let free = std::iter::from_fn(|| shared.claim_event(UNUSED_SLOT)).count();
    shared.free_events_of(UNUSED_SLOT);
    free
}

fn assert_nothing_left(stage: &Stage, what: &str) -> Result<(), Error> {
    stage.device.reap_dead_processes()?;
    let left = stage.device.shared().read(|state| {
        [
            state.processes.live().iter().filter(|p| p.pid != 0).count(),
            state.contexts.live().iter().filter(|c| c.live).count(),
            state.streams.live().iter().filter(|s| s.live).count(),
            state.allocations.live().iter().filter(|a| a.live).count(),
            state
                .participants
                .live()
                .iter()
                .filter(|p| p.status != ParticipantStatus::Free)
                .count(),
        ]
    })?;
    assert_eq!(left, [0; 5], "{what}");
    assert_eq!(free_events(stage.device.shared()), EVENTS, "{what}: events");
    Ok(())
}

fn die_at_all(test: &str, time: TimeMode, places: &[Place]) -> Result<(), Error> {
    scene(test, time, &quiet("hopper")?, |stage| {
        for &place in places {
            for pass in PASSES {
                // An event is allocated once a round.
                let pass = if place == Place::Claimed { pass.div_ceil(10) } else { pass };
                die_at(stage, place, pass)?;
            }
        }
        Ok(())
    })
}

#[test]
fn a_death_at_any_crash_point_stalls_no_process_in_virtual_time() -> Result<(), Error> {
    die_at_all(test_name!(), Virtual, &Place::ALL)
}

#[test]
fn a_death_at_any_crash_point_stalls_no_process_in_wall_time() -> Result<(), Error> {
    // In wall time only processes that reap dead ones grant the clock.
    let places = Place::ALL.into_iter().filter(|place| *place != Place::Granted);
    die_at_all(test_name!(), Wall, &places.collect::<Vec<_>>())
}
