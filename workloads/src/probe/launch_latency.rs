//! From the call to the first instruction: launches of the smallest kernel at random instants, so
//! that they are not in phase with a scheduler.

use gpubench_record::LaunchStamp;
use gpubench_record::probe::step::TimeLaunches;
use gpubench_stats::poisson_schedule_ns;

use super::stamps::Stamps;
use super::{ProbeError, RunStep, StepContext};

impl RunStep for TimeLaunches {
    /// Each launch is waited for. One that is due before the last has ended follows it at once.
    fn run(&self, cx: &mut StepContext<'_>) -> Result<Vec<LaunchStamp>, ProbeError> {
        let (gpu, time) = (cx.gpu, cx.time);
        let schedule = poisson_schedule_ns(self.rate_per_s, self.watch_ns, self.seed)
            .map_err(ProbeError::parameter)?;
        let stamps = Stamps::new(gpu, schedule.len().max(1))?;
        // The first launch after a module was loaded may still upload it.
        stamps.put(gpu, 0)?;
        gpu.stream.synchronize()?;
        let from_ns = time.now_ns();
        let mut host_ns = Vec::with_capacity(schedule.len());
        for (at, due_ns) in schedule.iter().enumerate() {
            if time.now_ns() - from_ns > self.watch_ns {
                break;
            }
            time.sleep_until(from_ns + due_ns)?;
            let called_ns = time.now_ns();
            stamps.put(gpu, at)?;
            gpu.stream.synchronize()?;
            host_ns.push((called_ns, time.now_ns()));
        }
        let started_ns = stamps.read(host_ns.len())?;
        let stamp =
            |((called_ns, ended_ns), started_ns)| LaunchStamp { called_ns, started_ns, ended_ns };
        Ok(host_ns.into_iter().zip(started_ns).map(stamp).collect())
    }
}
