//! The device's Xid errors, from two sources: NVML's events, which carry the number, and the lines
//! of the kernel's log, which name the process and the MIG instance.
//!
//! NVML keeps no event for a listener that registers later. A set of events borrows the library
//! that it came from, so a thread of its own holds both.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use gpubench_record::XidLine;
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::event::EventSet;

use super::{KernelLog, RunError, RunHandles};
use crate::device::Nvml;

/// What NVML says where it has no number for what the driver logged (`nvml.h`,
/// `nvmlEventData_t.eventData`).
const UNKNOWN: u32 = 999;

/// On the wall clock the driver tells of an Xid from an interrupt, which a tenant's answer may
/// overtake; so long is waited for one before there was none.
const PATIENCE_WALL_MS: u32 = 5;

/// Longest wait for the thread that listens.
const LIMIT: Duration = Duration::from_secs(30);

/// What the device reported since the last question, or why that cannot be told.
type Answer = Result<Vec<u32>, String>;

/// Both sources of Xids of one run.
pub struct XidMonitor {
    handles: RunHandles,
    /// Absent where the driver tells of no Xids.
    watch: Option<XidWatch>,
    /// Absent where it cannot be read.
    kernel_log: Option<KernelLog>,
}

/// Xids since the last question; absent where the source is.
#[derive(Debug, Default)]
pub struct Xids {
    /// Their numbers, as NVML tells them.
    pub numbers: Option<Vec<u32>>,
    /// Their lines of the kernel's log.
    pub lines: Option<Vec<XidLine>>,
}

impl XidMonitor {
    /// Listens from now on.
    pub async fn start(
        handles: &RunHandles,
        kernel_log: Option<KernelLog>,
    ) -> Result<Self, RunError> {
        let is_virtual = handles.setup.clock.is_virtual();
        let nvml = Arc::clone(&handles.setup.nvml);
        let started = move || XidWatch::start(&nvml, is_virtual);
        let started = handles
            .waits
            .blocking("registering for Xids", LIMIT, started);
        let watch = match started.await? {
            Ok(watch) => Some(watch),
            Err(text) => {
                handles.recorder.warning(text)?;
                None
            }
        };
        Ok(Self {
            handles: handles.clone(),
            watch,
            kernel_log,
        })
    }

    /// Takes what came since the last call. `services` are processes of the mechanism itself, by
    /// which lines are attributed; `what` is where a warning says that it happened.
    pub async fn drain(&mut self, what: &str, services: &[u32]) -> Result<Xids, RunError> {
        Ok(Xids {
            numbers: self.numbers(what).await?,
            lines: self.lines(what, services)?,
        })
    }

    async fn numbers(&self, what: &str) -> Result<Option<Vec<u32>>, RunError> {
        let Some(watch) = self.watch.clone() else {
            return Ok(None);
        };
        let waits = &self.handles.waits;
        let drained = waits.blocking("asking NVML for Xids", LIMIT, move || watch.drain());
        match drained.await? {
            Ok(xids) => Ok(Some(xids)),
            Err(error) => {
                let text = format!("{what}: Xids cannot be asked for: {error}");
                self.handles.recorder.warning(text)?;
                Ok(None)
            }
        }
    }

    /// A log that cannot be read any more is not read again.
    fn lines(&mut self, what: &str, services: &[u32]) -> Result<Option<Vec<XidLine>>, RunError> {
        let Some(log) = &mut self.kernel_log else {
            return Ok(None);
        };
        match log.drain() {
            Ok(mut lines) => {
                if log.has_our_numbers() {
                    self.handles.registry.attribute(&mut lines, services);
                }
                if self.handles.setup.clock.is_virtual() {
                    // Equal runs have equal records, and their process ids differ.
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

/// Listens to one device until every clone is dropped.
#[derive(Debug, Clone)]
struct XidWatch {
    questions: Sender<Sender<Answer>>,
}

impl XidWatch {
    /// Listens from now on.
    ///
    /// # Errors
    /// When the device or its driver tells of no Xids, as under WSL.
    fn start(nvml: &Arc<Nvml>, is_virtual_time: bool) -> Result<Self, String> {
        // Nothing overtakes the clock in virtual time.
        let patience_ms = if is_virtual_time { 0 } else { PATIENCE_WALL_MS };
        let (questions, asked) = channel();
        let (say, heard) = channel();
        let nvml = Arc::clone(nvml);
        std::thread::Builder::new()
            .name("xids".to_owned())
            .spawn(move || listen(&nvml, patience_ms, &say, &asked))
            .map_err(|error| format!("Xids cannot be listened to: {error}"))?;
        heard.recv().unwrap_or_else(|_| Err(silent()))?;
        Ok(Self { questions })
    }

    /// Takes what the device reported since the last call, in order.
    ///
    /// # Errors
    /// When NVML does not answer any more.
    fn drain(&self) -> Answer {
        let (say, heard) = channel();
        self.questions.send(say).map_err(|_| silent())?;
        heard.recv().unwrap_or_else(|_| Err(silent()))
    }
}

fn silent() -> String {
    "the thread that listens to Xids has ended".to_owned()
}

fn listen(
    nvml: &Nvml,
    patience_ms: u32,
    say: &Sender<Result<(), String>>,
    asked: &Receiver<Sender<Answer>>,
) {
    let (set, said) = match register(nvml) {
        Ok(set) => (Some(set), Ok(())),
        Err(why) => (None, Err(why)),
    };
    // Without the monitor there is nothing to listen for.
    let heard = say.send(said).is_ok();
    let Some(set) = set.filter(|_| heard) else {
        return;
    };
    for answer in asked {
        let drained = drain(&set, patience_ms);
        if answer
            .send(drained.map_err(|error| error.to_string()))
            .is_err()
        {
            return;
        }
    }
}

fn register(nvml: &Nvml) -> Result<EventSet<'_>, String> {
    let told = |error: &dyn std::fmt::Display| format!("Xids cannot be listened to: {error}");
    let device = nvml.device().map_err(|e| told(&e))?;
    let set = nvml.library().create_event_set().map_err(|e| told(&e))?;
    device
        .register_events(EventTypes::CRITICAL_XID_ERROR, set)
        .map_err(|e| told(&e.error))
}

fn drain(set: &EventSet<'_>, patience_ms: u32) -> Result<Vec<u32>, NvmlError> {
    let mut xids = Vec::new();
    let mut patience_ms = patience_ms;
    loop {
        let event = match set.wait(patience_ms) {
            Ok(event) => event,
            Err(NvmlError::Timeout) => return Ok(xids),
            Err(error) => return Err(error),
        };
        patience_ms = 0;
        xids.extend(event.event_data.map(|xid| match xid {
            XidError::Value(number) => u32::try_from(number).unwrap_or(UNKNOWN),
            XidError::Unknown => UNKNOWN,
        }));
    }
}
