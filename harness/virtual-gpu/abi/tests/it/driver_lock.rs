//! The driver's lock: it costs nothing without contention, callers of all processes wait for each
//! other, and a long call releases it at intervals.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_driver::session::{Session, TimeMode};
use gpubench_virtual_gpu_model::machine::Machine;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Number of calls, and the duration of each.
type Calls = (u32, u64);

fn device(dir: &std::path::Path, time: TimeMode, lock_share: f64) -> Result<Arc<Device>, Error> {
    let mut machine = Machine::load("turing")?;
    machine.host.lock_share = lock_share;
    Session::new(time, 1).create(dir, &machine)?;
    Ok(Arc::new(Device::open(dir)?))
}

/// End of each thread's calls in virtual time, when all start at once.
fn ends_ns(lock_share: f64, threads: &[Calls]) -> Result<Vec<u64>, Error> {
    let dir = tempfile::tempdir()?;
    let announcing = device(dir.path(), TimeMode::Virtual, lock_share)?;
    for id in 0..threads.len() {
        announcing.expect(id as u32)?;
    }
    let work = |id: usize, (calls, cost_ns): Calls| -> Result<u64, Error> {
        announcing.join(id as u32)?;
        for _ in 0..calls {
            announcing.charge_locked(cost_ns)?;
        }
        announcing.catch_up()?;
        let end_ns = announcing.now_ns();
        announcing.leave()?;
        Ok(end_ns)
    };
    std::thread::scope(|scope| {
        let threads = threads.iter().enumerate();
        let threads: Vec<_> =
            threads.map(|(id, &calls)| scope.spawn(move || work(id, calls))).collect();
        let joined = threads.into_iter().map(|thread| {
            let panicked = |_| Error::from("a caller panicked");
            thread.join().map_err(panicked)?
        });
        joined.collect()
    })
}

/// Whether two times differ by less than a call.
fn close(found_ns: u64, wanted_ns: u64) -> bool {
    found_ns.abs_diff(wanted_ns) <= 100_000
}

#[test]
fn callers_wait_for_each_other_only_in_the_locked_share() -> Result<(), Error> {
    let two = [(100, 100_000); 2];
    // Two shares of 0.4 fit side by side, two of 0.6 need 1.2 times as long, two of 1 need 2.
    for (lock_share, wanted_ns) in [(0.4, 10_000_000), (0.6, 12_000_000), (1.0, 20_000_000)] {
        let ends = ends_ns(lock_share, &two)?;
        let good = ends.iter().all(|&end_ns| close(end_ns, wanted_ns));
        assert!(good, "{lock_share}: {ends:?}");
        assert_eq!(ends, ends_ns(lock_share, &two)?, "the order does not depend on the host");
    }
    Ok(())
}

#[test]
fn a_long_call_releases_the_lock_at_intervals() -> Result<(), Error> {
    // A context creation beside allocations: each of these waits for a piece of it only.
    let ends = ends_ns(1.0, &[(1, 80_000_000), (10, 50_000)])?;
    assert!(ends[1] < 12_000_000, "{ends:?}");
    assert!(ends[1] > 9_000_000, "{ends:?}");
    assert!(close(ends[0], 80_500_000), "{ends:?}");
    Ok(())
}

#[test]
fn in_wall_time_callers_of_two_processes_alternate() -> Result<(), Error> {
    let dir = tempfile::tempdir()?;
    let one = device(dir.path(), TimeMode::Wall, 1.0)?;
    let other = Device::open(dir.path())?;
    let begun = Instant::now();
    let work = |device: &Device| device.charge_locked(20_000_000);
    std::thread::scope(|scope| {
        let threads = [scope.spawn(|| work(&one)), scope.spawn(|| work(&other))];
        for thread in threads {
            thread.join().map_err(|_| Error::from("a caller panicked"))??;
        }
        Ok::<(), Error>(())
    })?;
    // Never early; the host decides how late.
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(40), "{took:?}");
    Ok(())
}
