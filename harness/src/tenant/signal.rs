//! Signals: to a tenant and everything it started, or to one process that is no tenant.
#![expect(unsafe_code, reason = "signals have no safe form in std")]

/// Sends a signal to a process group; one that is gone needs none.
pub fn signal_group(pid: u32, signal: libc::c_int) {
    if let Ok(pid) = libc::pid_t::try_from(pid)
        && pid > 1
    {
        // SAFETY: plain call; the group is the tenant's own, made at its start.
        unsafe { libc::kill(-pid, signal) };
    }
}

/// Sends a signal to one process; one that is gone needs none.
pub fn signal_process(pid: u32, signal: libc::c_int) {
    if let Ok(pid) = libc::pid_t::try_from(pid)
        && pid > 1
    {
        // SAFETY: plain call; the process was just told by the service that it belongs to.
        unsafe { libc::kill(pid, signal) };
    }
}
