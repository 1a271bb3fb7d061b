//! Requests without a pause, each with the device's own stamp of its end: how much work was done
//! when, as the device counts it.

use gpubench_record::{ProbeTold, Worked, WorkloadSpec};

use super::stamp::Stamps;
use super::{ProbeError, marks};
use crate::clock::Time;
use crate::load::{self, Gpu};

/// Requests that are outstanding: one runs and the next is there when it ends.
const DEPTH: usize = 2;
/// Requests before the first that counts: they load code.
const WARM_UP: usize = 2;

/// Completes requests for `watch_ns`, or until there are `requests_max`.
pub(super) fn work(
    gpu: &Gpu,
    time: &dyn Time,
    spec: &WorkloadSpec,
    watch_ns: u64,
    requests_max: u32,
) -> Result<ProbeTold, ProbeError> {
    let mut prepared = load::find(&spec.name)?.setup(gpu, spec)?;
    let stamps = Stamps::new(gpu, requests_max as usize + 1)?;
    let ends = marks(gpu, DEPTH)?;
    for _ in 0..WARM_UP.max(prepared.cycle()) {
        prepared.step(gpu)?;
    }
    gpu.stream.synchronize()?;
    let from_ns = time.now_ns();
    stamps.put(gpu, 0)?;
    let mut requests = 0;
    while requests < requests_max as usize && time.now_ns() - from_ns < watch_ns {
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
    let began_ns = device_ns.first().copied().unwrap_or(0);
    Ok(ProbeTold::Worked(Worked {
        host_ns: (from_ns, to_ns),
        began_ns,
        ended_ns: device_ns
            .iter()
            .skip(1)
            .map(|end| end.saturating_sub(began_ns))
            .collect(),
    }))
}
