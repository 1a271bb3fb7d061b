//! Compute-limit bypass: arithmetic without a pause, submitted by routes that a limiter may miss.
//!
//! The host observes the ends through events, which no limiter delays; a stamp by a kernel would
//! itself be a launch.

use gpubench_kernels::driver::{DeviceBuffer, DriverError, Graph, Grid};
use gpubench_kernels::kernel::arithmetic::Fp32Chain;
use gpubench_kernels::{Kernel, Launcher};
use gpubench_record::probe::step::LimitBypass;
use gpubench_record::{BypassRun, SubmitRoute, WorkloadSpec};

use super::{ProbeError, RunStep, StepContext, end_events};
use crate::load::Gpu;

/// Requests that are outstanding.
const DEPTH: usize = 2;
/// Work of a long launch and of a persistent launch, in requests.
const LONG: u64 = 10;
const PERSISTENT: u64 = 200;

struct Request {
    route: SubmitRoute,
    launch: Fp32Chain,
    graph: Option<Graph>,
    /// Keeps the memory that the launch writes.
    _out: DeviceBuffer<f32>,
}

impl Request {
    fn new(gpu: &Gpu, route: SubmitRoute, spec: &WorkloadSpec) -> Result<Self, ProbeError> {
        let param = |name: &str| {
            let found = spec.params.get(name).copied();
            found.ok_or_else(|| ProbeError::parameter(format!("{} has no {name}", spec.name)))
        };
        let (blocks, threads) = (param("blocks")?, param("threads")?);
        let iterations = param("iterations")?;
        let word = |value: u64| u32::try_from(value).map_err(ProbeError::parameter);
        let threads = word(threads)?;
        gpu.kernels.prepare(&[Kernel::Fp32Chain])?;
        // Cooperative and persistent launches have no more blocks than this tenant's SMs hold at
        // once.
        let resident = u64::from(gpu.props.full_grid(threads).blocks);
        let (blocks, iterations) = match route {
            SubmitRoute::CooperativeLaunches => (blocks.min(resident), iterations),
            SubmitRoute::LongLaunches => (blocks, iterations * LONG),
            SubmitRoute::OneBlockLaunches => (1, iterations * LONG),
            SubmitRoute::PersistentLaunches => (blocks.min(resident), iterations * PERSISTENT),
            SubmitRoute::Launches | SubmitRoute::PerThreadLaunches | SubmitRoute::Graphs => {
                (blocks, iterations)
            }
        };
        let grid = Grid::new(word(blocks)?, threads);
        let out = DeviceBuffer::alloc(&gpu.context, grid.total_threads() as usize)?;
        let launch = Fp32Chain::bounded(out.device_ptr(), word(iterations)?, grid);
        let graph = match route {
            SubmitRoute::Graphs => {
                Some(Graph::capture(&gpu.stream, |stream| launch.launch(&gpu.kernels, stream))?)
            }
            _ => None,
        };
        Ok(Self { route, launch, graph, _out: out })
    }

    fn submit(&self, gpu: &Gpu) -> Result<(), DriverError> {
        let Fp32Chain { grid, .. } = self.launch;
        let (stream, args) = (&gpu.stream, self.launch.args());
        let function = gpu.kernels.function(Kernel::Fp32Chain)?;
        match (self.route, &self.graph) {
            (SubmitRoute::Graphs, Some(graph)) => graph.launch(stream),
            (SubmitRoute::PerThreadLaunches, _) => function.launch_per_thread(grid, stream, &args),
            (SubmitRoute::CooperativeLaunches, _) => {
                function.launch_cooperative(grid, stream, &args)
            }
            _ => function.launch(grid, stream, &args),
        }
    }
}

impl RunStep for LimitBypass {
    fn run(&self, cx: &mut StepContext<'_>) -> Result<BypassRun, ProbeError> {
        let (gpu, time) = (cx.gpu, cx.time);
        let request = Request::new(gpu, self.route, &self.spec)?;
        let ends = end_events(gpu, DEPTH)?;
        gpu.stream.synchronize()?;
        let from_ns = time.now_ns();
        let (mut submitted, mut ended_ns) = (0, Vec::new());
        while time.now_ns() - from_ns < self.watch_ns {
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
        Ok(BypassRun {
            work_per_request: f64::from(launch.grid.blocks) * f64::from(launch.iterations),
            from_ns,
            ended_ns,
        })
    }
}
