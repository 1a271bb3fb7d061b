//! A device with a victim and its neighbour, simulated by the model.

use std::cell::RefCell;
use std::collections::HashMap;

use gpubench_virtual_gpu_model::machine::{Machine, MachineError, Noise, Resident};
use gpubench_virtual_gpu_model::mig;
use gpubench_virtual_gpu_model::simulation::{Queues, Rules, advance_to, next_event_ns, settle};
use gpubench_virtual_gpu_model::state::{
    Context, Interval, NEVER, ONE, Op, OpKind, Resource, State, Stream,
};

/// Blocks of 256 threads that an SM holds.
const BLOCKS_PER_SM: u64 = 8;

/// Bytes that a block of 256 threads moves between two waits: each thread loads 64, and a copy
/// stores as much.
const COPY_BYTES: f64 = 2.0 * 256.0 * 64.0;
const READ_BYTES: f64 = 256.0 * 64.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    Sm,
    Dram,
    L2,
}

impl Axis {
    pub const ALL: [Self; 3] = [Self::Sm, Self::Dram, Self::L2];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Sm => "sm",
            Self::Dram => "dram",
            Self::L2 => "l2",
        }
    }

    pub const fn workloads(self) -> (&'static str, &'static str) {
        match self {
            Self::Sm => ("compute", "fma-hog"),
            Self::Dram => ("stream", "dram-copy"),
            Self::L2 => ("l2", "l2-stream"),
        }
    }

    const fn resource(self) -> Resource {
        match self {
            Self::Sm => Resource::Issue,
            Self::Dram => Resource::Dram,
            Self::L2 => Resource::L2,
        }
    }

    const fn block_bytes(self) -> f64 {
        match self {
            Self::Sm => 0.0,
            Self::Dram => COPY_BYTES,
            Self::L2 => READ_BYTES,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    Mps,
    MpsQuota,
    GreenContext,
    StreamPriority,
}

impl Mechanism {
    pub const ALL: [Self; 4] =
        [Self::Mps, Self::MpsQuota, Self::GreenContext, Self::StreamPriority];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Mps => "mps",
            Self::MpsQuota => "mps-quota",
            Self::GreenContext => "green-context",
            Self::StreamPriority => "stream-priority",
        }
    }

    /// First SM and number of SMs of victim and neighbour: 0 SMs for all of the device.
    const fn sms(self) -> [(u32, u32); 2] {
        match self {
            Self::Mps | Self::StreamPriority => [(0, 0); 2],
            Self::MpsQuota => [(0, 66); 2],
            // In groups of 8 SMs, of which 15 fit: the victim has 60, as it had on the device.
            Self::GreenContext => [(0, 60), (60, 72)],
        }
    }
}

/// A victim beside an aggressor that saturates the resource when it is alone.
#[derive(Debug, Clone, Copy)]
pub struct Pair {
    pub axis: Axis,
    pub victim_blocks: u64,
    /// What the victim alone uses of what the aggressor alone uses.
    pub victim_share: f64,
}

pub fn machine() -> Result<Machine, MachineError> {
    let mut machine = Machine::load("h100-80")?;
    machine.noise = Noise::default();
    Ok(machine)
}

#[derive(Default)]
struct Memory {
    ops: HashMap<(usize, u64), Op>,
    events: RefCell<HashMap<u32, u64>>,
}

impl Queues for Memory {
    fn op(&self, stream: usize, seq: u64) -> Op {
        self.ops[&(stream, seq)]
    }
    fn set_event_time(&self, event: u32, time_ns: u64) {
        self.events.borrow_mut().insert(event, time_ns);
    }
    fn put_span(&self, _stream: usize, _seq: u64, _span: Interval) {}
    fn put_interval(&self, _group: u32, _index: u64, _interval: Interval) {}
}

fn submit(state: &mut State, memory: &mut Memory, stream: usize, op: Op) {
    let seq = state.streams.rows[stream].submitted;
    memory.ops.insert((stream, seq), op);
    state.streams.rows[stream].submitted += 1;
}

/// A device with a victim and its neighbour, in one group.
fn device(machine: &Machine, mechanism: Mechanism) -> Box<State> {
    let mut state = State::new(1, 0);
    mig::undivided(&mut state, machine);
    let all = machine.gpu.sm_count;
    for (tenant, (sm_first, sm_count)) in mechanism.sms().into_iter().enumerate() {
        let mut context = Context {
            live: true,
            space: tenant as u32,
            sm_first,
            sm_count,
            sm_share: ONE * u64::from(sm_count) / u64::from(all),
            ..Context::default()
        };
        if mechanism == Mechanism::MpsQuota {
            context.server = 0;
        }
        state.contexts.rows[tenant] = context;
        let is_first = mechanism == Mechanism::StreamPriority && tenant == 0;
        state.streams.rows[tenant] = Stream {
            live: true,
            context: tenant as u32,
            priority: if is_first { -5 } else { 0 },
            ..Stream::default()
        };
    }
    (state.contexts.used, state.streams.used) = (2, 2);
    state.instances.used = 1;
    state.engines.used = 1;
    state
}

/// A kernel that uses this share of the pair's resource, with so many blocks on so many SMs.
fn kernel(machine: &Machine, axis: Axis, share: f64, blocks: u64, sms: u64) -> Op {
    let mut op = Op {
        kind: OpKind::Kernel,
        sms: sms as u32,
        in_flight: machine.in_flight(&Resident {
            block_bytes: axis.block_bytes(),
            blocks,
            sms,
            bandwidth: 1.0,
        }),
        ..Op::default()
    };
    let all = u64::from(machine.gpu.sm_count) * BLOCKS_PER_SM;
    let fixed = |share: f64| (share.min(1.0) * ONE as f64) as u32;
    op.demand[axis.resource() as usize] = fixed(share);
    op.demand[Resource::SmSlots as usize] = fixed(blocks as f64 / all as f64);
    op
}

/// The kernels of the victim and of a neighbour.
fn kernels(machine: &Machine, pair: &Pair, mechanism: Mechanism) -> [Op; 2] {
    let all = u64::from(machine.gpu.sm_count);
    let sms = match mechanism.sms()[1].1 {
        0 => all,
        sms => sms.into(),
    };
    // Memory is full with the neighbour's SMs alone; arithmetic fills only these.
    let share = match pair.axis {
        Axis::Sm => sms as f64 / all as f64,
        Axis::Dram | Axis::L2 => 1.0,
    };
    let (victim, axis) = (pair.victim_blocks, pair.axis);
    [
        kernel(machine, axis, pair.victim_share, victim, victim.min(all)),
        kernel(machine, axis, share, sms * BLOCKS_PER_SM, sms),
    ]
}

/// The rate that the victim keeps beside a neighbour that always works.
pub fn retention(machine: &Machine, pair: &Pair, mechanism: Mechanism) -> f64 {
    let [victim, hog] = kernels(machine, pair, mechanism);
    let (mut state, mut memory) = (device(machine, mechanism), Memory::default());
    let (rules, done, alone_ns) = (machine.rules(), 1, 1_000_000);
    let rules = Rules { power_cap_mw: u64::MAX, ..rules };
    submit(&mut state, &mut memory, 0, Op { alone_ns, ..victim });
    let record = Op { kind: OpKind::Record, target: done, ..Op::default() };
    submit(&mut state, &mut memory, 0, record);
    submit(&mut state, &mut memory, 1, Op { alone_ns: NEVER / ONE / 2, ..hog });
    loop {
        settle(&mut state, &memory, &rules);
        if let Some(&at) = memory.events.borrow().get(&done) {
            return alone_ns as f64 / at as f64;
        }
        let next = next_event_ns(&state, &memory);
        assert!(next < NEVER, "the victim never ends");
        advance_to(&mut state, &memory, &rules, next);
    }
}
