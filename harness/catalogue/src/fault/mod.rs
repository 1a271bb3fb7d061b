//! The catalogue of faults: what a tenant does to fail or to disturb others, from benign to severe.
//!
//! To add one, write its facts in `entries.rs`, its line in [`CATALOGUE`], and its device code in
//! `gpubench-workloads`, where a fault without code fails a test. A fault runs in a process of its
//! own, which ends after it. Work that it leaves on the device has a deadline. Some faults need a
//! helper process, which passes text to the first one and is killed. Each entry states the
//! documented error codes and Xids, which are hypotheses on a real GPU; the fault tables in
//! `profiles/machines` hold what real GPUs answered.

pub mod entries;

/// What a mechanism needs so that the fault can happen under it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Only tenants that are processes.
    Nothing,
    MpsDaemon,
    AccountingLibrary,
}

/// The coordinator's action at the instant of the fault, beside that of the process itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostAct {
    /// Nothing.
    None,
    /// Sends SIGKILL to the process while its kernel runs.
    Kill,
    /// Sends SIGSTOP to the process while its kernel runs, and SIGCONT later.
    Stop,
    /// Sends SIGKILL to the first victim.
    KillVictim,
    /// Sends SIGKILL to the helper process.
    KillHelper,
    /// Has the MPS daemon end the process as a client (`terminate_client`).
    TerminateClient,
    /// Sends SIGKILL to the MPS server.
    KillServer,
    /// Sends SIGKILL to the MPS control daemon.
    KillDaemon,
}

impl HostAct {
    /// Whether it can leave the process waiting forever. MPS clients did so on an H100 under driver
    /// 580 when their server or its daemon was killed.
    pub const fn leaves_waiting(self) -> bool {
        matches!(self, Self::KillServer | Self::KillDaemon)
    }
}

/// The documented result for the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Every call succeeds.
    Well,
    /// One of these `CUresult`s.
    Codes(&'static [i32]),
    /// Success or one of these `CUresult`s, or any if the list is empty: undocumented.
    Open(&'static [i32]),
    /// The process ends without a result.
    Ends,
}

#[derive(Debug, Clone, Copy)]
pub struct Fault {
    /// Name on the command line and in records.
    pub name: &'static str,
    pub class: Class,
    pub severity: Severity,
    pub summary: &'static str,
    /// The tested resource of the device or the mechanism.
    pub resource: &'static str,
    pub needs: Needs,
    pub act: HostAct,
    /// The documented result.
    pub answer: Answer,
    /// Documented Xids; the driver should log one of them.
    pub xids: &'static [u32],
    pub victim: &'static str,
    /// Whether only a virtual machine file can cause it, because PTX cannot.
    pub planted_only: bool,
    /// How long it may take until it is complete: its trials are long enough to see its harm.
    pub takes_ns: u64,
    pub has_helper: bool,
}

const FAULT: Fault = Fault {
    name: "",
    class: Class::Sm,
    severity: Severity::Fatal,
    summary: "",
    resource: "",
    needs: Needs::Nothing,
    act: HostAct::None,
    answer: Answer::Well,
    xids: &[],
    victim: "compute",
    planted_only: false,
    takes_ns: 0,
    has_helper: false,
};

/// Every fault, from benign to severe. The controls come first, because no trial counts without
/// them.
pub static CATALOGUE: &[&Fault] = &[
    &entries::PLACEBO,
    &entries::CANARY,
    &entries::EMPTY_LAUNCH,
    &entries::BAD_LAUNCH,
    &entries::DOUBLE_FREE,
    &entries::PRINTF_FLOOD,
    &entries::OOM,
    &entries::HANG,
    &entries::STOP,
    &entries::DESTROY,
    &entries::EXIT,
    &entries::KILL,
    &entries::TERMINATE_CLIENT,
    &entries::HOLDER_KILLED,
    &entries::ASSERT,
    &entries::TRAP,
    &entries::MISALIGNED,
    &entries::SHARED_OOB,
    &entries::STACK,
    &entries::BAD_SPACE,
    &entries::BAD_PC,
    &entries::ILLEGAL_INSTRUCTION,
    &entries::ILLEGAL_ADDRESS,
    &entries::EXPORTER_EXIT,
    &entries::KILL_SERVER,
    &entries::KILL_DAEMON,
];

/// The control that must affect no victim.
pub const PLACEBO: &str = "placebo";
/// The self-test fault: its effect on a victim must always be detected.
pub const CANARY: &str = "canary";

pub fn find(name: &str) -> Option<&'static Fault> {
    CATALOGUE.iter().find(|fault| fault.name == name).copied()
}

// Classes of faults, and how severe they are.

/// The class of a fault: the sub-axis of its row in fault containment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Tests the benchmark itself; never scored.
    Control,
    /// A call that the driver refuses.
    Api,
    /// A process ends, or stops, while its work is on the device.
    Process,
    /// A process takes resources from others without an error.
    Starvation,
    /// A fault raised by the SMs (Xid 13).
    Sm,
    /// A fault raised by the MMU (Xid 31).
    Mmu,
    /// A process that serves every tenant ends.
    Service,
}

impl Class {
    /// The name used in records and tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Control => "control",
            Self::Api => "api",
            Self::Process => "process",
            Self::Starvation => "starvation",
            Self::Sm => "sm",
            Self::Mmu => "mmu",
            Self::Service => "service",
        }
    }

    /// The name on the command line and in profiles: the sub-axis of the fault axis.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Control => "fault/control",
            Self::Api => "fault/api",
            Self::Process => "fault/process",
            Self::Starvation => "fault/starvation",
            Self::Sm => "fault/sm",
            Self::Mmu => "fault/mmu",
            Self::Service => "fault/service",
        }
    }
}

/// The severity of a fault, whichever tenants it reaches. Trials run in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Tests the benchmark itself.
    Control,
    /// Refused by the driver, or harmless.
    Benign,
    /// Takes a resource from other tenants for a while.
    Greedy,
    /// A process stops or ends without releasing the device.
    Abrupt,
    /// An error that ends a context.
    Fatal,
    /// Ends a service that all tenants use.
    Systemic,
}

impl Severity {
    /// The name used in lists.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Control => "control",
            Self::Benign => "benign",
            Self::Greedy => "greedy",
            Self::Abrupt => "abrupt",
            Self::Fatal => "fatal",
            Self::Systemic => "systemic",
        }
    }
}

// Faults from the literature that gpubench does not inject, each with the reason.

/// A fault that is not in the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftOut {
    pub name: &'static str,
    pub summary: &'static str,
    /// Why it is not injected.
    pub reason: &'static str,
}

/// Every such fault; those that may be injected one day come first.
pub const LEFT_OUT: &[LeftOut] = &[
    LeftOut {
        name: "tensor-memory-leak",
        summary: "ends with tensor memory that it allocated and did not free (CUresult 721)",
        reason: "it takes instructions of compute capability 10, and every kernel here is PTX that \
                 devices since 7.0 take",
    },
    LeftOut {
        name: "ecc-error",
        summary: "meets an uncorrectable memory error (Xid 48)",
        reason: "no program can cause one, and the GPU must be reset after it",
    },
    LeftOut {
        name: "link-error",
        summary: "loses a link to another GPU or to the host (Xids 74 and 79)",
        reason: "no program can cause one, and the GPU or the host must be restarted",
    },
    LeftOut {
        name: "gpu-reset",
        summary: "has the GPU reset while others use it",
        reason: "it ends all work of all processes on the GPU, and destroys MIG instances",
    },
    LeftOut {
        name: "managed-oversubscription",
        summary: "touches more managed memory than the device has",
        reason: "endless page migration can hang the GPU for every process, and no deadline \
                 in a kernel ends that",
    },
];

#[cfg(test)]
mod tests {
    use super::{Answer, CANARY, CATALOGUE, Class, HostAct, LEFT_OUT, PLACEBO, Severity, find};
    use crate::workload;
    use std::collections::BTreeSet;

    #[test]
    fn entries_are_unique_and_described() {
        let names: BTreeSet<_> = CATALOGUE.iter().map(|fault| fault.name).collect();
        assert_eq!(names.len(), CATALOGUE.len());
        for fault in CATALOGUE.iter() {
            assert!(fault.summary.len() > 20, "{fault:?}");
            assert!(workload::find(fault.victim).is_some(), "{fault:?}");
            assert!(find(fault.name).is_some());
        }
    }

    #[test]
    fn every_entry_names_its_resource_and_its_expected_answer() {
        for fault in CATALOGUE.iter() {
            assert!(!fault.resource.is_empty(), "{fault:?}");
            let control = fault.class == Class::Control;
            assert_eq!(fault.severity == Severity::Control, control, "{fault:?}");
            let service = fault.class == Class::Service;
            assert_eq!(fault.severity == Severity::Systemic, service, "{fault:?}");
            let kills_it = fault.act == HostAct::KillHelper;
            assert_eq!(fault.has_helper, kills_it, "{fault:?}");
            // An error that ends a context is returned by some call.
            let documented = matches!(fault.answer, Answer::Codes(_) | Answer::Open(_));
            assert!(documented || fault.severity != Severity::Fatal, "{fault:?}");
        }
    }

    #[test]
    fn the_controls_come_first() {
        assert_eq!((CATALOGUE[0].name, CATALOGUE[1].name), (PLACEBO, CANARY));
        assert_eq!(CATALOGUE[1].act, HostAct::KillVictim);
        let answers = CATALOGUE[..2].iter().map(|control| control.answer);
        assert!(answers.eq([Answer::Well, Answer::Open(&[])]));
    }

    /// Trials run in this order.
    #[test]
    fn trials_go_from_benign_to_severe() {
        let severities: Vec<Severity> = CATALOGUE.iter().map(|fault| fault.severity).collect();
        assert!(severities.is_sorted(), "{severities:?}");
    }

    #[test]
    fn left_out_faults_are_described_and_are_not_in_the_catalogue() {
        for one in LEFT_OUT {
            assert!(find(one.name).is_none(), "{} is held", one.name);
            assert!(one.summary.len() > 20 && one.reason.len() > 20, "{one:?}");
        }
    }
}
