//! The cores on which the threads of a cell run, on the wall clock.

mod support;

use std::sync::{Arc, Mutex, PoisonError};

use gpubench_workloads::clock::thread::{Cores, ReaperCores};
use gpubench_workloads::clock::{Time, WallClock};
use gpubench_workloads::generator::{DeviceError, Reap, run_cell};
use gpubench_workloads::log::LogWriter;

use support::{InstantReap, InstantSubmit, MS, victim_cell};

/// The reaper spins where the driver's threads run, and inherits the core of its issuer.
#[test]
fn a_reaper_leaves_the_core_of_its_issuer() -> Result<(), Box<dyn std::error::Error>> {
    let found = Cores::of_this_thread()?;
    let own = found.list()[0];
    // With a single core both threads share it.
    let is_single = found.list().len() == 1;
    let others = if is_single { found } else { found.without(own) };
    Cores::only(own).apply()?;
    let time: Arc<dyn Time> = Arc::new(WallClock::new());
    let run = victim_cell(time.now_ns(), vec![MS], Some(ReaperCores::Shared(others)));
    let reaper_cores: Arc<Mutex<Vec<u32>>> = Arc::default();
    let noted = Arc::clone(&reaper_cores);
    let reap: Arc<dyn Reap> = Arc::new(InstantReap(move || {
        let found = Cores::of_this_thread().map_err(|error| DeviceError {
            what: error.to_string(),
            code: None,
            sticky: true,
        })?;
        *noted.lock().unwrap_or_else(PoisonError::into_inner) = found.list();
        Ok(())
    }));
    let folder = tempfile::tempdir()?;
    let log = LogWriter::create(&folder.path().join("log"), 1 << 17)?;
    let outcome = run_cell(&time, &run, &mut InstantSubmit(|| {}), &reap, log)?;
    assert_eq!(outcome.failure, None);
    let reaper_cores = reaper_cores.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(*reaper_cores, others.list());
    assert_eq!(Cores::of_this_thread()?.list(), [own], "the issuer stays on its core");
    Ok(())
}
