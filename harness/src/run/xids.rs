//! The device's Xid errors, from the moment somebody listens: NVML keeps none for who comes later.
//!
//! A set of events borrows the library that it came from, so a thread of its own holds both.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::event::EventSet;

use crate::device::Nvml;

/// What NVML says where it has no number for what the driver logged (`nvml.h`,
/// `nvmlEventData_t.eventData`).
const UNKNOWN: u32 = 999;

/// On the wall clock the driver tells of an Xid from an interrupt, which a tenant's answer may
/// overtake; so long is waited for one before there was none.
const PATIENCE_WALL_MS: u32 = 5;

/// What the device reported since the last question, or why that cannot be told.
type Answer = Result<Vec<u32>, String>;

/// Listens to one device until dropped.
pub struct XidWatch {
    questions: Sender<Sender<Answer>>,
}

impl XidWatch {
    /// Listens from now on.
    ///
    /// # Errors
    /// When the device or its driver tells of no Xids, as under WSL.
    pub fn start(nvml: &Arc<Nvml>, is_virtual_time: bool) -> Result<Self, String> {
        // Nothing outruns the clock in virtual time.
        let patience_ms = if is_virtual_time { 0 } else { PATIENCE_WALL_MS };
        let (questions, asked) = channel();
        let (say, heard) = channel();
        let nvml = Arc::clone(nvml);
        std::thread::Builder::new()
            .name("xids".to_owned())
            .spawn(move || listen(&nvml, patience_ms, &say, &asked))
            .map_err(|error| format!("nobody listens to Xids: {error}"))?;
        heard.recv().unwrap_or_else(|_| Err(silent()))?;
        Ok(Self { questions })
    }

    /// Takes what the device reported since the last call, in order.
    ///
    /// # Errors
    /// When NVML does not answer any more.
    pub fn drain(&self) -> Answer {
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
    // Whoever asked may be gone; then there is nobody to listen for.
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
    let told = |error: &dyn std::fmt::Display| format!("nobody listens to Xids: {error}");
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
