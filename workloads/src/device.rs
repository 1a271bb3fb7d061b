//! The load generator's device on a real driver: each request has an event before and one after it.

use std::sync::Arc;

use gpubench_kernels::driver::{Context, DriverError, Event, EventKind};

use crate::generator::{DeviceError, Reap, Submit};
use crate::load::{Gpu, Prepared, Stripes};

/// Pairs of events, created before a cell and reused.
#[derive(Debug)]
pub struct EventPool {
    context: Context,
    spin: bool,
    pairs: Vec<(Event, Event)>,
}

impl EventPool {
    /// Creates `pairs` pairs; `spin` says how a thread waits for them.
    pub fn new(context: &Context, spin: bool, pairs: usize) -> Result<Self, DriverError> {
        let kind = if spin { EventKind::Timing } else { EventKind::TimingBlocking };
        let event = || Event::new(context, kind);
        let pairs =
            (0..pairs.max(1)).map(|_| Ok((event()?, event()?))).collect::<Result<_, _>>()?;
        Ok(Self { context: context.clone(), spin, pairs })
    }

    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether there are none; there is always at least one.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }
}

impl Reap for EventPool {
    fn enter_thread(&self) -> Result<(), DeviceError> {
        self.context.bind_to_wait().map_err(DeviceError::from)
    }

    fn wait(&self, slot: usize) -> Result<(), DeviceError> {
        self.pairs[slot].1.synchronize().map_err(DeviceError::from)
    }

    fn polls(&self) -> bool {
        self.spin
    }

    fn is_done(&self, slot: usize) -> Result<bool, DeviceError> {
        self.pairs[slot].1.is_done().map_err(DeviceError::from)
    }

    fn gpu_ns(&self, slot: usize) -> Result<u64, DeviceError> {
        let (before, after) = &self.pairs[slot];
        let milliseconds = after.elapsed_ms_since(before)?;
        // The driver returns milliseconds as a float; the cast saturates a negative one at zero.
        Ok((f64::from(milliseconds) * 1e6).round() as u64)
    }
}

pub struct Requests<'a> {
    pub(crate) gpu: &'a Gpu,
    pub(crate) pool: Arc<EventPool>,
    pub(crate) prepared: &'a mut dyn Prepared,
    /// Parts of its output that are read beside the requests.
    pub(crate) stripes: Option<&'a mut Stripes>,
}

impl<'a> Requests<'a> {
    /// Of a workload whose output is not read beside them.
    pub fn new(gpu: &'a Gpu, pool: Arc<EventPool>, prepared: &'a mut dyn Prepared) -> Self {
        Self { gpu, pool, prepared, stripes: None }
    }
}

impl std::fmt::Debug for Requests<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Requests").field("pairs", &self.pool.len()).finish_non_exhaustive()
    }
}

impl Submit for Requests<'_> {
    fn submit(&mut self, slot: usize) -> Result<(), DeviceError> {
        let (before, after) = &self.pool.pairs[slot];
        before.record(&self.gpu.stream)?;
        self.prepared.step(self.gpu)?;
        after.record(&self.gpu.stream)?;
        match &mut self.stripes {
            Some(stripes) => Ok(stripes.submitted()?),
            None => Ok(()),
        }
    }

    fn is_idle(&mut self) -> Result<bool, DeviceError> {
        Ok(self.gpu.stream.is_done()?)
    }

    fn slots(&self) -> usize {
        self.pool.len()
    }
}

impl From<DriverError> for DeviceError {
    fn from(error: DriverError) -> Self {
        Self { code: error.code(), sticky: error.is_sticky(), what: error.to_string() }
    }
}

/// The device of a tenant without load.
#[derive(Debug, Clone, Copy)]
pub struct NoDevice;

impl NoDevice {
    fn refusal() -> DeviceError {
        let what = "an idle tenant received a request".to_owned();
        DeviceError { what, code: None, sticky: true }
    }
}

impl Submit for NoDevice {
    fn submit(&mut self, _slot: usize) -> Result<(), DeviceError> {
        Err(Self::refusal())
    }

    fn is_idle(&mut self) -> Result<bool, DeviceError> {
        Ok(true)
    }

    fn slots(&self) -> usize {
        1
    }
}

impl Reap for NoDevice {
    fn enter_thread(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn wait(&self, _slot: usize) -> Result<(), DeviceError> {
        Err(Self::refusal())
    }

    fn gpu_ns(&self, _slot: usize) -> Result<u64, DeviceError> {
        Err(Self::refusal())
    }
}
