//! Requests without a pause, each with a device stamp of its end: how much work was done when, by
//! the device's clock.

use gpubench_record::CompletedRequests;
use gpubench_record::probe::step::RunRequests;

use super::stamps::Stamps;
use super::{ProbeError, RunStep, StepContext, end_events};
use crate::load;

/// Outstanding requests: one runs, and the next is queued.
const DEPTH: usize = 2;
/// Requests before the first that counts: they load code.
const WARM_UP: usize = 2;

impl RunStep for RunRequests {
    fn run(&self, cx: &mut StepContext<'_>) -> Result<CompletedRequests, ProbeError> {
        let (gpu, time) = (cx.gpu, cx.time);
        let requests_max = self.requests_max as usize;
        let mut prepared = load::find(&self.spec.name)?.setup(gpu, &self.spec)?;
        let stamps = Stamps::new(gpu, requests_max + 1)?;
        let ends = end_events(gpu, DEPTH)?;
        for _ in 0..WARM_UP.max(prepared.cycle()) {
            prepared.step(gpu)?;
        }
        gpu.stream.synchronize()?;
        let from_ns = time.now_ns();
        stamps.put(gpu, 0)?;
        let mut requests = 0;
        while requests < requests_max && time.now_ns() - from_ns < self.watch_ns {
            prepared.step(gpu)?;
            requests += 1;
            stamps.put(gpu, requests)?;
            ends[requests % DEPTH].record(&gpu.stream)?;
            if requests >= DEPTH {
                ends[(requests + 1) % DEPTH].synchronize()?;
            }
        }
        gpu.stream.synchronize()?;
        let to_ns = time.now_ns();
        let device_ns = stamps.read(requests + 1)?;
        // The first of at least one stamp.
        let began_ns = device_ns.first().copied().unwrap_or(0);
        let since = |end: &u64| end.saturating_sub(began_ns);
        Ok(CompletedRequests {
            host_ns: (from_ns, to_ns),
            began_ns,
            ended_ns: device_ns.iter().skip(1).map(since).collect(),
        })
    }
}
