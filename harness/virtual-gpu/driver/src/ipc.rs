//! Memory and events of other processes: handles to pass on, and what they open.
//!
//! A handle names the owner of the memory and its offset in device memory. The owner of memory that
//! `cuIpcOpenMemHandle` opened is checked at every use: when it has freed the memory or has ended,
//! a copy is refused and a kernel faults.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use crate::code::{self, Code, refuse};
use crate::entries::{Origin, Owner};
use crate::process::Process;
use crate::virtual_memory::GRANULARITY;
use gpubench_virtual_gpu_model::memory;

/// What a handle names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Memory = 1,
    Event = 2,
    /// Physical memory without an address.
    Physical = 3,
}

const MAGIC: u64 = 0x4750_4256_4950_4331;

/// The contents of the 64 bytes of a handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    pub kind: u64,
    /// Distinguishes this device from any other.
    pub device: u64,
    /// The process that owns the memory or event.
    pub owner: Owner,
    pub bytes: u64,
}

impl Ticket {
    /// A ticket for something of this process.
    pub fn new(process: &Process, kind: Kind, place: u64, bytes: u64) -> Result<Self, Code> {
        let slot = process.device.process()?;
        let number = match kind {
            Kind::Event => Some(0),
            Kind::Memory | Kind::Physical => number_of(process, slot, place)?,
        };
        let owner = Owner {
            process: slot,
            pid: std::process::id(),
            offset: place,
            number: number.ok_or(code::INVALID_VALUE)?,
        };
        let device = process.device.session().wall_epoch_ns;
        Ok(Self { kind: kind as u64, device, owner, bytes })
    }

    /// The 64 bytes of a handle.
    pub fn pack(&self) -> [u8; 64] {
        let words = [
            MAGIC,
            self.kind,
            self.device,
            self.owner.process.into(),
            self.owner.pid.into(),
            self.owner.offset,
            self.bytes,
            self.owner.number,
        ];
        let mut out = [0; 64];
        for (place, word) in out.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&u64::to_le_bytes(word));
        }
        out
    }

    /// The ticket in a handle.
    pub fn unpack(process: &Process, kind: Kind, bytes: &[u8; 64]) -> Result<Self, Code> {
        let mut words = [0; 8];
        for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(chunk.try_into().map_err(|_| code::INVALID_VALUE)?);
        }
        let [magic, found, device, slot, pid, offset, bytes, number] = words;
        let narrow = |word: u64| u32::try_from(word).map_err(|_| code::INVALID_VALUE);
        let ours = device == process.device.session().wall_epoch_ns;
        refuse(magic != MAGIC || found != kind as u64 || !ours, code::INVALID_VALUE)?;
        let owner = Owner { process: narrow(slot)?, pid: narrow(pid)?, offset, number };
        Ok(Self { kind: found, device, owner, bytes })
    }
}

/// Maps another process's memory; once for each context, however often it is opened.
pub fn open(process: &Process, context: u32, ticket: &Ticket) -> Result<u64, Code> {
    let mut tables = process.ready()?;
    let owner = Some(ticket.owner);
    let mine =
        |entry: &crate::entries::AllocationEntry| entry.owner == owner && entry.context == context;
    for (&address, entry) in &mut tables.allocations {
        if mine(entry)
            && let Origin::Opened(opens) = &mut entry.origin
        {
            *opens += 1;
            return Ok(address);
        }
    }
    let whole = ticket.bytes.next_multiple_of(GRANULARITY);
    let address = tables.addresses.take(whole, GRANULARITY, 0).ok_or(code::OUT_OF_MEMORY)?;
    tables.enter(address, ticket.bytes, context, ticket.owner.offset, Origin::Opened(1));
    if let Some(entry) = tables.allocations.get_mut(&address) {
        entry.open = true;
        entry.owner = owner;
    }
    Ok(address)
}

/// Number of the process's own allocation at a place in device memory.
fn number_of(process: &Process, slot: u32, offset: u64) -> Result<Option<u64>, Code> {
    let read = process.device.shared().read(|state| {
        let mut rows = state.allocations.live().iter();
        let own = rows.find(|a| a.live && a.process == slot && a.offset == offset);
        own.map(|a| a.number)
    });
    Ok(read?)
}

/// Whether the process that gave a handle away is still there.
pub fn owner_lives(process: &Process, owner: &Owner) -> Result<bool, Code> {
    if owner.process as usize >= gpubench_virtual_gpu_model::state::PROCESSES {
        return Ok(false);
    }
    let shared = process.device.shared();
    let same =
        shared.read(|state| state.processes.rows[owner.process as usize].pid == owner.pid)?;
    Ok(same && shared.life_held_elsewhere(owner.process)?)
}

/// Whether the memory that a handle names is still there.
pub fn is_there(process: &Process, owner: &Owner, bytes: u64) -> Result<bool, Code> {
    let read = process.device.shared().read(|state| {
        state.allocations.live().iter().any(|a| {
            let same = a.live && a.process == owner.process && a.number == owner.number;
            same && a.offset == owner.offset && a.bytes >= bytes
        })
    });
    Ok(read? && owner_lives(process, owner)?)
}

/// Whether memory lies in the GPU instance of a context: CUDA IPC goes from one compute instance to
/// another of the same GPU instance, and no further (MIG user guide, "CUDA IPC").
pub fn is_in_reach(process: &Process, context: u32, owner: &Owner) -> Result<bool, Code> {
    let read = process.device.shared().read(|state| {
        let mut rows = state.allocations.live().iter();
        let found = rows.find(|a| a.live && a.process == owner.process && a.number == owner.number);
        found.is_some_and(|a| a.instance == memory::instance_of(state, context))
    });
    Ok(read?)
}

/// Whether memory of another process may still be used here. Of one's own it may.
pub fn is_usable(process: &Process, owner: Option<Owner>, bytes: u64) -> Result<bool, Code> {
    owner.map_or(Ok(true), |owner| is_there(process, &owner, bytes))
}

/// Refuses an address in memory of a process that has ended.
pub fn check_opened(process: &Process, address: u64) -> Result<(), Code> {
    let owned = {
        let tables = process.ready()?;
        tables.covering(address, 1).and_then(|(_, entry)| Some((entry.owner?, entry.bytes)))
    };
    match owned {
        Some((owner, bytes)) if !is_there(process, &owner, bytes)? => Err(code::INVALID_VALUE),
        _ => Ok(()),
    }
}

/// The file in which processes publish the last recordings of shared events.
fn events_file(process: &Process) -> Result<&'static File, Code> {
    static FILE: OnceLock<Option<File>> = OnceLock::new();
    let path = process.device.dir().join("events");
    let opened = FILE.get_or_init(|| {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).open(path).ok()
    });
    opened.as_ref().ok_or(code::OPERATING_SYSTEM)
}

/// Bytes of one event in that file: stream slot plus one, sequence number.
const EVENT_BYTES: u64 = 16;

/// Stream and sequence number of the last recording of a shared event.
pub fn event_recorded(process: &Process, index: u32) -> Result<Option<(u32, u64)>, Code> {
    let mut out = [0; EVENT_BYTES as usize];
    let file = events_file(process)?;
    file.read_exact_at(&mut out, u64::from(index) * EVENT_BYTES)
        .map_err(|_| code::OPERATING_SYSTEM)?;
    let word = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&out[at..at + 8]);
        u64::from_le_bytes(bytes)
    };
    let stream = u32::try_from(word(0))
        .ok()
        .filter(|&s| s as usize <= gpubench_virtual_gpu_model::state::STREAMS);
    Ok(stream.and_then(|plus_one| Some((plus_one.checked_sub(1)?, word(8)))))
}

/// Notes the last recording of a shared event.
pub fn set_event_recorded(
    process: &Process,
    index: u32,
    recorded: Option<(u32, u64)>,
) -> Result<(), Code> {
    let (stream, seq) = recorded.map_or((0, 0), |(stream, seq)| (u64::from(stream) + 1, seq));
    let mut out = [0; EVENT_BYTES as usize];
    out[..8].copy_from_slice(&stream.to_le_bytes());
    out[8..].copy_from_slice(&seq.to_le_bytes());
    let file = events_file(process)?;
    file.write_all_at(&out, u64::from(index) * EVENT_BYTES).map_err(|_| code::OPERATING_SYSTEM)
}
