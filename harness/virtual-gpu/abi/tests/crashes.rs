//! Death at every place of the protocol by which processes share the state: under the lock before
//! and after each step, between granting the clock and telling, and around what lies outside of the
//! lock. Whoever is left goes on as if nothing had been, and nothing of the dead stays.

mod mps_support;

use std::os::unix::process::ExitStatusExt;

use gpubench_virtual_gpu_driver::crash::{ENV, Place};
use gpubench_virtual_gpu_driver::session::TimeMode::{self, Virtual, Wall};
use gpubench_virtual_gpu_driver::shm::Shared;
use gpubench_virtual_gpu_model::state::{EVENTS, Standing};

use mps_support::{Error, Stage, quiet, scene};

/// Passes at which to die: while the context opens, and in the midst of the rounds.
const PASSES: [u64; 4] = [3, 17, 60, 151];
/// Rounds of the one that dies, which never come to their end.
const ROUNDS: usize = 1000;

/// One dies at a pass of a place beside one that goes on.
fn die_at(stage: &Stage, place: Place, pass: u64) -> Result<(), Error> {
    let what = format!("{}:{pass}", place.name());
    let dying = format!("open; churn plain {ROUNDS}");
    let env = [(ENV, what.as_str()), ("GPUBENCH_VIRTUAL_GPU_SAMPLE", "1")];
    let cast = [
        (&env[1..], "open; churn plain 12; close"),
        (&env[..], &dying),
    ];
    let mut clients = stage.clients(&cast)?.into_iter();
    let (stays, dies) = (clients.next().ok_or("one")?, clients.next().ok_or("two")?);
    let said = stays.finish().map_err(|error| format!("{what}: {error}"))?;
    assert_eq!(said, ["0", "0", "0"], "{what}");
    let status = dies.ends()?;
    assert_eq!(status.signal(), Some(9), "{what}: {status}");
    nothing_stays(stage, &what)
}

/// Events that nobody has.
fn free_events(shared: &Shared) -> usize {
    const NOBODY: u32 = 90;
    let free = std::iter::from_fn(|| shared.claim_event(NOBODY)).count();
    shared.free_events_of(NOBODY);
    free
}

fn nothing_stays(stage: &Stage, what: &str) -> Result<(), Error> {
    stage.device.reap_dead_processes()?;
    let left = stage.device.shared().read(|state| {
        [
            state.processes.live().iter().filter(|p| p.pid != 0).count(),
            state.contexts.live().iter().filter(|c| c.live).count(),
            state.streams.live().iter().filter(|s| s.live).count(),
            state.allocations.live().iter().filter(|a| a.live).count(),
            state.stream_waits.live().iter().filter(|h| h.live).count(),
            state
                .participants
                .live()
                .iter()
                .filter(|p| p.standing != Standing::Free)
                .count(),
        ]
    })?;
    assert_eq!(left, [0; 6], "{what}");
    assert_eq!(free_events(stage.device.shared()), EVENTS, "{what}: events");
    Ok(())
}

fn everywhere(test: &str, time: TimeMode, places: &[Place]) -> Result<(), Error> {
    scene(test, time, &quiet("hopper")?, |stage| {
        for &place in places {
            for pass in PASSES {
                // An event is taken once a round.
                let pass = if place == Place::Claimed {
                    pass.div_ceil(10)
                } else {
                    pass
                };
                die_at(stage, place, pass)?;
            }
        }
        Ok(())
    })
}

#[test]
fn whoever_dies_at_any_place_in_virtual_time_holds_nobody_up() -> Result<(), Error> {
    let test = "whoever_dies_at_any_place_in_virtual_time_holds_nobody_up";
    everywhere(test, Virtual, &Place::ALL)
}

#[test]
fn whoever_dies_at_any_place_in_wall_time_holds_nobody_up() -> Result<(), Error> {
    let test = "whoever_dies_at_any_place_in_wall_time_holds_nobody_up";
    // In wall time only processes that reap dead ones grant a turn.
    let places = Place::ALL
        .into_iter()
        .filter(|place| *place != Place::Granted);
    everywhere(test, Wall, &places.collect::<Vec<_>>())
}
