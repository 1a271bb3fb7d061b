//! The shared state file: mapping, the robust lock over it, the two copies of the model, and the
//! futexes on which participants sleep.
//!
//! Every process that loads the virtual GPU maps the same file. The file is allocated in full when
//! it is created, because a sparse file on a full disk ends in SIGBUS at first access. The process
//! that holds the lock changes the copy that is *not* published and publishes it with one atomic
//! store. If that process dies, the old copy stays valid.
#![expect(
    unsafe_code,
    reason = "a shared mapping and process-shared pthread locks have no safe form"
)]

use std::cell::UnsafeCell;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::crash::{self, Place};
use crate::kernel_log::KernelLog;
use gpubench_virtual_gpu_model::simulation::Queues;
use gpubench_virtual_gpu_model::state::{
    CONTEXTS, EVENTS, INTERVALS, Interval, Op, PARTICIPANTS, RING, STREAMS, State,
};

/// First word of a state file; changes with the layout.
const MAGIC: u64 = 0x4750_4256_4750_5506;

/// Layout of the file. All of it is plain data: any bit pattern that this code wrote is valid.
#[repr(C)]
struct Layout {
    magic: AtomicU64,
    bytes: AtomicU64,
    active: AtomicU32,
    /// Incremented by every change in wall time, so that waiters check again.
    change: AtomicU32,
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    states: [UnsafeCell<State>; 2],
    /// One futex word for each participant; see [`Shared::sleep`].
    words: [AtomicU32; PARTICIPANTS],
    /// Completion time of each device event. Written by the model when the recording operation
    /// completes; a repeated write after a crash stores the same value.
    event_times: [AtomicU64; EVENTS],
    /// Process slot + 1 that owns each event, 0 if free.
    event_owners: [AtomicU32; EVENTS],
    /// Operations of each stream, a ring indexed by sequence number. Immutable once submitted.
    rings: [[UnsafeCell<Op>; RING]; STREAMS],
    /// Spans during which each group of contexts had the compute engine, a ring each.
    intervals: [[UnsafeCell<Interval>; INTERVALS]; CONTEXTS],
    /// Start and end of each operation of the rings.
    spans: [[UnsafeCell<Interval>; RING]; STREAMS],
}

pub struct Shared {
    base: *mut Layout,
    /// Kept open: it carries the life lock of this process.
    file: File,
    kernel_log: KernelLog,
    /// Where this process starts its next search for a free event.
    next_event: AtomicU32,
}

// SAFETY: all shared parts are atomics or are accessed only under the process-shared mutex.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

fn last_error() -> io::Error {
    io::Error::last_os_error()
}

fn check(code: libc::c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) }
}

impl Shared {
    pub fn create(path: &Path, initial: &State) -> io::Result<Self> {
        let file = File::options().read(true).write(true).create_new(true).open(path)?;
        let bytes = size_of::<Layout>();
        // SAFETY: plain call on an open descriptor; it accesses no memory of this process.
        check(unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, bytes as libc::off_t) })?;
        let shared = Self::map(file, KernelLog::beside(path)?)?;
        let layout = shared.layout();
        // SAFETY: no other process can have the file open: its magic number is not written yet, and
        // `open` refuses files without it.
        unsafe {
            init_mutex(layout.mutex.get())?;
            *layout.states[0].get() = *initial;
            *layout.states[1].get() = *initial;
        }
        layout.bytes.store(bytes as u64, Ordering::Relaxed);
        layout.magic.store(MAGIC, Ordering::Release);
        Ok(shared)
    }

    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(path)?;
        let length = file.metadata()?.len();
        if length != size_of::<Layout>() as u64 {
            return Err(io::Error::other("not a virtual GPU state file of this version"));
        }
        let shared = Self::map(file, KernelLog::beside(path)?)?;
        let layout = shared.layout();
        if layout.magic.load(Ordering::Acquire) != MAGIC
            || layout.bytes.load(Ordering::Relaxed) != length
        {
            return Err(io::Error::other("not a virtual GPU state file of this version"));
        }
        Ok(shared)
    }

    fn map(file: File, kernel_log: KernelLog) -> io::Result<Self> {
        // SAFETY: a fresh shared mapping of an open file, checked for failure below.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<Layout>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(last_error());
        }
        Ok(Self { base: base.cast(), file, kernel_log, next_event: AtomicU32::new(0) })
    }

    fn layout(&self) -> &Layout {
        // SAFETY: the mapping is as large as `Layout`, page aligned, and lives as long as `self`;
        // everything that changes in it is behind atomics or `UnsafeCell`.
        unsafe { &*self.base }
    }

    /// Runs `body` on a private copy of the state and publishes the copy.
    pub fn transact<R>(&self, body: impl FnOnce(&mut State, &QueueView<'_>) -> R) -> io::Result<R> {
        let layout = self.layout();
        let _guard = Guard::lock(layout)?;
        crash::pass(Place::Locked);
        let active = layout.active.load(Ordering::Relaxed) as usize & 1;
        let shadow = 1 - active;
        // SAFETY: the lock is held, so no other thread accesses either copy; the two are distinct.
        let (published, draft) =
            unsafe { (&*layout.states[active].get(), &mut *layout.states[shadow].get()) };
        draft.copy_used(published);
        crash::pass(Place::Copied);
        let result = body(draft, &QueueView { layout });
        if draft.xids_raised != published.xids_raised {
            self.kernel_log.write_news(draft, published.xids_raised)?;
        }
        crash::pass(Place::Changed);
        layout.active.store(shadow as u32, Ordering::Release);
        crash::pass(Place::Published);
        Ok(result)
    }

    /// Reads the state without changing it.
    pub fn read<R>(&self, body: impl FnOnce(&State) -> R) -> io::Result<R> {
        let layout = self.layout();
        let _guard = Guard::lock(layout)?;
        crash::pass(Place::Reading);
        let active = layout.active.load(Ordering::Relaxed) as usize & 1;
        // SAFETY: the lock is held, and `body` only reads.
        Ok(body(unsafe { &*layout.states[active].get() }))
    }

    /// Completion time of a device event, as last written by the model.
    pub fn event_time_ns(&self, event: u32) -> u64 {
        self.layout().event_times[event as usize].load(Ordering::Acquire)
    }

    /// Takes a free event for the process in `slot`.
    pub fn claim_event(&self, slot: u32) -> Option<u32> {
        let owners = &self.layout().event_owners;
        let first = self.next_event.load(Ordering::Relaxed) as usize;
        for step in 0..EVENTS {
            let index = (first + step) % EVENTS;
            let owner = &owners[index];
            let free = owner.load(Ordering::Relaxed) == 0
                && owner.compare_exchange(0, slot + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok();
            if free {
                crash::pass(Place::Claimed);
                let next = (index as u32 + 1) % EVENTS as u32;
                self.next_event.store(next, Ordering::Relaxed);
                return Some(index as u32);
            }
        }
        None
    }

    pub fn free_event(&self, event: u32) {
        self.layout().event_owners[event as usize].store(0, Ordering::Release);
    }

    /// Frees every event of a process.
    pub fn free_events_of(&self, slot: u32) {
        for owner in &self.layout().event_owners {
            let _ = owner.compare_exchange(slot + 1, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// The present value of a participant's futex word, to be read before a sleep.
    pub fn word(&self, participant: usize) -> u32 {
        self.layout().words[participant].load(Ordering::Acquire)
    }

    /// Wakes a participant that has been granted the clock.
    pub fn wake(&self, participant: usize) {
        let word = &self.layout().words[participant];
        word.fetch_add(1, Ordering::Release);
        futex_wake(word, 1);
    }

    /// Sleeps until the participant's word is no longer `old`, or `limit` has passed.
    pub fn sleep(&self, participant: usize, old: u32, limit: Duration) {
        futex_wait(&self.layout().words[participant], old, limit);
    }

    /// Wall time: the present change count.
    pub fn change(&self) -> u32 {
        self.layout().change.load(Ordering::Acquire)
    }

    /// Wall time: makes every waiter check again.
    pub fn notify_change(&self) {
        let word = &self.layout().change;
        word.fetch_add(1, Ordering::Release);
        futex_wake(word, i32::MAX);
    }

    /// Wall time: sleeps until the change count is no longer `old`, or `limit` has passed.
    pub fn sleep_on_change(&self, old: u32, limit: Duration) {
        futex_wait(&self.layout().change, old, limit);
    }

    /// Locks the byte that marks process `slot` as alive. The kernel drops the lock when the
    /// process ends for any reason. Record locks belong to the process, not to the thread, and
    /// a zombie holds none.
    pub fn claim_life(&self, slot: u32) -> io::Result<()> {
        let lock = life_lock(slot, libc::F_WRLCK);
        // SAFETY: plain call with a fully initialised argument.
        if unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_SETLK, &raw const lock) } == -1 {
            return Err(last_error());
        }
        Ok(())
    }

    /// Whether another process holds the life lock of `slot`.
    pub fn life_held_elsewhere(&self, slot: u32) -> io::Result<bool> {
        let mut lock = life_lock(slot, libc::F_WRLCK);
        // SAFETY: plain call with a fully initialised argument that the kernel fills.
        if unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_GETLK, &raw mut lock) } == -1 {
            return Err(last_error());
        }
        Ok(i32::from(lock.l_type) != libc::F_UNLCK)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` with this size and nothing borrows it any more.
        unsafe { libc::munmap(self.base.cast(), size_of::<Layout>()) };
    }
}

/// The parts of the file beside the two copies, reachable while the lock is held.
pub struct QueueView<'a> {
    layout: &'a Layout,
}

impl Queues for QueueView<'_> {
    fn op(&self, stream: usize, seq: u64) -> Op {
        let cell = &self.layout.rings[stream][ring_index(seq)];
        // SAFETY: a `QueueView` exists only while the lock is held; slots are written under it too.
        unsafe { *cell.get() }
    }

    fn set_event_time(&self, event: u32, time_ns: u64) {
        self.layout.event_times[event as usize].store(time_ns, Ordering::Release);
    }

    fn put_span(&self, stream: usize, seq: u64, span: Interval) {
        let cell = &self.layout.spans[stream][ring_index(seq)];
        // SAFETY: the lock is held.
        unsafe { *cell.get() = span };
    }

    fn put_interval(&self, group: u32, index: u64, interval: Interval) {
        let cell = &self.layout.intervals[group as usize][(index % INTERVALS as u64) as usize];
        // SAFETY: the lock is held.
        unsafe { *cell.get() = interval };
    }
}

impl QueueView<'_> {
    /// Start and end of the operation with this sequence number, while the ring still has it.
    pub fn span(&self, stream: usize, seq: u64) -> Interval {
        let cell = &self.layout.spans[stream][ring_index(seq)];
        // SAFETY: a `QueueView` exists only while the lock is held.
        unsafe { *cell.get() }
    }

    /// The last spans of a group on the compute engine, the oldest first. `count` is the number of
    /// all its spans.
    pub fn intervals(&self, group: u32, count: u64) -> Vec<Interval> {
        let ring = INTERVALS as u64;
        (count.saturating_sub(ring)..count)
            .map(|index| {
                let cell = &self.layout.intervals[group as usize][(index % ring) as usize];
                // SAFETY: the lock is held.
                unsafe { *cell.get() }
            })
            .collect()
    }

    /// Stores an operation. The caller publishes it by an increment of `submitted`.
    pub fn put_op(&self, stream: usize, seq: u64, op: Op) {
        let cell = &self.layout.rings[stream][ring_index(seq)];
        // SAFETY: the lock is held, and the slot is free: the ring is never filled past its size.
        unsafe { *cell.get() = op };
    }
}

fn ring_index(seq: u64) -> usize {
    (seq % RING as u64) as usize
}

struct Guard<'a> {
    layout: &'a Layout,
}

impl<'a> Guard<'a> {
    fn lock(layout: &'a Layout) -> io::Result<Self> {
        // SAFETY: the mutex was initialised before the file was published.
        let code = unsafe { libc::pthread_mutex_lock(layout.mutex.get()) };
        if code == libc::EOWNERDEAD {
            // The dead holder worked on the unpublished copy, which the next transaction
            // overwrites. The published one is intact.
            // SAFETY: this thread holds the mutex in the owner-dead state.
            check(unsafe { libc::pthread_mutex_consistent(layout.mutex.get()) })?;
        } else {
            check(code)?;
        }
        Ok(Self { layout })
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        // SAFETY: this guard exists only while the mutex is held by this thread.
        unsafe { libc::pthread_mutex_unlock(self.layout.mutex.get()) };
    }
}

/// Makes the mutex process-shared and robust.
///
/// # Safety
/// `mutex` must be valid memory that no thread uses yet.
unsafe fn init_mutex(mutex: *mut libc::pthread_mutex_t) -> io::Result<()> {
    // SAFETY: an all-zero attribute object is what `pthread_mutexattr_init` overwrites.
    let mut attr: libc::pthread_mutexattr_t = unsafe { std::mem::zeroed() };
    // SAFETY: each call gets the initialised attribute object; the caller guarantees `mutex`.
    unsafe {
        check(libc::pthread_mutexattr_init(&raw mut attr))?;
        check(libc::pthread_mutexattr_setpshared(&raw mut attr, libc::PTHREAD_PROCESS_SHARED))?;
        check(libc::pthread_mutexattr_setrobust(&raw mut attr, libc::PTHREAD_MUTEX_ROBUST))?;
        check(libc::pthread_mutex_init(mutex, &raw const attr))?;
        check(libc::pthread_mutexattr_destroy(&raw mut attr))
    }
}

/// A record lock on the byte of one process, far beyond the file's contents.
fn life_lock(slot: u32, kind: libc::c_int) -> libc::flock {
    // SAFETY: `flock` is plain data for which all zero bits are valid.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = (1_i64 << 40) + i64::from(slot);
    lock.l_len = 1;
    lock
}

fn futex_wait(word: &AtomicU32, old: u32, limit: Duration) {
    let timeout = libc::timespec {
        tv_sec: libc::time_t::try_from(limit.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(limit.subsec_nanos() as i32),
    };
    // SAFETY: the word outlives the call. Spurious returns are allowed: every caller checks the
    // state again.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            old,
            &raw const timeout,
            std::ptr::null::<u32>(),
            0,
        );
    }
}

fn futex_wake(word: &AtomicU32, count: i32) {
    // SAFETY: the word outlives the call; waking no thread is fine.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, count);
    }
}
