//! On which cores the threads of a part run, by the wall clock.

use std::sync::{Arc, Mutex, PoisonError};

use gpubench_record::LoadSpec;
use gpubench_workloads::clock::thread::Cores;
use gpubench_workloads::clock::{Time, WallClock};
use gpubench_workloads::generator::{DeviceError, Part, Reap, Submit, play};
use gpubench_workloads::log::LogWriter;

const MS: u64 = 1_000_000;

/// A device that serves at once and notes on which cores its reaper may run.
#[derive(Debug, Default, Clone)]
struct Noting(Arc<Mutex<Vec<u32>>>);

impl Submit for Noting {
    fn submit(&mut self, _slot: usize) -> Result<(), DeviceError> {
        Ok(())
    }

    fn is_idle(&mut self) -> Result<bool, DeviceError> {
        Ok(true)
    }

    fn slots(&self) -> usize {
        8
    }
}

impl Reap for Noting {
    fn enter_thread(&self) -> Result<(), DeviceError> {
        let found = Cores::of_this_thread().map_err(|error| DeviceError {
            what: error.to_string(),
            code: None,
            sticky: true,
        })?;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = found.list();
        Ok(())
    }

    fn wait(&self, _slot: usize) -> Result<(), DeviceError> {
        Ok(())
    }

    fn gpu_ns(&self, _slot: usize) -> Result<u64, DeviceError> {
        Ok(1)
    }
}

/// The reaper spins where the driver's threads do, and is born on the core of its issuer.
#[test]
fn a_reaper_leaves_the_core_of_its_issuer() -> Result<(), Box<dyn std::error::Error>> {
    let found = Cores::of_this_thread()?;
    let [own, _, ..] = found.list()[..] else {
        // With one core there is nowhere to go.
        return Ok(());
    };
    let others = found.without(own);
    Cores::only(own).apply()?;
    let time: Arc<dyn Time> = Arc::new(WallClock::new());
    let part = Part {
        t0_ns: time.now_ns() + MS,
        load: LoadSpec::Victim {
            warmup_end_ns: MS,
            closed_end_ns: 2 * MS,
            open_start_ns: 3 * MS,
            open_end_ns: 5 * MS,
            rate_per_s: 1_000.0,
            bursts: None,
            seed: 1,
            outstanding_max: 8,
        },
        arrivals_ns: vec![MS],
        issuer: 1,
        reaper: 2,
        reaper_cores: Some(others),
        answers: &[],
    };
    let folder = tempfile::tempdir()?;
    let log = LogWriter::create(&folder.path().join("log"), 1 << 17)?;
    let mut device = Noting::default();
    let reap: Arc<dyn Reap> = Arc::new(device.clone());
    let outcome = play(&time, &part, &mut device, &reap, log)?;
    assert_eq!(outcome.failure, None);
    let noted = device.0.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(*noted, others.list());
    assert_eq!(
        Cores::of_this_thread()?.list(),
        [own],
        "the issuer stays on it"
    );
    Ok(())
}
