//! Virtual time between threads: announcements, parks and stalls.

use std::sync::Arc;
use std::time::Duration;

use gpubench_virtual_gpu_driver::device::{Device, DeviceError};
use gpubench_virtual_gpu_driver::session::{Session, TimeMode};
use gpubench_virtual_gpu_model::machine::Machine;

type Error = Box<dyn std::error::Error + Send + Sync>;

fn device(dir: &std::path::Path, stall: Duration) -> Result<Arc<Device>, Error> {
    let machine = Machine::load("turing")?;
    let session = Session { stall, ..Session::new(TimeMode::Virtual, 7) };
    session.create(dir, &machine)?;
    Ok(Arc::new(Device::open(dir)?))
}

#[test]
fn an_unannounced_participant_is_refused() -> Result<(), Error> {
    let dir = tempfile::tempdir()?;
    let device = device(dir.path(), Duration::from_secs(10))?;
    assert!(matches!(device.join(3), Err(DeviceError::NotExpected(3))));
    device.expect(3)?;
    assert!(matches!(device.expect(3), Err(DeviceError::NotExpected(3))));
    Ok(())
}

#[test]
fn an_unpark_before_a_park_is_kept() -> Result<(), Error> {
    let dir = tempfile::tempdir()?;
    let device = device(dir.path(), Duration::from_secs(10))?;
    device.expect(0)?;
    device.expect(1)?;
    let sleeper = Arc::clone(&device);
    let thread = std::thread::spawn(move || -> Result<u64, Error> {
        sleeper.join(1)?;
        sleeper.park()?;
        let woken = sleeper.now_ns();
        sleeper.leave()?;
        Ok(woken)
    });
    device.join(0)?;
    device.sleep_until(5_000_000)?;
    device.unpark(1)?;
    device.leave()?;
    let woken = thread.join().map_err(|_| "the sleeper panicked")??;
    assert!((5_000_000..5_001_000).contains(&woken), "{woken}");
    Ok(())
}

#[test]
fn a_stall_is_reported_with_its_thread() -> Result<(), Error> {
    let dir = tempfile::tempdir()?;
    let device = device(dir.path(), Duration::from_millis(300))?;
    device.expect(0)?;
    device.expect(1)?;
    let blocker = Arc::clone(&device);
    let (release, held) = std::sync::mpsc::channel::<()>();
    let builder = std::thread::Builder::new().name("blocker".to_owned());
    let thread = builder.spawn(move || -> Result<(), Error> {
        blocker.join(1)?;
        // Blocks without the model's knowledge.
        held.recv()?;
        Ok(())
    })?;
    device.join(0)?;
    let begun = std::time::Instant::now();
    let message = match device.sleep_until(1_000_000) {
        Err(DeviceError::Stalled(message)) => message,
        other => return Err(format!("expected a stall, got {other:?}").into()),
    };
    let elapsed = begun.elapsed();
    // The stall limit, checked every tenth of a second, plus a margin for a busy host.
    assert!(elapsed < Duration::from_secs(3), "reported after {elapsed:?}");
    release.send(())?;
    thread.join().map_err(|_| "the blocker panicked")??;
    for part in ["participant 1 runs", "\"blocker\"", "state S", "system call 202"] {
        assert!(message.contains(part), "{message:?} should contain {part:?}");
    }
    Ok(())
}
