//! The canary of `gpubench watch`: small requests of several workloads in turn.

use std::sync::Arc;

use gpubench_record::WorkloadSpec;
use gpubench_record::probe::step::{CanaryRequest, RunCanary};
use gpubench_stats::ScheduleRng;

use super::{ProbeError, RunStep, StepContext};
use crate::device::{EventPool, Requests};
use crate::generator::{Reap, Submit};
use crate::load::{self, Gpu, Prepared};

/// Requests start within this part of their time, so that two are always some time apart.
const STARTS_WITHIN: f64 = 0.5;

/// The prepared workloads.
pub struct Canary {
    specs: Vec<WorkloadSpec>,
    prepared: Vec<Box<dyn Prepared>>,
    pool: Arc<EventPool>,
}

impl Canary {
    fn new(gpu: &Gpu, specs: &[WorkloadSpec]) -> Result<Self, ProbeError> {
        let mut prepared = Vec::new();
        for spec in specs {
            let mut one = load::find(&spec.name)?.setup(gpu, spec)?;
            // The first cycle maps pages and loads code.
            for _ in 0..one.cycle() {
                one.step(gpu)?;
            }
            prepared.push(one);
        }
        gpu.stream.synchronize()?;
        let pool = Arc::new(EventPool::new(&gpu.context, gpu.spin, 1)?);
        Ok(Self { specs: specs.to_vec(), prepared, pool })
    }
}

impl RunStep for RunCanary {
    fn run(&self, cx: &mut StepContext<'_>) -> Result<Vec<Vec<CanaryRequest>>, ProbeError> {
        if cx.canary.as_ref().is_none_or(|kept| kept.specs != self.specs) {
            // Two sets of buffers at once may not fit in memory.
            *cx.canary = None;
            *cx.canary = Some(Canary::new(cx.gpu, &self.specs)?);
        }
        let mut requests = vec![Vec::new(); self.specs.len()];
        let Some(canary) = cx.canary.as_mut() else { return Ok(requests) };
        let mut rng = ScheduleRng::new(self.seed);
        let mut due_ns = self.start_ns;
        for _ in 0..self.rounds {
            for (own, prepared) in requests.iter_mut().zip(&mut canary.prepared) {
                let spread_ns = self.period_ns as f64 * STARTS_WITHIN * rng.uniform();
                let (at_ns, next_ns) = (due_ns + spread_ns as u64, due_ns + self.period_ns);
                due_ns = next_ns;
                if cx.time.now_ns() >= next_ns {
                    continue;
                }
                cx.time.sleep_until(at_ns)?;
                let from_ns = cx.time.now_ns();
                Requests::new(cx.gpu, Arc::clone(&canary.pool), &mut **prepared).submit(0)?;
                canary.pool.wait(0)?;
                let host_ns = cx.time.now_ns() - from_ns;
                own.push(CanaryRequest { host_ns, gpu_ns: canary.pool.gpu_ns(0)? });
            }
        }
        cx.time.sleep_until(due_ns)?;
        Ok(requests)
    }
}
