//! An open device: from its context to the buffers of the current workload.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpubench_kernels::KernelSet;
use gpubench_kernels::driver::{Attribute, Context, Device, Driver, DriverError, Stream, WaitMode};
use gpubench_record::wire::Inside;
use gpubench_record::{OutputCheck, ProbeReply, ProbeStep, TenantIdentity, WorkloadSpec};

use crate::clock::Time;
use crate::device::{EventPool, Requests};
use crate::load::{self, Found, Gpu, LoadError, Output, Prepared, Stripes};
use crate::probe::{self, Canary, KeptMemory, ProbeError, StepContext};

/// Everything that exists while the device is open. All of it are device objects, created and
/// dropped by a thread that has joined the clock.
pub(super) struct Session {
    // Fields drop in this order: users before what they use.
    kept: KeptMemory,
    canary: Option<Canary>,
    stripes: Option<Stripes>,
    in_use: Option<(WorkloadSpec, Box<dyn Prepared>)>,
    /// Requests since the output was cleared.
    pub(super) requests: u64,
    pool: Option<Arc<EventPool>>,
    pub(super) gpu: Gpu,
}

impl Session {
    pub(super) fn open(
        ordinal: u32,
        spin: bool,
        inside: Option<Inside>,
    ) -> Result<(Self, Facts), DriverError> {
        let driver = Driver::load()?;
        // The driver refuses an ordinal beyond its devices.
        let device = driver.device(i32::try_from(ordinal).unwrap_or(i32::MAX))?;
        // Threads share the primary context and its flags, which must be the victim's; the events
        // of a neighbour block by a flag of their own.
        let wait = if spin || inside.is_some() { WaitMode::Spin } else { WaitMode::BlockingSync };
        let context = match inside {
            Some(Inside::GreenContext { partition, partitions }) => {
                Context::green(&device, wait, partition, partitions)?
            }
            _ => Context::primary(&device, wait)?,
        };
        let mut facts = facts(driver, &device)?;
        super::tenant::add_facts(driver, &context, &mut facts)?;
        let (least_urgent, most_urgent) = context.stream_priority_range()?;
        for (name, value) in
            [("stream_priority_least", least_urgent), ("stream_priority_greatest", most_urgent)]
        {
            facts.insert(name.to_owned(), value.to_string());
        }
        let stream = match inside {
            Some(Inside::StreamPriority { high }) => {
                let wanted = if high { most_urgent } else { least_urgent };
                let stream = Stream::with_priority(&context, wanted)?;
                facts.insert("stream_priority".to_owned(), stream.priority()?.to_string());
                stream
            }
            _ => Stream::new(&context)?,
        };
        let (kernels, props) = (KernelSet::new(&context), device.props()?);
        let gpu = Gpu { context, kernels, stream, props, spin };
        Ok((
            Self {
                kept: KeptMemory::new(),
                canary: None,
                stripes: None,
                in_use: None,
                requests: 0,
                pool: None,
                gpu,
            },
            facts,
        ))
    }

    /// Prepares a workload, keeps the current one if it is the same, and clears its output.
    pub(super) fn set_up(&mut self, spec: &WorkloadSpec) -> Result<(), LoadError> {
        if self.in_use.as_ref().is_none_or(|(in_use, _)| in_use != spec) {
            // Two workloads at once may not fit in memory.
            self.put_away();
            let prepared = load::find(&spec.name)?.setup(&self.gpu, spec)?;
            self.stripes = Stripes::of(&self.gpu, &prepared.output(), prepared.cycle())?;
            self.in_use = Some((spec.clone(), prepared));
        }
        self.requests = 0;
        if let Some((_, prepared)) = &self.in_use {
            prepared.output().clear(&self.gpu)?;
        }
        if let Some(stripes) = &mut self.stripes {
            stripes.begin();
        }
        Ok(())
    }

    /// Digests the output of the current workload. A tenant that issued less than a cycle of
    /// requests issues the rest first, so that every byte is a result.
    pub(super) fn digest(&mut self) -> Result<Option<OutputCheck>, DriverError> {
        let Some((_, prepared)) = &mut self.in_use else { return Ok(None) };
        let (gpu, cycle) = (&self.gpu, prepared.cycle() as u64);
        if let Output::None(reason) = prepared.output() {
            return Ok(Some(OutputCheck {
                none: Some(reason.to_owned()),
                ..OutputCheck::default()
            }));
        }
        for _ in self.requests..cycle {
            prepared.step(gpu)?;
        }
        gpu.stream.synchronize()?;
        let output = prepared.output();
        let (digest, bytes) = (output.digest(gpu)?, output.bytes());
        let stripes = self.stripes.as_mut().map(|stripes| stripes.finish(gpu)).transpose()?;
        let Found { reads, bytes: read_bytes, wrong } = stripes.unwrap_or_default();
        Ok(Some(OutputCheck {
            digest,
            bytes,
            cycle,
            reads,
            read_bytes,
            wrong_after: wrong,
            ..OutputCheck::default()
        }))
    }

    /// The current workload, and the flags that the context has now: in a process with other
    /// tenants each of them may have changed the flags.
    pub(super) fn identity(&self) -> Option<TenantIdentity> {
        let (spec, _) = self.in_use.as_ref()?;
        Some(TenantIdentity {
            workload: spec.clone(),
            context_flags: self.gpu.context.flags().ok(),
        })
    }

    /// The driver errors that answer a request of the current workload.
    pub(super) fn answers(&self) -> Result<&'static [i32], LoadError> {
        self.in_use
            .as_ref()
            .map_or(Ok(&[][..]), |(spec, _)| Ok(load::find(&spec.name)?.facts.answers))
    }

    /// Frees the workload's memory for a step that needs the whole device.
    pub(super) fn put_away(&mut self) {
        self.stripes = None;
        self.in_use = None;
    }

    /// Runs one step of a probe, after freeing the workload's memory.
    pub(super) fn probe(
        &mut self,
        time: &dyn Time,
        step: &ProbeStep,
    ) -> Result<ProbeReply, ProbeError> {
        self.put_away();
        let mut cx =
            StepContext { gpu: &self.gpu, time, kept: &mut self.kept, canary: &mut self.canary };
        probe::run(step, &mut cx)
    }

    /// Creates at least that many event pairs.
    pub(super) fn reserve(&mut self, pairs: usize) -> Result<(), DriverError> {
        if self.pool.as_ref().is_none_or(|pool| pool.len() < pairs) {
            self.pool = None;
            self.pool = Some(Arc::new(EventPool::new(&self.gpu.context, self.gpu.spin, pairs)?));
        }
        Ok(())
    }

    /// The requests of the workload, if all is prepared.
    pub(super) fn ready(&mut self) -> Option<Requests<'_>> {
        let (_, prepared) = self.in_use.as_mut()?;
        let mut requests =
            Requests::new(&self.gpu, Arc::clone(self.pool.as_ref()?), &mut **prepared);
        requests.stripes = self.stripes.as_mut();
        Some(requests)
    }
}

/// Facts about the device as visible to this tenant, by name.
type Facts = BTreeMap<String, String>;

fn facts(driver: &Driver, device: &Device) -> Result<Facts, DriverError> {
    let props = device.props()?;
    let (major, minor) = props.compute_capability;
    let facts = [
        ("name", device.name()?),
        ("uuid", device.uuid()?.to_string()),
        ("pci_bus_id", device.pci_bus_id()?),
        ("cuda_version", driver.cuda_version()?.to_string()),
        ("compute_capability", format!("{major}.{minor}")),
        ("sm_count", props.sm_count.to_string()),
        ("memory_bytes", props.total_bytes.to_string()),
        ("l2_bytes", props.l2_bytes.to_string()),
        ("threads_per_sm", props.threads_per_sm.to_string()),
        ("blocks_per_sm", props.blocks_per_sm.to_string()),
        ("copy_engines", props.copy_engines.to_string()),
    ];
    let mut facts: Facts = facts.into_iter().map(|(name, fact)| (name.to_owned(), fact)).collect();
    for (name, attribute) in [
        ("memory_clock_khz", Attribute::MemoryClockRateKhz),
        ("memory_bus_bits", Attribute::GlobalMemoryBusWidthBits),
        ("clock_khz", Attribute::ClockRateKhz),
        ("ecc_enabled", Attribute::EccEnabled),
        ("compute_mode", Attribute::ComputeMode),
        ("integrated", Attribute::Integrated),
    ] {
        // Newer drivers dropped some of these; an unknown attribute is left out.
        if let Ok(value) = device.attribute(attribute) {
            facts.insert(name.to_owned(), value.to_string());
        }
    }
    // Drivers before 12.4 have no such call, and those before 13 do not tell the sizes.
    if let Ok([least, multiple]) = device.partition_steps()
        && least > 0
    {
        facts.insert("sm_partition_min".to_owned(), least.to_string());
        facts.insert("sm_partition_multiple".to_owned(), multiple.to_string());
    }
    Ok(facts)
}
