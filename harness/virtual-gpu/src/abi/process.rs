//! What one process holds: the device it uses and the objects behind its handles.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::code::{self, Code};
use super::handles::{Handle, Slab};
use crate::contents::Contents;
use crate::cost::Part;
use crate::device::Device;
use crate::ptx;
use crate::session;

/// A context.
#[derive(Debug, Clone)]
pub struct ContextEntry {
    /// Slot in the shared state.
    pub slot: u32,
    /// Stream behind the null handle.
    pub default_stream: u32,
    /// Flags it was created with.
    pub flags: u32,
    /// Limits that the program set, by number.
    pub limits: BTreeMap<i32, usize>,
    /// The part of the device that its kernels may use.
    pub part: Part,
}

/// A loaded module.
#[derive(Debug)]
pub struct ModuleEntry {
    /// Context slot.
    pub context: u32,
    /// The program, bound to the addresses of its variables.
    pub program: Arc<ptx::Program>,
    /// Address and size of each variable.
    pub symbols: BTreeMap<String, (u64, u64)>,
    /// Hash of the text.
    pub hash: u64,
}

/// A kernel of a module.
#[derive(Debug, Clone)]
pub struct FunctionEntry {
    /// Context slot.
    pub context: u32,
    /// Its program.
    pub program: Arc<ptx::Program>,
    /// Its name.
    pub name: String,
    /// Hash of the module's text.
    pub hash: u64,
    /// Dynamic shared memory that the program allowed.
    pub max_dynamic_shared: u32,
}

/// A stream.
#[derive(Debug, Clone, Copy)]
pub struct StreamEntry {
    /// Slot in the shared state.
    pub slot: u32,
    /// Context slot.
    pub context: u32,
    /// Flags it was created with.
    pub flags: u32,
    /// Priority it was created with.
    pub priority: i32,
}

/// An event.
#[derive(Debug, Clone, Copy)]
pub struct EventEntry {
    /// Index in the shared table of times.
    pub index: u32,
    /// Context slot.
    pub context: u32,
    /// Whether it keeps no time.
    pub timing_disabled: bool,
    /// Stream and sequence number of its last recording.
    pub recorded: Option<(u32, u64)>,
}

/// One device allocation of this process.
#[derive(Debug, Clone, Copy)]
pub struct AllocationEntry {
    /// Length.
    pub bytes: u64,
    /// Context slot.
    pub context: u32,
    /// Changes whenever something is written to it.
    pub version: u64,
    /// A sampled launch or a skipped copy should have written it and did not: reading it must fail.
    pub unwritten: bool,
}

/// Everything behind handles.
#[derive(Debug)]
pub struct Tables {
    /// Whether `cuInit` was called.
    pub initialised: bool,
    /// Contexts.
    pub contexts: Slab<ContextEntry>,
    /// Modules.
    pub modules: Slab<ModuleEntry>,
    /// Kernels.
    pub functions: Slab<FunctionEntry>,
    /// Streams.
    pub streams: Slab<StreamEntry>,
    /// Events.
    pub events: Slab<EventEntry>,
    /// The primary context, how often it is retained, and its flags.
    pub primary: Option<(usize, u32)>,
    /// Flags for the primary context.
    pub primary_flags: u32,
    /// Allocations by device address.
    pub allocations: BTreeMap<u64, AllocationEntry>,
    /// Pinned host memory: address to length.
    pub pinned: BTreeMap<usize, (usize, u32)>,
    /// The last large copy to each destination: source and length.
    pub copies: HashMap<u64, (usize, u64)>,
    /// What launches cost and wrote, by everything that decides it.
    pub launches: crate::launch::Memory,
    /// Next version of an allocation.
    pub next_version: u64,
}

/// One process on one device.
pub struct Process {
    /// The device.
    pub device: Arc<Device>,
    /// Its memory.
    pub contents: Contents,
    tables: Mutex<Tables>,
}

thread_local! {
    /// The thread's stack of current contexts.
    static CURRENT: RefCell<Vec<Handle>> = const { RefCell::new(Vec::new()) };
}

fn open_device() -> Result<Arc<Device>, String> {
    let dir = std::env::var_os(session::ENV)
        .ok_or_else(|| format!("{} is not set: no virtual GPU was started", session::ENV))?;
    Device::open(Path::new(&dir))
        .map(Arc::new)
        .map_err(|error| error.to_string())
}

/// The device that the environment names.
///
/// # Errors
/// When it names none; the reason has been said.
pub fn device() -> Result<Arc<Device>, Code> {
    static DEVICE: OnceLock<Result<Arc<Device>, String>> = OnceLock::new();
    let opened = DEVICE.get_or_init(|| {
        let opened = open_device();
        if let Err(reason) = &opened {
            super::say(reason);
        }
        opened
    });
    opened.clone().map_err(|_| code::NO_DEVICE)
}

/// The process on its device.
///
/// # Errors
/// When there is no device.
pub fn process() -> Result<&'static Process, Code> {
    static PROCESS: OnceLock<Result<Process, Code>> = OnceLock::new();
    PROCESS
        .get_or_init(|| {
            let device = device()?;
            let path = device.dir().join(session::MEMORY_FILE);
            let contents = Contents::open(&path).map_err(|error| {
                super::say(&format!("device memory {}: {error}", path.display()));
                code::NO_DEVICE
            })?;
            Ok(Process {
                device,
                contents,
                tables: Mutex::new(Tables::new()),
            })
        })
        .as_ref()
        .map_err(|&code| code)
}

impl Tables {
    fn new() -> Self {
        Self {
            initialised: false,
            contexts: Slab::new(1),
            modules: Slab::new(2),
            functions: Slab::new(3),
            streams: Slab::new(4),
            events: Slab::new(5),
            primary: None,
            primary_flags: 0,
            allocations: BTreeMap::new(),
            pinned: BTreeMap::new(),
            copies: HashMap::new(),
            launches: crate::launch::Memory::default(),
            next_version: 1,
        }
    }

    /// The allocation that covers a range, by its address.
    #[must_use]
    pub fn covering(&self, address: u64, bytes: u64) -> Option<(u64, &AllocationEntry)> {
        let (&start, entry) = self.allocations.range(..=address).next_back()?;
        let end = address.checked_add(bytes)?;
        (end <= start + entry.bytes).then_some((start, entry))
    }

    /// Notes that an allocation was written to.
    pub fn wrote(&mut self, start: u64, unwritten: bool) {
        let version = self.next_version;
        self.next_version += 1;
        if let Some(entry) = self.allocations.get_mut(&start) {
            entry.version = version;
            entry.unwritten = unwritten;
        }
    }
}

impl Process {
    /// The tables. Never hold them across a wait: other participants would block behind the
    /// model's back.
    pub fn tables(&self) -> MutexGuard<'_, Tables> {
        // A panic while the tables were held is a bug that was already reported by `guard`; the
        // tables themselves are consistent between statements.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tables of an initialised process.
    ///
    /// # Errors
    /// Before `cuInit`.
    pub fn ready(&self) -> Result<MutexGuard<'_, Tables>, Code> {
        let tables = self.tables();
        if tables.initialised {
            Ok(tables)
        } else {
            Err(code::NOT_INITIALIZED)
        }
    }

    /// The context current to the calling thread.
    ///
    /// # Errors
    /// When there is none, or when it broke: a sticky error comes back from every call.
    pub fn current(&self) -> Result<ContextEntry, Code> {
        let context = self.current_even_if_broken()?;
        self.check_sticky(context.slot)?;
        Ok(context)
    }

    /// The context current to the calling thread, whatever became of it.
    ///
    /// # Errors
    /// When there is none.
    pub fn current_even_if_broken(&self) -> Result<ContextEntry, Code> {
        let handle = current_handle().ok_or(code::INVALID_CONTEXT)?;
        let tables = self.ready()?;
        tables
            .contexts
            .get(handle)
            .cloned()
            .map_err(|_| code::CONTEXT_IS_DESTROYED)
    }

    /// The part of the device that a context's kernels may use.
    ///
    /// # Errors
    /// When there is no such context.
    pub fn part(&self, slot: u32) -> Result<Part, Code> {
        let tables = self.tables();
        let found = tables
            .contexts
            .values()
            .find(|context| context.slot == slot);
        found
            .map(|context| context.part)
            .ok_or(code::INVALID_CONTEXT)
    }

    /// The error that sticks to a context.
    ///
    /// # Errors
    /// That error.
    pub fn check_sticky(&self, context: u32) -> Result<(), Code> {
        let sticky = self
            .device
            .shared()
            .read(|state| state.contexts.rows[context as usize].sticky)
            .map_err(|error| Code::from(crate::device::DeviceError::State(error)))?;
        if sticky == 0 {
            Ok(())
        } else {
            Err(Code(sticky))
        }
    }

    /// The stream behind a handle, the default stream for the null handle and its two names.
    ///
    /// # Errors
    /// When the handle is dead or its context broke.
    pub fn stream(&self, handle: Handle) -> Result<StreamEntry, Code> {
        let context = self.current_even_if_broken();
        // CU_STREAM_LEGACY and CU_STREAM_PER_THREAD (cuda.h) are 1 and 2.
        let entry = if (handle as usize) <= 2 {
            let context = context?;
            StreamEntry {
                slot: context.default_stream,
                context: context.slot,
                flags: 0,
                priority: 0,
            }
        } else {
            *self.ready()?.streams.get(handle)?
        };
        self.check_sticky(entry.context)?;
        Ok(entry)
    }
}

/// The handle of the thread's current context.
#[must_use]
pub fn current_handle() -> Option<Handle> {
    CURRENT
        .with_borrow(|stack| stack.last().copied())
        .filter(|handle| !handle.is_null())
}

/// Replaces the top of the thread's stack of contexts.
pub fn set_current(handle: Handle) {
    CURRENT.with_borrow_mut(|stack| {
        stack.pop();
        if !handle.is_null() {
            stack.push(handle);
        }
    });
}

/// Puts a context on the thread's stack.
pub fn push_current(handle: Handle) {
    CURRENT.with_borrow_mut(|stack| stack.push(handle));
}

/// Takes the top off the thread's stack.
#[must_use]
pub fn pop_current() -> Option<Handle> {
    CURRENT.with_borrow_mut(Vec::pop)
}
