//! The catalogue of faults: what a tenant does to break itself or others, from benign to severe.
//!
//! To add one, write its entry and its line in [`CATALOGUE`]. A fault runs in a process of its own,
//! which ends after it; whatever it leaves on the device has a deadline of its own. Some need an
//! accomplice: one more process that gives the first one something and is killed. What the
//! documents say of codes and Xids stands in each entry; on a real GPU it is a hypothesis. What one
//! answered stands in `measured`, with a reason for each fault that was never tried there.

use std::cell::Cell;

use gpubench_kernels::driver::{DriverError, codes};

use crate::clock::{ClockError, Time};
use crate::load::{Gpu, LoadError};

mod call;
mod hang;
mod kernel;
mod left_out;
mod lock;
mod measured;
mod oom;
mod peer;
mod printf;
mod service;

pub use left_out::{LEFT_OUT, LeftOut};
pub use measured::{CAMPAIGNS, Came, Campaign, Measured};

/// Which part of containment a fault puts to the test: the sub-axis of its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Shows that the instrument can tell; never scored.
    Control,
    /// A call that the driver refuses.
    Api,
    /// The way in which a process goes, or does not.
    Process,
    /// What a process takes from others without breaking anything.
    Starvation,
    /// A fault that the SMs raise (Xid 13).
    Sm,
    /// A fault that the MMU raises (Xid 31).
    Mmu,
    /// The loss of a process that serves every tenant.
    Service,
}

impl Class {
    /// The name used in records and tables.
    #[must_use]
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
}

/// How bad it is by nature, whoever it reaches; trials are held in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Says whether the instrument can tell.
    Control,
    /// Refused by the driver, or harmless.
    Benign,
    /// Takes what others need, for a while.
    Greedy,
    /// A process stops or goes without taking leave of the device.
    Abrupt,
    /// An error that ends a context.
    Fatal,
    /// Ends what all tenants rely upon.
    Systemic,
}

impl Severity {
    /// The name used in lists.
    #[must_use]
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

/// What a mechanism must have for the fault to happen under it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Nothing but tenants that are processes.
    Nothing,
    /// An MPS daemon that serves the tenants.
    MpsDaemon,
    /// A preloaded library that counts what tenants take.
    AccountingLibrary,
}

/// What the coordinator does at the instant, beside what the process itself does.
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
    /// Sends SIGKILL to the accomplice.
    KillAccomplice,
    /// Has the MPS daemon end the process as a client (`terminate_client`).
    TerminateClient,
    /// Sends SIGKILL to the MPS server.
    KillServer,
    /// Sends SIGKILL to the MPS control daemon.
    KillDaemon,
}

impl HostAct {
    /// Whether it can leave the process waiting for what is gone, with no answer ever. Clients
    /// of MPS did so on an H100 under driver 580, when their server or its daemon was killed.
    #[must_use]
    pub const fn leaves_waiting(self) -> bool {
        matches!(self, Self::KillServer | Self::KillDaemon)
    }
}

/// What answer the process should get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// None: every call goes well.
    Well,
    /// One of these `CUresult`s.
    Codes(&'static [i32]),
    /// None, or one of these `CUresult`s, or any if none is named: the documents leave it open.
    Open(&'static [i32]),
    /// It ends before any.
    Ends,
}

/// What a fault is readied with.
#[derive(Debug, Clone, Copy, Default)]
pub struct Arming<'a> {
    /// What it leaves on the device lasts at most so long.
    pub budget_ns: u64,
    /// What the accomplice gave, as text.
    pub given: Option<&'a str>,
}

/// Readies a fault.
type Arm = fn(&Gpu, &Arming<'_>) -> Result<Box<dyn Armed>, LoadError>;

/// Readies an accomplice, and says what it gives to the process that it helps.
type ArmAccomplice = fn(&Gpu) -> Result<(Box<dyn Armed>, Option<String>), LoadError>;

/// One fault.
#[derive(Clone, Copy)]
pub struct Fault {
    /// Name on the command line and in records.
    pub name: &'static str,
    /// Its class.
    pub class: Class,
    /// How bad it is by nature.
    pub severity: Severity,
    /// What it does, in one line.
    pub summary: &'static str,
    /// What of the device or of the mechanism it puts to the test.
    pub resource: &'static str,
    /// What its mechanism must have.
    pub needs: Needs,
    /// What the coordinator does.
    pub act: HostAct,
    /// What answer the process should get, by the documents.
    pub answer: Answer,
    /// Xids that the driver should log, by the documents; one of them, where there are several.
    pub xids: &'static [u32],
    /// Workload of the victims.
    pub victim: &'static str,
    /// Whether only a machine file can plant it, since no PTX has it.
    pub planted_only: bool,
    /// Readies it.
    arm: Arm,
    /// Readies its accomplice, where it has one.
    accomplice: Option<ArmAccomplice>,
}

impl std::fmt::Debug for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// What most faults have in common.
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
    arm: call::nothing,
    accomplice: None,
};

/// Every fault, from benign to severe. The controls come first: without them nothing counts.
pub const CATALOGUE: &[Fault] = &[
    call::PLACEBO,
    call::CANARY,
    call::EMPTY_LAUNCH,
    call::BAD_LAUNCH,
    call::DOUBLE_FREE,
    printf::PRINTF_FLOOD,
    oom::OOM,
    hang::HANG,
    hang::STOP,
    hang::DESTROY,
    hang::EXIT,
    hang::KILL,
    service::TERMINATE_CLIENT,
    lock::HOLDER_KILLED,
    kernel::ASSERT,
    kernel::TRAP,
    kernel::MISALIGNED,
    kernel::SHARED_OOB,
    kernel::STACK,
    kernel::BAD_SPACE,
    kernel::BAD_PC,
    kernel::ILLEGAL_INSTRUCTION,
    kernel::ILLEGAL_ADDRESS,
    peer::EXPORTER_EXIT,
    service::KILL_SERVER,
    service::KILL_DAEMON,
];

/// The name of the control that must never hurt anybody.
pub const PLACEBO: &str = "placebo";
/// The name of the control that must always be seen.
pub const CANARY: &str = "canary";

/// The fault of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Fault> {
    CATALOGUE.iter().find(|fault| fault.name == name)
}

/// A fault that is about to happen. Belongs to the thread that armed it.
pub trait Armed {
    /// Does it, and waits for the answer.
    ///
    /// # Errors
    /// The answer, where it is not success.
    fn strike(&mut self, gpu: &Gpu, moment: &Moment<'_>) -> Result<(), StrikeError>;
}

/// When a fault happens.
pub struct Moment<'t> {
    /// The clock.
    pub time: &'t dyn Time,
    /// When it is over at the latest.
    pub until_ns: u64,
    /// When the answer was there, where the process does something else before it tells.
    answered_ns: Cell<Option<u64>>,
}

impl<'t> Moment<'t> {
    /// Now, with an end.
    #[must_use]
    pub fn new(time: &'t dyn Time, until_ns: u64) -> Self {
        Self {
            time,
            until_ns,
            answered_ns: Cell::new(None),
        }
    }

    /// Says that the answer is there; the first time counts.
    pub fn answered(&self) {
        if self.answered_ns.get().is_none() {
            self.answered_ns.set(Some(self.time.now_ns()));
        }
    }

    /// When the answer was there.
    #[must_use]
    pub fn answered_ns(&self) -> Option<u64> {
        self.answered_ns.get()
    }
}

/// Why a strike did not end well, which for most of them is the point.
#[derive(Debug, thiserror::Error)]
pub enum StrikeError {
    /// The driver's answer.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The clock refused.
    #[error(transparent)]
    Clock(#[from] ClockError),
}

impl Fault {
    /// Allocates and loads all that it takes.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn arm(&self, gpu: &Gpu, how: &Arming<'_>) -> Result<Box<dyn Armed>, LoadError> {
        (self.arm)(gpu, how)
    }

    /// Whether one more process takes part.
    #[must_use]
    pub const fn has_accomplice(&self) -> bool {
        self.accomplice.is_some()
    }

    /// The same for its accomplice, with what that gives to the process that it helps.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn arm_accomplice(&self, gpu: &Gpu) -> Result<(Box<dyn Armed>, Option<String>), LoadError> {
        let arm = self.accomplice.ok_or(LoadError::Fault {
            fault: self.name,
            what: "it has no accomplice",
        })?;
        arm(gpu)
    }
}

/// What a harmless call answers after a fault: a wait, and a small allocation.
///
/// # Errors
/// When the call could not be made.
pub fn afterwards(gpu: &Gpu) -> Result<i32, DriverError> {
    let tried = gpu
        .context
        .synchronize()
        .and_then(|()| gpubench_kernels::driver::DeviceBuffer::<u32>::alloc(&gpu.context, 1))
        .map(|_| ());
    match tried {
        Ok(()) => Ok(codes::SUCCESS),
        Err(error) => error.code().ok_or(error),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Answer, CANARY, CATALOGUE, Class, HostAct, PLACEBO, Severity, find};
    use crate::load;

    #[test]
    fn entries_are_unique_told_and_in_order() {
        let names: BTreeSet<_> = CATALOGUE.iter().map(|fault| fault.name).collect();
        assert_eq!(names.len(), CATALOGUE.len());
        for fault in CATALOGUE {
            assert!(fault.summary.len() > 20, "{fault:?}");
            assert!(load::find(fault.victim).is_ok(), "{fault:?}");
            assert!(find(fault.name).is_some());
        }
        assert!(
            CATALOGUE.is_sorted_by_key(|fault| fault.severity),
            "benign ones come first"
        );
    }

    #[test]
    fn every_entry_says_what_it_tests_and_what_should_come_of_it() {
        for fault in CATALOGUE {
            assert!(!fault.resource.is_empty(), "{fault:?}");
            let control = fault.class == Class::Control;
            assert_eq!(fault.severity == Severity::Control, control, "{fault:?}");
            let service = fault.class == Class::Service;
            assert_eq!(fault.severity == Severity::Systemic, service, "{fault:?}");
            let kills_it = fault.act == HostAct::KillAccomplice;
            assert_eq!(fault.has_accomplice(), kills_it, "{fault:?}");
            // An error that ends a context is one that somebody is told of.
            let told = matches!(fault.answer, Answer::Codes(_) | Answer::Open(_));
            assert!(told || fault.severity != Severity::Fatal, "{fault:?}");
        }
    }

    #[test]
    fn the_controls_come_first() {
        assert_eq!((CATALOGUE[0].name, CATALOGUE[1].name), (PLACEBO, CANARY));
        assert_eq!(CATALOGUE[1].act, HostAct::KillVictim);
        let answers = CATALOGUE[..2].iter().map(|control| control.answer);
        assert!(answers.eq([Answer::Well, Answer::Open(&[])]));
    }
}
