//! The process: its device and the objects behind its handles.

use std::cell::RefCell;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::ThreadId;

use crate::backing_store::BackingStore;
use crate::code::{self, Code};
use crate::cost::Part;
use crate::device::Device;
use crate::entries::ContextPlacement;
pub use crate::entries::{ContextEntry, EventEntry, FunctionEntry, StreamEntry};
use crate::handles::Handle;
use crate::launch::cache::costs::CostCache;
use crate::rules::Rule;
use crate::session;
pub use crate::tables::Tables;
use gpubench_virtual_gpu_model::machine::HostCosts;

/// One process on one device.
pub struct Process {
    pub device: Arc<Device>,
    pub contents: BackingStore,
    tables: Mutex<Tables>,
    cost_cache: Mutex<CostCache>,
}

thread_local! {
    /// The thread's stack of current contexts.
    static CURRENT: RefCell<Stack> =
        RefCell::new(Stack { thread: std::thread::current().id(), contexts: Vec::new() });
}

/// The contexts on the stacks of all threads.
static STACKED: Mutex<Vec<(ThreadId, usize)>> = Mutex::new(Vec::new());

/// The current contexts of a thread.
struct Stack {
    thread: ThreadId,
    contexts: Vec<Handle>,
}

impl Stack {
    /// Puts a context on it, unless the context is for one thread and on the stack of another.
    fn push(&mut self, handle: Handle, one_thread: bool) -> Result<(), Code> {
        // Consistent between statements, as the tables are.
        let mut stacked = STACKED.lock().unwrap_or_else(PoisonError::into_inner);
        let held = |&(thread, context): &_| thread != self.thread && context == handle as usize;
        if one_thread && stacked.iter().any(held) {
            return Err(Rule::OneThread.broken());
        }
        stacked.push((self.thread, handle as usize));
        self.contexts.push(handle);
        Ok(())
    }

    fn pop(&mut self) -> Option<Handle> {
        let handle = self.contexts.pop()?;
        let mut stacked = STACKED.lock().unwrap_or_else(PoisonError::into_inner);
        let at = stacked.iter().position(|of| *of == (self.thread, handle as usize));
        if let Some(at) = at {
            stacked.swap_remove(at);
        }
        Some(handle)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}

fn open_device() -> Result<Arc<Device>, String> {
    let dir = std::env::var_os(session::ENV)
        .ok_or_else(|| format!("{} is not set: no virtual GPU was started", session::ENV))?;
    Device::open(Path::new(&dir)).map(Arc::new).map_err(|error| error.to_string())
}

/// The device that the environment names.
pub fn device() -> Result<Arc<Device>, Code> {
    static DEVICE: OnceLock<Result<Arc<Device>, String>> = OnceLock::new();
    let opened = DEVICE.get_or_init(|| {
        let opened = open_device();
        if let Err(reason) = &opened {
            crate::diagnostics::say(reason);
        }
        opened
    });
    opened.clone().map_err(|_| code::NO_DEVICE)
}

/// The process on its device.
pub fn process() -> Result<&'static Process, Code> {
    static PROCESS: OnceLock<Result<Process, Code>> = OnceLock::new();
    PROCESS
        .get_or_init(|| {
            let device = device()?;
            let path = device.dir().join(session::MEMORY_FILE);
            let store = BackingStore::open(&path, session::memory_bytes(device.machine()));
            let contents = store.map_err(|error| {
                crate::diagnostics::say(&format!("device memory {}: {error}", path.display()));
                code::NO_DEVICE
            })?;
            let cost_cache = Mutex::new(CostCache::of(device.dir()));
            Ok(Process { device, contents, tables: Mutex::new(Tables::default()), cost_cache })
        })
        .as_ref()
        .map_err(|&code| code)
}

impl Process {
    /// What calls cost the host on this machine.
    pub fn host(&self) -> &HostCosts {
        &self.device.machine().host
    }

    /// Charges the calling thread for host work.
    pub fn charge(&self, cost_ns: u64) -> Result<(), Code> {
        Ok(self.device.charge(cost_ns)?)
    }

    /// Charges the calling thread for host work, part of it under the lock of the driver.
    pub fn charge_locked(&self, cost_ns: u64) -> Result<(), Code> {
        Ok(self.device.charge_locked(cost_ns)?)
    }

    /// The answer of a call that the driver refuses, which takes it time too.
    pub fn refuse<T>(&self, code: Code) -> Result<T, Code> {
        self.refuse_after(self.host().refused_ns, code)
    }

    /// The same, with another time.
    pub fn refuse_after<T>(&self, cost_ns: u64, code: Code) -> Result<T, Code> {
        if cost_ns > 0 {
            self.charge(cost_ns)?;
        }
        Err(code)
    }

    /// The tables. Never hold them across a wait: other participants would block on the lock, which
    /// the model does not know.
    pub fn tables(&self) -> MutexGuard<'_, Tables> {
        // A panic while the tables were held is a bug that was already reported by `guard`; the
        // tables themselves are consistent between statements.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn cost_cache(&self) -> MutexGuard<'_, CostCache> {
        // Consistent between statements, as the tables are.
        self.cost_cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tables of an initialised process.
    pub fn ready(&self) -> Result<MutexGuard<'_, Tables>, Code> {
        let tables = self.tables();
        if tables.initialised { Ok(tables) } else { Err(code::NOT_INITIALIZED) }
    }

    /// The context current to the calling thread.
    pub fn current(&self) -> Result<ContextEntry, Code> {
        let context = self.current_even_if_broken()?;
        self.check_sticky(context.slot)?;
        Ok(context)
    }

    /// The context current to the calling thread, broken or not.
    pub fn current_even_if_broken(&self) -> Result<ContextEntry, Code> {
        let handle = current_handle().ok_or(code::INVALID_CONTEXT)?;
        let tables = self.ready()?;
        tables.contexts.get(handle).cloned().map_err(|_| code::CONTEXT_IS_DESTROYED)
    }

    /// The part of the device that kernels of a context may use in a placement.
    pub fn part(&self, slot: u32, placement: &ContextPlacement) -> Result<Part, Code> {
        let tables = self.tables();
        let found = tables.contexts.values().find(|context| context.slot == slot);
        let whole = found.ok_or(code::INVALID_CONTEXT)?.part;
        Ok(Part { sm_first: placement.sm_first, sm_count: placement.sm_count, ..whole })
    }

    /// The error that sticks to a context.
    pub fn check_sticky(&self, context: u32) -> Result<(), Code> {
        let sticky =
            self.device.shared().read(|state| state.contexts.rows[context as usize].sticky)?;
        if sticky == 0 { Ok(()) } else { Err(Code(sticky)) }
    }

    /// Host address of an offset in device memory.
    pub fn host_address(&self, offset: u64, bytes: u64) -> Result<*mut u8, Code> {
        self.contents.pointer(offset, bytes).ok_or(code::UNKNOWN)
    }
}

/// The handle of the thread's current context.
pub fn current_handle() -> Option<Handle> {
    let top = CURRENT.with_borrow(|stack| stack.contexts.last().copied());
    top.filter(|handle| !handle.is_null())
}

/// Replaces the top of the thread's stack of contexts.
pub fn set_current(handle: Handle, one_thread: bool) -> Result<(), Code> {
    CURRENT.with_borrow_mut(|stack| {
        if handle.is_null() {
            stack.pop();
            return Ok(());
        }
        let top = stack.contexts.len().checked_sub(1);
        stack.push(handle, one_thread)?;
        if let Some(top) = top {
            stack.contexts.swap(top, top + 1);
            stack.pop();
        }
        Ok(())
    })
}

/// Puts a context on the thread's stack.
pub fn push_current(handle: Handle, one_thread: bool) -> Result<(), Code> {
    CURRENT.with_borrow_mut(|stack| stack.push(handle, one_thread))
}

/// Takes the top off the thread's stack.
pub fn pop_current() -> Option<Handle> {
    CURRENT.with_borrow_mut(Stack::pop)
}
