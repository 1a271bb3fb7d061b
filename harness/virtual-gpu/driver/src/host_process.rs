//! The calling process and thread as the host knows them: names, ids, its core, its clock.
#![expect(unsafe_code, reason = "thread ids and processor affinity have no safe form in std")]

use std::fs::File;
use std::io::Write;
use std::os::fd::FromRawFd;

/// The name of the calling process, cut to fit.
pub fn own_name() -> [u8; 32] {
    let mut out = [0; 32];
    // A process without a readable name is listed without one.
    let name = std::fs::read("/proc/self/comm").unwrap_or_default();
    let text = name.strip_suffix(b"\n").unwrap_or(&name);
    let length = text.len().min(out.len() - 1);
    out[..length].copy_from_slice(&text[..length]);
    out
}

/// The calling thread's kernel id.
pub fn own_tid() -> u32 {
    // SAFETY: a system call without arguments. glibc has a function for it only from 2.30 on.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// The user that the process runs as.
pub fn own_uid() -> u32 {
    // SAFETY: plain call without arguments that cannot fail.
    unsafe { libc::getuid() }
}

/// A file in memory with these contents, which a process that gets its descriptor can read.
pub fn memfd(contents: &[u8]) -> std::io::Result<File> {
    // SAFETY: a C string, and flags; the result is a new descriptor or -1.
    let made = unsafe { libc::memfd_create(c"device memory".as_ptr(), 0) };
    if made < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nothing else owns.
    let mut file = unsafe { File::from_raw_fd(made) };
    file.write_all(contents)?;
    Ok(file)
}

/// Keeps the calling thread on one core. In virtual time one participant runs at a time, and a
/// hand-over within a core costs a tenth of one between cores. Failing to pin costs speed only.
pub fn pin_to(core: Option<u32>) {
    let Some(core) = core else { return };
    // SAFETY: the set is plain data, all zero is the empty set, and `core` is checked by the
    // macro-like setter against the set's size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if (core as usize) < 8 * size_of::<libc::cpu_set_t>() {
            libc::CPU_SET(core as usize, &mut set);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
        }
    }
}

/// `CLOCK_MONOTONIC` in nanoseconds: the one clock that all processes of a host share.
pub fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: plain call that fills its argument; it cannot fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    (now.tv_sec as u64) * 1_000_000_000 + now.tv_nsec as u64
}

/// The command that a process runs; its bare name if the kernel does not show the command.
pub fn name(pid: u32) -> Option<String> {
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let first = command.split(|byte| *byte == 0).next().unwrap_or_default();
    if !first.is_empty() {
        return Some(String::from_utf8_lossy(first).into_owned());
    }
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}
