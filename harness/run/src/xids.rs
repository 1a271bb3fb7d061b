//! The device's counts of memory errors, and its Xid errors from two sources: NVML's events, which
//! carry the number, and the lines of the kernel's log, which have the time and name the process
//! and the MIG instance.
//!
//! NVML keeps no event for a listener that registers later.

use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex, PoisonError};

use gpubench_host::device::Driver;
use gpubench_host::device::nvml::named;
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

/// Both sources of Xids of one run.
pub struct XidMonitor {
    handles: RunHandles,
    /// Or why the driver reports no Xids.
    events: Result<XidEvents, String>,
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
        let events = handles.nvml("registering for Xids by NVML", register).await?;
        if let Err(text) = &events {
            handles.recorder.warning(text.clone())?;
        }
        Ok(Self {
            handles: handles.clone(),
            events,
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
        let events = match &self.events {
            Ok(events) => Arc::clone(events),
            Err(failure) => return Ok(Err(failure.clone())),
        };
        // In virtual time no event is late.
        let wait_ms = if self.handles.setup.clock.is_virtual() { 0 } else { LATE_WALL_MS };
        let drained = move |_: &Driver| {
            drain(&events.lock().unwrap_or_else(PoisonError::into_inner), wait_ms)
        };
        match self.handles.nvml("reading Xids from NVML", drained).await? {
            Ok(xids) => Ok(Ok(xids)),
            Err(error) => {
                let text = format!("NVML reports no more Xids: {}", named(&error));
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
    let counts = handles.nvml(doing, Driver::memory_errors).await?;
    Ok(counts.map_err(|error| format!("NVML: {}", named(&error))))
}

/// The events of one device. They are never freed: a call that hangs may use them.
type XidEvents = Arc<Mutex<ManuallyDrop<EventSet<'static>>>>;

/// Starts listening.
/// Fails when the device or its driver reports no Xids, as under WSL.
fn register(driver: &Driver) -> Result<XidEvents, String> {
    let failure = |e: &NvmlError| format!("Xids cannot be listened to: {}", named(e));
    let device = driver.whole().map_err(|e| failure(&e))?;
    let set = driver.library().create_event_set().map_err(|e| failure(&e))?;
    let set = device.register_events(EventTypes::CRITICAL_XID_ERROR, set);
    Ok(Arc::new(Mutex::new(ManuallyDrop::new(set.map_err(|e| failure(&e.error))?))))
}

fn drain(set: &EventSet<'static>, wait_ms: u32) -> Result<Vec<u32>, NvmlError> {
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
