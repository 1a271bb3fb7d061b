//! From the call to the first instruction: launches of the smallest kernel at instants that no
//! scheduler can be in step with.

use gpubench_record::{LaunchStamp, ProbeTold};
use gpubench_stats::poisson_schedule_ns;

use super::ProbeError;
use super::stamp::Stamps;
use crate::clock::Time;
use crate::load::Gpu;

/// Launches at Poisson instants for `watch_ns`, each waited for. One that is due while the last is
/// out follows it at once.
pub(super) fn launches(
    gpu: &Gpu,
    time: &dyn Time,
    rate_per_s: f64,
    watch_ns: u64,
    seed: u64,
) -> Result<ProbeTold, ProbeError> {
    let schedule = poisson_schedule_ns(rate_per_s, watch_ns, seed).map_err(ProbeError::asked)?;
    let stamps = Stamps::new(gpu, schedule.len().max(1))?;
    // The first launch after a module was loaded may still upload it.
    stamps.put(gpu, 0)?;
    gpu.stream.synchronize()?;
    let from_ns = time.now_ns();
    let mut host_ns = Vec::with_capacity(schedule.len());
    for (at, due_ns) in schedule.iter().enumerate() {
        if time.now_ns() - from_ns > watch_ns {
            break;
        }
        time.sleep_until(from_ns + due_ns)?;
        let called_ns = time.now_ns();
        stamps.put(gpu, at)?;
        gpu.stream.synchronize()?;
        host_ns.push((called_ns, time.now_ns()));
    }
    let started_ns = stamps.read(host_ns.len())?;
    let stamp = |((called_ns, seen_ns), started_ns)| LaunchStamp {
        called_ns,
        started_ns,
        seen_ns,
    };
    Ok(ProbeTold::Launched {
        stamps: host_ns.into_iter().zip(started_ns).map(stamp).collect(),
    })
}
