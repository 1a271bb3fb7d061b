//! What a run writes while it runs: its events and the device's counters.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use gpubench_record::{RunEvent, TelemetryRow};
use gpubench_reports::store::{EventLog, StoreError, TelemetryLog};

/// The open files of a record. Clones share the files.
#[derive(Clone)]
pub struct Recorder(Rc<RefCell<Logs>>);

/// The files; `None` after closing, when writes have no effect.
struct Logs {
    events: Option<EventLog>,
    telemetry: Option<TelemetryLog>,
}

impl Recorder {
    /// Creates both files.
    pub fn create(out: &Path) -> Result<Self, StoreError> {
        let logs = Logs {
            events: Some(EventLog::create(out)?),
            telemetry: Some(TelemetryLog::create(out)?),
        };
        Ok(Self(Rc::new(RefCell::new(logs))))
    }

    /// Goes on with both files of an interrupted run.
    pub fn reopen(out: &Path) -> Result<Self, StoreError> {
        let logs = Logs {
            events: Some(EventLog::reopen(out)?),
            telemetry: Some(TelemetryLog::reopen(out)?),
        };
        Ok(Self(Rc::new(RefCell::new(logs))))
    }

    /// Writes an event.
    pub fn event(&self, event: &RunEvent) -> Result<(), StoreError> {
        match &mut self.0.borrow_mut().events {
            Some(events) => events.append(event),
            None => Ok(()),
        }
    }

    /// Writes a warning.
    pub fn warning(&self, text: impl Into<String>) -> Result<(), StoreError> {
        self.event(&RunEvent::Warning { text: text.into() })
    }

    /// Writes that a tenant's process ended, and how.
    pub fn tenant_ended(&self, tenant: &str, pid: u32, reason: String) -> Result<(), StoreError> {
        let tenant = tenant.to_owned();
        self.event(&RunEvent::TenantEnded { tenant, pid, reason })
    }

    /// Writes readings of counters.
    pub fn telemetry(&self, rows: &[TelemetryRow]) -> Result<(), StoreError> {
        if let Some(telemetry) = &mut self.0.borrow_mut().telemetry {
            for row in rows {
                telemetry.append(row)?;
            }
        }
        Ok(())
    }

    /// Closes both files.
    pub fn close(&self) -> Result<(), StoreError> {
        let mut logs = self.0.borrow_mut();
        let (events, telemetry) = (logs.events.take(), logs.telemetry.take());
        telemetry.map_or(Ok(()), TelemetryLog::close)?;
        events.map_or(Ok(()), EventLog::close)
    }
}
