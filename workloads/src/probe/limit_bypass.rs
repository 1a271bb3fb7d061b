//! Compute-limit bypass: arithmetic without a pause, submitted in ways that a limiter may miss.
//!
//! The host observes the ends through events, which no limiter delays; a stamp by a kernel would
//! itself be a launch.

use gpubench_kernels::driver::{DeviceBuffer, DriverError, Graph, Grid};
use gpubench_kernels::kernel::fp32_chain::Fp32Chain;
use gpubench_kernels::{Kernel, Launcher};
use gpubench_record::{BypassRun, BypassWay, ProbeTold, WorkloadSpec};

use super::{ProbeError, marks};
use crate::clock::Time;
use crate::load::Gpu;

/// Requests that are outstanding.
const DEPTH: usize = 2;
/// How much more work a long launch has, and one that stays.
const LONGER: u64 = 10;
const STAYS: u64 = 200;

/// One request, and how it is submitted.
struct Request {
    way: BypassWay,
    launch: Fp32Chain,
    graph: Option<Graph>,
    /// Keeps the memory that the launch writes.
    _out: DeviceBuffer<f32>,
}

impl Request {
    fn new(gpu: &Gpu, way: BypassWay, spec: &WorkloadSpec) -> Result<Self, ProbeError> {
        let param = |name: &str| {
            let found = spec.params.get(name).copied();
            found.ok_or_else(|| ProbeError::asked(format!("{} has no {name}", spec.name)))
        };
        let (blocks, threads) = (param("blocks")?, param("threads")?);
        let iterations = param("iterations")?;
        let word = |value: u64| u32::try_from(value).map_err(ProbeError::asked);
        let threads = word(threads)?;
        gpu.kernels.prepare(&[Kernel::Fp32Chain])?;
        // All blocks of a cooperative launch have to be resident, and those of a persistent one
        // are: no more than this tenant's SMs hold at once.
        let resident = u64::from(gpu.props.full_grid(threads).blocks);
        let (blocks, iterations) = match way {
            BypassWay::CooperativeLaunches => (blocks.min(resident), iterations),
            BypassWay::LongLaunches => (blocks, iterations * LONGER),
            BypassWay::OneBlockLaunches => (1, iterations * LONGER),
            BypassWay::PersistentLaunches => (blocks.min(resident), iterations * STAYS),
            BypassWay::Launches | BypassWay::PerThreadLaunches | BypassWay::Graphs => {
                (blocks, iterations)
            }
        };
        let grid = Grid::new(word(blocks)?, threads);
        let out = DeviceBuffer::alloc(&gpu.context, grid.total_threads() as usize)?;
        let launch = Fp32Chain::bounded(out.device_ptr(), word(iterations)?, grid);
        let graph = match way {
            BypassWay::Graphs => Some(Graph::capture(&gpu.stream, |stream| {
                launch.launch(&gpu.kernels, stream)
            })?),
            _ => None,
        };
        Ok(Self {
            way,
            launch,
            graph,
            _out: out,
        })
    }

    fn submit(&self, gpu: &Gpu) -> Result<(), DriverError> {
        let Fp32Chain { grid, .. } = self.launch;
        let (stream, args) = (&gpu.stream, self.launch.args());
        let function = gpu.kernels.function(Kernel::Fp32Chain)?;
        match (self.way, &self.graph) {
            (BypassWay::Graphs, Some(graph)) => graph.launch(stream),
            (BypassWay::PerThreadLaunches, _) => function.launch_per_thread(grid, stream, &args),
            (BypassWay::CooperativeLaunches, _) => function.launch_cooperative(grid, stream, &args),
            _ => function.launch(grid, stream, &args),
        }
    }
}

/// Submits requests for `watch_ns`.
pub(super) fn limit_bypass(
    gpu: &Gpu,
    time: &dyn Time,
    way: BypassWay,
    spec: &WorkloadSpec,
    watch_ns: u64,
) -> Result<ProbeTold, ProbeError> {
    let request = Request::new(gpu, way, spec)?;
    let ends = marks(gpu, DEPTH)?;
    gpu.stream.synchronize()?;
    let from_ns = time.now_ns();
    let (mut submitted, mut ended_ns) = (0, Vec::new());
    while time.now_ns() - from_ns < watch_ns {
        request.submit(gpu)?;
        ends[submitted % DEPTH].record(&gpu.stream)?;
        submitted += 1;
        if submitted >= DEPTH {
            ends[submitted % DEPTH].synchronize()?;
            ended_ns.push(time.now_ns() - from_ns);
        }
    }
    gpu.stream.synchronize()?;
    if submitted > 0 {
        ended_ns.push(time.now_ns() - from_ns);
    }
    let launch = &request.launch;
    Ok(ProbeTold::Bypassed(BypassRun {
        work_per_request: f64::from(launch.grid.blocks) * f64::from(launch.iterations),
        from_ns,
        ended_ns,
    }))
}
