//! Virtual time between threads: the order does not depend on the host.

use std::sync::Arc;
use std::time::Duration;

use gpubench_virtual_gpu_driver::device::{Device, DeviceError};
use gpubench_virtual_gpu_driver::session::{Session, TimeMode};
use gpubench_virtual_gpu_model::machine::Machine;
use gpubench_virtual_gpu_model::state::{Context, Op, OpKind, Stream};

type Error = Box<dyn std::error::Error + Send + Sync>;

fn device(dir: &std::path::Path, stall: Duration) -> Result<Arc<Device>, Error> {
    let machine = Machine::load("turing")?;
    let session = Session { stall, ..Session::new(TimeMode::Virtual, 7) };
    session.create(dir, &machine)?;
    Ok(Arc::new(Device::open(dir)?))
}

/// A context with one stream; returns the stream's number.
fn open_stream(device: &Device) -> Result<u32, Error> {
    let process = device.process()?;
    let stream = device.transact(|state, _| {
        let context = state.contexts.claim(|c| !c.live)?;
        let group = context as u32;
        state.contexts.rows[context] = Context { live: true, process, group, ..Context::default() };
        let stream = state.streams.claim(|s| !s.live)?;
        state.streams.rows[stream] = Stream { live: true, context: group, ..Stream::default() };
        Some(stream as u32)
    })?;
    stream.ok_or_else(|| "no room".into())
}

/// Closed loop of `requests` kernels; returns the completion times.
fn tenant(device: &Device, id: u32, requests: u64) -> Result<Vec<u64>, Error> {
    device.join(id)?;
    let stream = open_stream(device)?;
    let mut stamps = Vec::new();
    for request in 0..requests {
        device.charge(device.machine().host.launch_ns)?;
        let alone_ns = 200_000 + u64::from(id) * 1_000 + request % 7 * 13;
        let seq = device.submit(stream, Op { kind: OpKind::Kernel, alone_ns, ..Op::default() })?;
        device.wait_stream(stream, seq)?;
        stamps.push(device.now_ns());
    }
    device.leave()?;
    Ok(stamps)
}

fn run(order: &[u32], requests: u64) -> Result<Vec<Vec<u64>>, Error> {
    let dir = tempfile::tempdir()?;
    let device = device(dir.path(), Duration::from_secs(10))?;
    for id in 0..8 {
        device.expect(id)?;
    }
    let mut threads = Vec::new();
    for &id in order {
        let device = Arc::clone(&device);
        threads.push((id, std::thread::spawn(move || tenant(&device, id, requests))));
    }
    let mut out = vec![Vec::new(); 8];
    for (id, thread) in threads {
        out[id as usize] = thread.join().map_err(|_| "a tenant panicked")??;
    }
    Ok(out)
}

#[test]
fn stamps_do_not_depend_on_the_order_of_starts() -> Result<(), Error> {
    let first = run(&[0, 1, 2, 3, 4, 5, 6, 7], 200)?;
    let second = run(&[7, 3, 5, 1, 6, 2, 0, 4], 200)?;
    assert_eq!(first, second);
    assert!(first.iter().all(|stamps| stamps.windows(2).all(|pair| pair[0] < pair[1])));
    Ok(())
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
