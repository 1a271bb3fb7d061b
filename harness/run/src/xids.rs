//! The device's counts of memory errors, and its Xid errors from two sources: NVML's events, which
//! carry the number, and the lines of the kernel's log, which have the time and name the process
//! and the MIG instance.
//!
//! NVML keeps no event for a listener that registers later. An event set borrows the library, so
//! one thread owns both.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use gpubench_host::device::Nvml;
use gpubench_record::{EccCounts, EccSpan, XidLine};
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::event::EventSet;

use super::{KernelLog, RunError, RunHandles};

/// NVML's number for an event without an Xid number (`nvml.h`, `nvmlEventData_t.eventData`).
const UNKNOWN: u32 = 999;

/// Wait for late events on the wall clock: the driver reports an Xid from an interrupt, and a
/// tenant's answer may arrive before it.
const LATE_WALL_MS: u32 = 5;

/// Longest wait for the thread that listens.
const LIMIT: Duration = Duration::from_secs(30);

/// The Xids since the last request, or why they are unknown.
type Drained = Result<Vec<u32>, String>;

/// Both sources of Xids of one run.
pub struct XidMonitor {
    handles: RunHandles,
    /// Or why the driver reports no Xids.
    watch: Result<XidWatch, String>,
    /// Absent where it is not readable.
    kernel_log: Option<KernelLog>,
    /// Memory errors at the last reading, or why they are unknown.
    memory_errors: Result<EccCounts, String>,
}

/// Xids since the last call; absent without the source.
#[derive(Debug, Default)]
pub struct Xids {
    pub numbers: Option<Vec<u32>>,
    /// Their lines of the kernel's log.
    pub lines: Option<Vec<XidLine>>,
    /// Why there are no numbers, if there are none.
    pub failure: Option<String>,
}

impl XidMonitor {
    pub async fn start(
        handles: &RunHandles,
        kernel_log: Option<KernelLog>,
    ) -> Result<Self, RunError> {
        let is_virtual = handles.setup.clock.is_virtual();
        let nvml = Arc::clone(&handles.setup.nvml);
        let started = move || XidWatch::start(&nvml, is_virtual);
        let started = handles.waits.blocking("registering for Xids", LIMIT, started);
        let watch = started.await?;
        if let Err(text) = &watch {
            handles.recorder.warning(text.clone())?;
        }
        Ok(Self {
            handles: handles.clone(),
            watch,
            kernel_log,
            memory_errors: memory_errors(handles).await?,
        })
    }

    /// The counts of memory errors at the last call and now: an error between two cells counts in
    /// the later one. An error says why they are unknown.
    pub async fn memory_errors(&mut self) -> Result<Result<EccSpan, String>, RunError> {
        let now = memory_errors(&self.handles).await?;
        let before = std::mem::replace(&mut self.memory_errors, now.clone());
        Ok(before.and_then(|before| now.map(|after| EccSpan { before, after })))
    }

    /// The Xids since the last call. `services` are processes of the mechanism itself, to which
    /// lines are attributed; `what` names the cell or trial in a warning.
    pub async fn drain(&mut self, what: &str, services: &[u32]) -> Result<Xids, RunError> {
        let numbers = self.numbers(what).await?;
        // The line of an event is logged before the event is sent.
        let lines = self.lines(what, services)?;
        Ok(match numbers {
            Ok(numbers) => Xids { numbers: Some(numbers), lines, failure: None },
            Err(failure) => Xids { numbers: None, lines, failure: Some(failure) },
        })
    }

    async fn numbers(&self, what: &str) -> Result<Result<Vec<u32>, String>, RunError> {
        let watch = match &self.watch {
            Ok(watch) => watch.clone(),
            Err(failure) => return Ok(Err(failure.clone())),
        };
        let waits = &self.handles.waits;
        let drained = waits.blocking("reading Xids from NVML", LIMIT, move || watch.drain());
        match drained.await? {
            Ok(xids) => Ok(Ok(xids)),
            Err(error) => {
                let text = format!("NVML reports no more Xids: {error}");
                self.handles.recorder.warning(format!("{what}: {text}"))?;
                Ok(Err(text))
            }
        }
    }

    /// After an error the log is not read again.
    fn lines(&mut self, what: &str, services: &[u32]) -> Result<Option<Vec<XidLine>>, RunError> {
        let Some(log) = &mut self.kernel_log else { return Ok(None) };
        match log.drain() {
            Ok(mut lines) => {
                for line in log.take_unknown() {
                    let text = format!("{what}: no parser knows this line of the driver: {line}");
                    self.handles.recorder.warning(text)?;
                }
                if log.has_our_pids() {
                    self.handles.registry.attribute(&mut lines, services);
                }
                if self.handles.setup.clock.is_virtual() {
                    // Records of equal runs are equal, but process ids differ.
                    lines.iter_mut().for_each(|line| line.pid = None);
                }
                Ok(Some(lines))
            }
            Err(error) => {
                self.kernel_log = None;
                let text = format!("{what}: the kernel's log cannot be read any more: {error}");
                self.handles.recorder.warning(text)?;
                Ok(None)
            }
        }
    }
}

async fn memory_errors(handles: &RunHandles) -> Result<Result<EccCounts, String>, RunError> {
    let doing = "reading memory errors from NVML";
    let counts = handles.nvml(doing, Nvml::memory_errors).await?;
    Ok(counts.map_err(|error| format!("NVML: {error}")))
}

/// Listens to one device until every clone is dropped.
#[derive(Debug, Clone)]
struct XidWatch {
    requests: Sender<Sender<Drained>>,
}

impl XidWatch {
    /// Starts listening.
    /// Fails when the device or its driver reports no Xids, as under WSL.
    fn start(nvml: &Arc<Nvml>, is_virtual_time: bool) -> Result<Self, String> {
        // In virtual time no event is late.
        let wait_ms = if is_virtual_time { 0 } else { LATE_WALL_MS };
        let (requests, received) = channel();
        let (ready, is_ready) = channel();
        let nvml = Arc::clone(nvml);
        std::thread::Builder::new()
            .name("xids".to_owned())
            .spawn(move || listen(&nvml, wait_ms, &ready, &received))
            .map_err(|error| format!("Xids cannot be listened to: {error}"))?;
        is_ready.recv().unwrap_or_else(|_| Err(silent()))?;
        Ok(Self { requests })
    }

    /// The Xids since the last call, in order.
    /// Fails when NVML does not answer any more.
    fn drain(&self) -> Drained {
        let (reply, replied) = channel();
        self.requests.send(reply).map_err(|_| silent())?;
        replied.recv().unwrap_or_else(|_| Err(silent()))
    }
}

fn silent() -> String {
    "the thread that listens to Xids has ended".to_owned()
}

fn listen(
    nvml: &Nvml,
    wait_ms: u32,
    ready: &Sender<Result<(), String>>,
    requests: &Receiver<Sender<Drained>>,
) {
    let (set, registered) = match register(nvml) {
        Ok(set) => (Some(set), Ok(())),
        Err(why) => (None, Err(why)),
    };
    // The monitor may have ended in the meantime.
    let has_monitor = ready.send(registered).is_ok();
    let Some(set) = set.filter(|_| has_monitor) else { return };
    for reply in requests {
        let drained = drain(&set, wait_ms);
        if reply.send(drained.map_err(|error| error.to_string())).is_err() {
            return;
        }
    }
}

fn register(nvml: &Nvml) -> Result<EventSet<'_>, String> {
    let failure = |error: &dyn std::fmt::Display| format!("Xids cannot be listened to: {error}");
    let device = nvml.whole().map_err(|e| failure(&e))?;
    let set = nvml.library().create_event_set().map_err(|e| failure(&e))?;
    device.register_events(EventTypes::CRITICAL_XID_ERROR, set).map_err(|e| failure(&e.error))
}

fn drain(set: &EventSet<'_>, wait_ms: u32) -> Result<Vec<u32>, NvmlError> {
    let mut xids = Vec::new();
    let mut wait_ms = wait_ms;
    loop {
        let event = match set.wait(wait_ms) {
            Ok(event) => event,
            Err(NvmlError::Timeout) => return Ok(xids),
            Err(error) => return Err(error),
        };
        wait_ms = 0;
        xids.extend(event.event_data.map(|xid| match xid {
            XidError::Value(number) => u32::try_from(number).unwrap_or(UNKNOWN),
            XidError::Unknown => UNKNOWN,
        }));
    }
}
