//! Detects that virtual time stands still, and reports the participant that holds it.
//!
//! A participant that blocks on something outside of the model holds the clock. The others detect
//! that no transaction happens, and report that participant: number, process, thread, and the
//! thread's state in the kernel.

use std::io;
use std::time::{Duration, Instant};

use gpubench_virtual_gpu_model::state::{Condition, Participant, ParticipantStatus, State};

pub struct Watch {
    limit: Duration,
    since: Instant,
    transactions: Option<u64>,
}

#[expect(clippy::disallowed_methods, reason = "a stall is the lack of virtual time")]
impl Watch {
    /// Begins to watch; a clock that stands still for `limit` is stalled.
    pub fn new(limit: Duration) -> Self {
        Self { limit, since: Instant::now(), transactions: None }
    }

    /// Whether the wait has lasted so long that a process may have died.
    pub fn is_late(&self) -> bool {
        self.since.elapsed() >= Duration::from_millis(90)
    }

    /// Returns a report when no transaction has happened for longer than the limit.
    pub fn check(
        &mut self,
        transactions: u64,
        describe: impl FnOnce() -> io::Result<String>,
    ) -> Option<String> {
        if self.transactions != Some(transactions) {
            self.transactions = Some(transactions);
            self.since = Instant::now();
            return None;
        }
        if self.since.elapsed() < self.limit {
            return None;
        }
        let holders = describe().unwrap_or_else(|error| format!("state unreadable: {error}"));
        Some(format!("virtual time stood still for {:.1} s: {holders}", self.limit.as_secs_f64()))
    }
}

/// The participants that hold the clock, as text.
pub fn describe(state: &State) -> String {
    let mut parts = Vec::new();
    for (id, participant) in state.participants.live().iter().enumerate() {
        let pid =
            state.processes.rows.get(participant.process as usize).map_or(0, |process| process.pid);
        match participant.status {
            ParticipantStatus::Free => {}
            ParticipantStatus::Expected => {
                parts.push(format!("participant {id} has not joined yet"))
            }
            ParticipantStatus::Running => parts.push(format!(
                "participant {id} runs (process {pid}, thread {} {})",
                participant.tid,
                thread_state(pid, participant.tid)
            )),
            ParticipantStatus::Waiting => parts.push(format!(
                "participant {id} waits for {} (process {pid}, thread {} {:?})",
                awaited(participant),
                participant.tid,
                thread_name(pid, participant.tid)
            )),
        }
    }
    if parts.is_empty() {
        "no participant has joined the clock".to_owned()
    } else {
        parts.join("; ")
    }
}

/// The event that a participant waits for.
fn awaited(participant: &Participant) -> String {
    let target = participant.target;
    match participant.condition {
        Condition::Time => format!("{} ns", participant.ready_ns),
        Condition::Stream => format!("operation {} of stream {target}", participant.seq),
        Condition::Context => format!("all streams of context {target}"),
        Condition::Room => format!("room in stream {target}"),
        Condition::Unpark => "an unpark".to_owned(),
    }
}

fn thread_name(pid: u32, tid: u32) -> String {
    // A thread that has ended has no name.
    let name = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")).unwrap_or_default();
    name.trim().to_owned()
}

/// Name, scheduler state and system call of a thread, as far as the kernel reports them.
fn thread_state(pid: u32, tid: u32) -> String {
    let read = |file: &str| {
        std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/{file}")).unwrap_or_default()
    };
    let stat = read("stat");
    let run_state = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').next());
    let call = read("syscall");
    let call = call.split(' ').next().unwrap_or_default().trim();
    format!(
        "{:?}, state {}, system call {}",
        thread_name(pid, tid),
        run_state.unwrap_or("unknown"),
        if call.is_empty() { "unknown" } else { call }
    )
}
