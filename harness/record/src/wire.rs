//! Messages between coordinator and tenant: one JSON object a line, over pipes.
//!
//! Both ends are the same binary, so versions cannot drift; the protocol number guards against a
//! tenant binary that was replaced while the coordinator ran.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::cell::CpuGaps;
use super::condition::{LoadSpec, WorkloadSpec};
use crate::json::Json;
use crate::output::OutputCheck;
use crate::probe::{ProbeReply, ProbeStep};

/// Version of the protocol of this build.
pub const PROTOCOL: u32 = 1;

/// Longest line that either end accepts, in bytes.
pub const LINE_BYTES_MAX: usize = 1 << 20;

/// Numbers under which a tenant's threads join the clock. On the wall clock they have no effect; in
/// virtual time they decide the order of simultaneous events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Participants {
    /// The thread that issues, and that does all set-up.
    pub issuer: u32,
    /// The thread that reaps completions.
    pub reaper: u32,
}

/// The share of a tenant that is a thread of a process with the other tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Inside {
    /// A green context with one of several equal partitions of the SMs.
    GreenContext {
        /// Which partition.
        partition: u32,
        /// How many partitions.
        partitions: u32,
    },
    /// A stream of the highest or of the lowest priority.
    StreamPriority {
        /// The highest.
        high: bool,
    },
}

/// The role of a process in a fault trial.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "role")]
pub enum FaultRole {
    /// It injects the fault without a helper process.
    #[default]
    Injector,
    /// It injects the fault with data of its helper process.
    HelpedInjector {
        /// The helper's data, as text, if it sent any.
        helper_data: Option<String>,
    },
    /// It is the helper process, which is killed.
    Helper,
}

/// From the coordinator to a tenant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "to")]
pub enum ToTenant {
    /// Create the context and load the kernels.
    Open {
        /// CUDA ordinal of the device within the tenant's view.
        ordinal: u32,
        /// Spin while waiting for completions; block otherwise.
        spin: bool,
        /// Participant numbers.
        participants: Participants,
        /// Its share of the process, where tenants are threads of one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        inside: Option<Inside>,
    },
    /// Destroy the context; the process stays.
    Close,
    /// Find parameters so that one request takes `service_ns` on the victim's share, or, for an
    /// aggressor, so that requests of about that length saturate its resource.
    Calibrate {
        /// Workload.
        workload: String,
        /// Share of the device for a victim; 1 for an aggressor.
        share: f64,
        /// Intended service time of one request.
        service_ns: u64,
    },
    /// Verify the kernels of these workloads, at a size for verification.
    Verify {
        /// Workloads.
        workloads: Vec<String>,
    },
    /// Find the SMs on which blocks of a kernel run.
    FindSms,
    /// Find the step of the clock that kernels read.
    FindTimerStep,
    /// Try to allocate device memory, and free it.
    TryAllocate {
        /// How much.
        bytes: u64,
    },
    /// Do one step of a probe.
    Probe {
        /// The step.
        step: ProbeStep,
    },
    /// Prepare a cell or a fault trial: allocate, create the log, compute the schedule.
    Prepare {
        /// Id of the cell or trial.
        id: String,
        /// The workload; none for an idle tenant.
        workload: Option<WorkloadSpec>,
        /// The load.
        load: LoadSpec,
        /// Where the sample log goes; its folder exists.
        log: String,
        /// Rows to allocate.
        capacity_rows: u64,
        /// The core of the issuer; none for an issuer that is not pinned.
        cpu: Option<u32>,
        /// The core of the reaper; none for a reaper that only stays off the issuer's core.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reaper_cpu: Option<u32>,
    },
    /// Start at an instant of the shared clock.
    Go {
        /// The common start.
        t0_ns: u64,
    },
    /// Digest the output of the last cell or, with a workload, of one cycle of its requests.
    Digest {
        /// The workload; none for the one of the last cell.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        workload: Option<WorkloadSpec>,
    },
    /// Prepare a fault: allocate and load everything that it needs.
    Arm {
        /// Name of the fault.
        fault: String,
        /// Longest time that its work may stay on the device.
        budget_ns: u64,
        /// The role of the process.
        #[serde(default)]
        role: FaultRole,
    },
    /// Inject it.
    Inject {
        /// The common start.
        t0_ns: u64,
        /// When, since the common start.
        at_ns: u64,
        /// When it must have ended, since the common start.
        until_ns: u64,
    },
    /// Request a context until the driver grants it, and run a kernel. For a process without an
    /// open context.
    AcquireDevice {
        /// CUDA ordinal of the device within the tenant's view.
        ordinal: u32,
        /// Participant numbers.
        participants: Participants,
        /// When to begin; at once where it is over.
        #[serde(default)]
        from_ns: u64,
        /// Time between two requests.
        every_ns: u64,
        /// Time after which to stop.
        limit_ns: u64,
    },
    /// End the process.
    Quit,
}

/// From a tenant to the coordinator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "from")]
#[expect(clippy::large_enum_variant, reason = "one message a cell, which is never kept")]
pub enum FromTenant {
    /// First line: the process has started.
    Hello {
        /// Version of its protocol.
        protocol: u32,
        /// Process id.
        pid: u32,
        /// `virtual` or `wall`.
        clock: String,
        /// Inode of its time namespace; stamps are comparable only where the inodes agree.
        time_namespace: u64,
    },
    /// The context is open.
    Opened {
        /// Facts of the device as the tenant sees it, by name (`sm_count`, `memory_bytes`,
        /// `uuid`...).
        facts: BTreeMap<String, String>,
    },
    /// The context is destroyed.
    Closed,
    /// Parameters were found.
    Calibrated {
        /// The workload with its parameters.
        spec: WorkloadSpec,
        /// Closed-loop rate at depth 1 (victim) or peak rate (aggressor).
        rate_per_s: f64,
        /// Median service time at depth 1.
        service_ns: u64,
        /// Work of one request.
        work_per_request: f64,
        /// Unit of the work.
        unit: String,
    },
    /// Kernels were verified.
    Verified {
        /// The verification of each workload.
        results: BTreeMap<String, Verification>,
    },
    /// The SMs on which blocks ran.
    FoundSms {
        /// Their numbers, each once, in order.
        sms: Vec<u32>,
    },
    /// The step of the clock that kernels read.
    FoundTimerStep {
        /// The shortest of many; 0 where the clock did not advance.
        ns: u64,
    },
    /// An allocation was tried.
    Tried {
        /// `CUresult` of the refusal; absent if it was granted.
        refused_with: Option<i32>,
    },
    /// A step of a probe was done.
    Probed {
        /// Its reply.
        reply: ProbeReply,
    },
    /// Ready for the common start.
    Ready {
        /// Hash of the arrival schedule.
        schedule_hash: Option<String>,
        /// What it prepared.
        identity: Option<crate::cell::TenantIdentity>,
        /// How long it loaded modules meanwhile.
        #[serde(default)]
        modules_ns: u64,
    },
    /// The cell is over.
    Done {
        /// Rows in the log.
        rows: u64,
        /// Requests that could not be logged because the log was full.
        unlogged: u64,
        /// Whether the outstanding limit was reached.
        overloaded: bool,
        /// Scheduling class that the issuer really had: `fifo` or `other`.
        sched: String,
        /// That of the reaper; absent for a user's program.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reaper_sched: Option<String>,
        /// CPU time that its threads lost; absent where it did not count it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cpu_gaps: Option<CpuGaps>,
    },
    /// The output, without a reference.
    Digested {
        /// The output.
        output: OutputCheck,
    },
    /// The fault is prepared.
    Armed {
        /// Data of a helper process for the injector.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        helper_data: Option<String>,
    },
    /// The fault was injected, and the process is alive.
    Injected {
        /// When it began, since the common start.
        began_ns: u64,
        /// When the answer arrived, since the common start.
        detected_ns: u64,
        /// `CUresult` of the first call that failed; absent if none did.
        code: Option<i32>,
        /// `CUresult` of a harmless call afterwards; 0 for success.
        later_code: i32,
    },
    /// A context was granted, or the limit passed.
    DeviceAcquired {
        /// Time until the kernel had run; absent if no context was granted.
        accepted_after_ns: Option<u64>,
        /// Number of requests.
        tries: u32,
        /// `CUresult` of the last refusal.
        refused_with: Option<i32>,
    },
    /// It could not do what a message requested. It stays alive unless its context is unusable.
    Refused {
        /// What it was doing.
        doing: String,
        /// The kind of the cause.
        kind: RefusalKind,
        /// What went wrong, in one line.
        text: String,
    },
}

/// A line that is not a message.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// Not the JSON of a known message.
    #[error("not a message of protocol {PROTOCOL}: {}: {line:?}", crate::parser_error(source))]
    Parse {
        /// The beginning of the line.
        line: String,
        /// The parser's error.
        source: serde_json::Error,
    },
    /// Longer than the limit.
    #[error("a line of more than {LINE_BYTES_MAX} bytes")]
    TooLong,
}

/// The message as one line, newline included.
/// Fails when a float in it is not finite.
pub fn to_line(message: &impl Json) -> Result<String, serde_json::Error> {
    Ok(message.to_json()? + "\n")
}

/// Reads one line.
/// Fails when it is too long or not a message.
pub fn from_line<T: Json>(line: &str) -> Result<T, WireError> {
    if line.len() > LINE_BYTES_MAX {
        return Err(WireError::TooLong);
    }
    T::from_json(line.trim_end().as_bytes())
        .map_err(|source| WireError::Parse { line: line.chars().take(80).collect(), source })
}

// Why a tenant refused a message, and the verification of a workload.
//
// The coordinator decides by the kind; the text is for the user.

/// The first step of a tenant: one that it refuses means that nothing can run on this host.
pub const OPENING: &str = "opening the device";

/// Why a tenant refused a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefusalKind {
    /// The device or the workload cannot do this at all.
    Waived,
    /// The disk cannot hold the sample log.
    NoSpace,
    /// The driver returned an error.
    Driver {
        /// Its `CUresult`.
        code: i32,
    },
    /// The kernels computed a wrong result.
    WrongResult,
    /// The user's program failed or broke the victim protocol.
    Program,
    /// Anything else: a message out of order, the clock, the file system, a panic.
    Other,
}

impl RefusalKind {
    /// The driver's `CUresult`, where the driver refused.
    pub const fn code(self) -> Option<i32> {
        match self {
            Self::Driver { code } => Some(code),
            _ => None,
        }
    }

    /// `Driver` with that code, or `Other` without one.
    pub const fn of_code(code: Option<i32>) -> Self {
        match code {
            Some(code) => Self::Driver { code },
            None => Self::Other,
        }
    }
}

/// The verification of one workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "result")]
pub enum Verification {
    /// The results are correct.
    Correct,
    /// The device cannot run this workload.
    Waived {
        /// What the device lacks.
        reason: String,
    },
    /// The results are wrong, or the check failed.
    Failed {
        /// What went wrong.
        problem: String,
        /// The `CUresult`, where the driver refused.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<i32>,
    },
}

impl fmt::Display for Verification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Correct => f.write_str("ok"),
            Self::Waived { reason } => write!(f, "waived: {reason}"),
            Self::Failed { problem, .. } => f.write_str(problem),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        FromTenant, LINE_BYTES_MAX, Participants, ToTenant, WireError, from_line, to_line,
    };
    use super::{RefusalKind, Verification};

    #[test]
    fn each_kind_of_refusal_reads_back_as_itself() -> Result<(), Box<dyn std::error::Error>> {
        for (kind, json) in [
            (RefusalKind::Waived, r#""waived""#),
            (RefusalKind::NoSpace, r#""no-space""#),
            (RefusalKind::Driver { code: 2 }, r#"{"driver":{"code":2}}"#),
            (RefusalKind::WrongResult, r#""wrong-result""#),
            (RefusalKind::Program, r#""program""#),
            (RefusalKind::Other, r#""other""#),
        ] {
            let refused = FromTenant::Refused {
                doing: "calibrating".to_owned(),
                kind,
                text: "waived: this text decides nothing".to_owned(),
            };
            let line = to_line(&refused)?;
            assert!(line.contains(&format!(r#""kind":{json}"#)), "{line}");
            assert_eq!(from_line::<FromTenant>(&line)?, refused);
            let torn = &line[..line.len() - 3];
            assert!(matches!(from_line::<FromTenant>(torn), Err(WireError::Parse { .. })));
        }
        Ok(())
    }

    #[test]
    fn each_verification_reads_back_as_itself() -> Result<(), Box<dyn std::error::Error>> {
        let results = [
            ("compute", Verification::Correct),
            ("tensor", Verification::Waived { reason: "no tensor cores".to_owned() }),
            ("dram-copy", Verification::Failed { problem: "byte 3 is 0".to_owned(), code: None }),
        ];
        let results = results.map(|(name, found)| (name.to_owned(), found));
        let verified = FromTenant::Verified { results: results.into() };
        let line = to_line(&verified)?;
        assert_eq!(from_line::<FromTenant>(&line)?, verified);
        Ok(())
    }

    #[test]
    fn names_the_beginning_of_a_torn_line() -> Result<(), Box<dyn std::error::Error>> {
        let participants = Participants { issuer: 4, reaper: 5 };
        let line = to_line(&ToTenant::Open { ordinal: 0, spin: true, participants, inside: None })?;
        let torn = &line[..line.len() / 2];
        match from_line::<ToTenant>(torn) {
            Err(WireError::Parse { line, .. }) => assert!(torn.starts_with(&line)),
            other => return Err(format!("expected a parse error, got {other:?}").into()),
        }
        Ok(())
    }

    #[test]
    fn refuses_an_endless_line() {
        let line = "x".repeat(LINE_BYTES_MAX + 1);
        assert!(matches!(from_line::<FromTenant>(&line), Err(WireError::TooLong)));
    }
}
