//! The hot path neither allocates nor makes a system call: tested by counting allocations, and by
//! writing rows in a process that the kernel kills at its first system call.
#![expect(unsafe_code, reason = "a counting allocator, fork and seccomp")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use gpubench_record::sample::MISSING;
use gpubench_record::{Phase, SampleRow, SampleStatus};
use gpubench_workloads::clock::{Clock, Time};
use gpubench_workloads::generator::{Reap, run_cell};
use gpubench_workloads::log::{LogWriter, read_log};

use support::{InstantReap, InstantSubmit, victim_cell};

type Checked = Result<(), Box<dyn std::error::Error>>;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn row(seq: u64) -> SampleRow {
    SampleRow {
        seq,
        t_sched_ns: 1,
        t_issue_ns: 2,
        t_ret_ns: 3,
        t_done_ns: 4,
        gpu_ns: MISSING,
        error: 0,
        phase: Phase::Open,
        status: SampleStatus::Ok,
        issuer_idle: false,
    }
}

#[test]
fn writing_rows_allocates_nothing() -> Checked {
    let folder = tempfile::tempdir()?;
    let mut log = LogWriter::create(&folder.path().join("log"), 10_000)?;
    let before = ALLOCATIONS.get();
    for seq in 0..10_001 {
        std::hint::black_box(log.push(&row(seq)));
    }
    assert_eq!(ALLOCATIONS.get() - before, 0);
    // The counter works: one box is one allocation.
    drop(std::hint::black_box(Box::new(7_u64)));
    assert_eq!(ALLOCATIONS.get() - before, 1);
    Ok(())
}

#[test]
fn writing_rows_makes_no_system_call() -> Checked {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("log");
    let mut log = LogWriter::create(&path, 5_000)?;
    let killed = in_strict_mode(|| {
        for seq in 0..5_000 {
            log.push(&row(seq));
        }
    })?;
    assert!(!killed, "the kernel killed the writer for a system call");
    assert_eq!(read_log(&path)?.rows.len(), 5_000);
    // Strict mode works: a process that queries its parent is killed.
    let get_parent = || {
        // SAFETY: takes nothing and returns a number.
        unsafe { libc::syscall(libc::SYS_getppid) };
    };
    assert!(in_strict_mode(get_parent)?);
    Ok(())
}

/// Runs `work` in a child that may only compute and exit; returns whether it was killed.
fn in_strict_mode(work: impl FnOnce()) -> Result<bool, std::io::Error> {
    // SAFETY: the child calls nothing but prctl, `work` (which allocates nothing) and exit.
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error()),
        0 => {
            // SAFETY: plain numbers; after this only read, write, sigreturn and exit are allowed.
            let refused = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_STRICT) };
            if refused == 0 {
                work();
            }
            // SAFETY: exit of this one thread, which is the whole child.
            unsafe { libc::syscall(libc::SYS_exit, i64::from(refused != 0)) };
            unreachable!("exit does not return");
        }
        child => {
            let mut status = 0;
            // SAFETY: waits for the child just made and writes one int.
            if unsafe { libc::waitpid(child, &raw mut status, 0) } != child {
                return Err(std::io::Error::last_os_error());
            }
            if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) != 0 {
                return Err(std::io::Error::other("the kernel refuses strict mode"));
            }
            Ok(libc::WIFSIGNALED(status))
        }
    }
}

#[test]
fn issuing_allocates_nothing_between_the_first_request_and_the_last() -> Checked {
    let folder = tempfile::tempdir()?;
    let time: Arc<dyn Time> = Arc::new(Clock::wall());
    // Allocations of the issuing thread at its first and its latest request.
    let (mut first, mut latest) = (None, 0);
    let mut submit = InstantSubmit(|| {
        latest = ALLOCATIONS.get();
        first.get_or_insert(latest);
    });
    let reap: Arc<dyn Reap> = Arc::new(InstantReap(|| Ok(())));
    let arrivals_ns: Vec<u64> = (0..100).map(|n| n * 100_000).collect();
    let run = victim_cell(time.now_ns(), arrivals_ns, None);
    let path = folder.path().join("log");
    let log = LogWriter::create(&path, 1 << 17)?;
    let outcome = run_cell(&time, &run, &mut submit, &reap, log)?;
    assert_eq!(outcome.failure, None);
    let rows = read_log(&path)?.rows;
    let open = rows.iter().filter(|row| row.phase == Phase::Open).count();
    // On a busy machine arrivals may accumulate until the limit of outstanding requests is reached.
    assert!(open == 100 || outcome.overloaded, "{open} of 100 in the open loop");
    assert_eq!(Some(latest), first);
    Ok(())
}
