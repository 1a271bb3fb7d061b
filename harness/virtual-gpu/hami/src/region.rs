//! The shared region of all processes of a container: a mapped file with the limits of its first
//! user and the use of each process.
//!
//! Without a file per tenant, the first process sets the limits for all, like with the real
//! library.
#![expect(unsafe_code, reason = "a file is mapped and shared between processes")]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::clock;
use crate::settings::Settings;

/// Maximum number of processes of one region, as in HAMi-core.
const PROCESSES: usize = 1024;
const MAGIC: u64 = 0x6870_7567_0000_0001;

#[repr(C)]
struct Entry {
    pid: AtomicU32,
    _reserved: AtomicU32,
    bytes: AtomicU64,
}

#[repr(C)]
struct Layout {
    magic: AtomicU64,
    memory_limit: AtomicU64,
    sm_limit: AtomicU32,
    /// The monitor's switch: the limiter is on.
    limiter_on: AtomicU32,
    /// Process that is allocating; 0 for none. Used where the machine plants stale locks.
    holder: AtomicU32,
    _reserved: AtomicU32,
    processes: [Entry; PROCESSES],
}

pub struct Region {
    layout: &'static Layout,
    file: File,
    /// Serialises the threads of this process, since the file's lock is per process.
    turn: Mutex<()>,
    lock_stale_ms: u64,
}

/// Held during an allocation.
pub struct Held<'a>(&'a Region);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let own = std::process::id();
        let holder = &self.0.layout.holder;
        // A process that took the lock over keeps it.
        let _ = holder.compare_exchange(own, 0, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// The region of this process; `None` if its file cannot be used.
pub fn get() -> Option<&'static Region> {
    static REGION: OnceLock<Option<Region>> = OnceLock::new();
    let opened = REGION.get_or_init(|| match Region::open(crate::settings::get()) {
        Ok(region) => Some(region),
        Err(error) => {
            crate::log(1, &format!("shared region: {error}: no limit applies"));
            None
        }
    });
    opened.as_ref()
}

impl Region {
    fn open(settings: &Settings) -> std::io::Result<Self> {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&settings.cache)?;
        file.set_len(size_of::<Layout>() as u64)?;
        // SAFETY: a new shared mapping of an open file of that length, checked below.
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
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: the mapping is as large as `Layout`, is never unmapped, and holds atomics only.
        let layout = unsafe { &*base.cast::<Layout>() };
        let region =
            Self { layout, file, turn: Mutex::new(()), lock_stale_ms: settings.lock_stale_ms };
        region.locked(|layout| {
            if layout.magic.load(Ordering::Relaxed) != MAGIC {
                layout.memory_limit.store(settings.memory_limit, Ordering::Relaxed);
                layout.sm_limit.store(settings.sm_limit, Ordering::Relaxed);
                layout.limiter_on.store(1, Ordering::Relaxed);
                layout.magic.store(MAGIC, Ordering::Relaxed);
            }
        });
        Ok(region)
    }

    /// Runs `body` under the file's lock.
    fn locked<R>(&self, body: impl FnOnce(&Layout) -> R) -> R {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let fd = self.file.as_raw_fd();
        // SAFETY: an open descriptor; the kernel releases the lock if the process dies.
        unsafe { libc::flock(fd, libc::LOCK_EX) };
        let result = body(self.layout);
        // SAFETY: as above.
        unsafe { libc::flock(fd, libc::LOCK_UN) };
        result
    }

    /// Begins an allocation. The real library's lock is a semaphore in the file, which stays taken
    /// when its process dies. Where the machine plants that, the death is detected after a delay.
    /// [`Region::locked`] guards the counters.
    pub fn hold(&self) -> Held<'_> {
        if self.lock_stale_ms == 0 {
            return Held(self);
        }
        let holder = self.layout.holder.load(Ordering::Relaxed);
        let own = std::process::id();
        if holder != 0 && holder != own && !is_running(holder) {
            clock::sleep_until(clock::now_ns() + self.lock_stale_ms * 1_000_000);
        }
        self.layout.holder.store(own, Ordering::Relaxed);
        Held(self)
    }

    /// The memory limit in force; 0 for none.
    pub fn memory_limit(&self) -> u64 {
        self.layout.memory_limit.load(Ordering::Relaxed)
    }

    /// The SM limit in force, in percent; 0 for none.
    pub fn sm_limit(&self) -> u32 {
        self.layout.sm_limit.load(Ordering::Relaxed)
    }

    /// Whether the monitor enables the limiter.
    pub fn limiter_on(&self) -> bool {
        self.layout.limiter_on.load(Ordering::Relaxed) != 0
    }

    /// Bytes used by all processes.
    pub fn used(&self) -> u64 {
        self.locked(used)
    }

    /// Charges this process, if the total stays within `limit`; 0 means no limit.
    pub fn charge(&self, bytes: u64, limit: u64) -> bool {
        let own = std::process::id();
        self.locked(|layout| {
            if limit != 0 && used(layout).saturating_add(bytes) > limit {
                return false;
            }
            let mine = layout.processes.iter().find(|e| e.pid.load(Ordering::Relaxed) == own);
            let mine = mine.or_else(|| {
                let free = layout.processes.iter().find(|e| e.pid.load(Ordering::Relaxed) == 0)?;
                free.pid.store(own, Ordering::Relaxed);
                Some(free)
            });
            let Some(mine) = mine else { return false };
            mine.bytes.fetch_add(bytes, Ordering::Relaxed);
            true
        })
    }

    /// Takes a charge back.
    pub fn release(&self, bytes: u64) {
        let own = std::process::id();
        self.locked(|layout| {
            for entry in &layout.processes {
                if entry.pid.load(Ordering::Relaxed) == own {
                    let left = entry.bytes.load(Ordering::Relaxed).saturating_sub(bytes);
                    entry.bytes.store(left, Ordering::Relaxed);
                }
            }
        });
    }
}

/// Bytes of all live processes; those of dead ones are released.
fn used(layout: &Layout) -> u64 {
    let mut sum = 0;
    for entry in &layout.processes {
        let pid = entry.pid.load(Ordering::Relaxed);
        if pid == 0 {
            continue;
        }
        // SAFETY: signal 0 only checks whether the process exists.
        let there = unsafe { libc::kill(pid as libc::pid_t, 0) } == 0;
        if there {
            sum += entry.bytes.load(Ordering::Relaxed);
        } else {
            entry.bytes.store(0, Ordering::Relaxed);
            entry.pid.store(0, Ordering::Relaxed);
        }
    }
    sum
}

/// Whether a process runs; a zombie does not (proc(5)).
fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    !matches!(state, Some('Z' | 'X') | None)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::Region;
    use crate::settings::Settings;

    fn settings(cache: std::path::PathBuf, memory_limit: u64) -> Settings {
        Settings {
            memory_limit,
            sm_limit: 30,
            force: true,
            disabled: false,
            cache,
            log_level: 0,
            overshoot: 0.0,
            sm_error: 0.0,
            patched: Vec::new(),
            lock_stale_ms: 0,
            limiter_start_ms: 0,
            limiter_paced: false,
            hidden: false,
        }
    }

    #[test]
    fn the_limit_holds_and_the_first_user_sets_it() -> std::io::Result<()> {
        let folder = tempfile::tempdir()?;
        let cache = folder.path().join("cache");
        let first = Region::open(&settings(cache.clone(), 100))?;
        let second = Region::open(&settings(cache, 5_000))?;
        assert_eq!(second.memory_limit(), 100);
        assert!(first.charge(60, 100));
        assert!(!second.charge(41, 100), "both count together");
        assert!(second.charge(40, 100));
        second.release(50);
        assert_eq!(first.used(), 50);
        Ok(())
    }

    #[test]
    fn only_the_lock_of_a_dead_process_delays() -> std::io::Result<()> {
        let folder = tempfile::tempdir()?;
        let region = Region::open(&Settings {
            lock_stale_ms: 300,
            ..settings(folder.path().join("cache"), 0)
        })?;
        let took_ms = |holder: u32| {
            region.layout.holder.store(holder, Ordering::Relaxed);
            let began_ns = crate::clock::now_ns();
            drop(region.hold());
            (crate::clock::now_ns() - began_ns) / 1_000_000
        };
        let mut child = std::process::Command::new("true").spawn()?;
        let dead = child.id();
        child.wait()?;
        assert!(took_ms(dead) >= 300);
        assert_eq!(region.layout.holder.load(Ordering::Relaxed), 0);
        for holder in [0, 1, std::process::id()] {
            assert!(took_ms(holder) < 300, "{holder}");
        }
        Ok(())
    }
}
