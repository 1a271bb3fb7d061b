//! `power-virus`: arithmetic on every SM while DRAM is copied, for the highest power of plain
//! kernels. Counter: `nvmlDeviceGetPowerUsage`, `nvmlDeviceGetTotalEnergyConsumption`.
//!
//! Each of the two uses half of the threads of an SM, on a stream of its own, so that both run at
//! the same time.

use gpubench_catalogue::workload;
use gpubench_kernels::driver::{DeviceProps, DriverError, Event, EventKind, Stream};
use gpubench_kernels::{Kernel, Launcher};
use gpubench_record::WorkloadSpec;

use super::arithmetic::{Chain, verify_chain};
use super::dram::{WindowCopy, copy_spec, verify_copy};
use super::{Gpu, Guess, Load, LoadError, More, Output, Params, Part, Prepared};

/// Bytes that an SM copies during one iteration of the chains: about the DRAM bandwidth per SM,
/// similar for every generation.
const BYTES_PER_SM_AND_ITERATION: u64 = 8192;

pub(super) const POWER_VIRUS: &[Load] = &[Load {
    facts: &workload::POWER_VIRUS,
    kernel: Some(Kernel::Fp32Chain),
    first_guess: half_and_half,
    setup: setup_power_virus,
    verify: Some(|name, gpu| verify_chain(name, gpu).and_then(|()| verify_copy(name, gpu))),
    more: More::NONE,
}];

fn half_and_half(name: &'static str, props: &DeviceProps, share: f64) -> Guess {
    let blocks = props.full_grid(super::arithmetic::THREADS).blocks / 2;
    let mut spec = copy_spec(name, props, share, blocks.max(1).into())?;
    spec.params.insert("iterations".to_owned(), 1_000);
    let bytes = BYTES_PER_SM_AND_ITERATION * u64::from(props.sm_count);
    spec.params.insert("bytes_per_iteration".to_owned(), bytes);
    spec.params.remove("bytes");
    Ok(spec)
}

/// Both at once.
#[derive(Debug)]
struct Virus {
    chain: Chain,
    copy: WindowCopy,
    stream: Stream,
    from: Event,
    to: Event,
}

impl Prepared for Virus {
    fn step(&mut self, gpu: &Gpu) -> Result<(), DriverError> {
        self.from.record(&gpu.stream)?;
        self.stream.wait_event(&self.from)?;
        self.chain.launch.launch(&gpu.kernels, &self.stream)?;
        self.to.record(&self.stream)?;
        self.copy.step(gpu)?;
        gpu.stream.wait_event(&self.to)
    }

    fn output(&self) -> Output<'_> {
        Output::Parts(vec![Part::written(&self.chain.out), Part::written(&self.copy.dst)])
    }

    fn work_per_request(&self) -> f64 {
        self.chain.work_per_request()
    }

    fn cycle(&self) -> usize {
        self.copy.cycle()
    }
}

fn setup_power_virus(gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
    let params = Params::of(spec);
    let iterations = params.get("iterations", 1..=u64::from(u32::MAX))?;
    let bytes = params.get("bytes_per_iteration", 1..=1 << 24)? * iterations;
    let mut copied = spec.clone();
    copied.params.insert("bytes".to_owned(), bytes.max(128));
    Ok(Box::new(Virus {
        chain: Chain::new(gpu, spec)?,
        copy: WindowCopy::new(gpu, &copied)?,
        stream: Stream::new(&gpu.context)?,
        from: Event::new(&gpu.context, EventKind::Mark)?,
        to: Event::new(&gpu.context, EventKind::Mark)?,
    }))
}
