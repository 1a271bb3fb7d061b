//! The catalogue of faults: what a tenant does to fail or to disturb others, from benign to severe.
//!
//! To add one, write its file with its `FAULTS` and add its line to `catalogue!`. A fault runs in a
//! process of its own, which ends after it. Work that it leaves on the device has a deadline. Some
//! faults need a helper process, which passes text to the first one and is killed. Each entry
//! states the documented error codes and Xids, which are hypotheses on a real GPU; the fault tables
//! in `profiles/machines` hold what real GPUs answered.

use std::sync::LazyLock;

use crate::load::{Gpu, LoadError};

mod armed;
mod class;
mod left_out;

pub use armed::{Armed, InjectError, Moment, afterwards};
pub use class::{Class, Severity};
pub use left_out::{LEFT_OUT, LeftOut};

/// What a mechanism needs so that the fault can happen under it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Only tenants that are processes.
    Nothing,
    /// An MPS daemon that serves the tenants.
    MpsDaemon,
    /// A preloaded library that accounts for the tenants' memory.
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
    #[must_use]
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

/// The input of a fault's preparation.
#[derive(Debug, Clone, Copy, Default)]
pub struct Arming<'a> {
    /// Longest time that its work may stay on the device.
    pub budget_ns: u64,
    /// The text of the helper process.
    pub from_helper: Option<&'a str>,
}

/// Prepares a fault.
type Arm = fn(&Gpu, &Arming<'_>) -> Result<Box<dyn Armed>, LoadError>;

/// Prepares a helper process, and returns its text for the process that it helps.
type ArmHelper = fn(&Gpu) -> Result<(Box<dyn Armed>, Option<String>), LoadError>;

#[derive(Clone, Copy)]
pub struct Fault {
    /// Name on the command line and in records.
    pub name: &'static str,
    pub class: Class,
    pub severity: Severity,
    /// What it does, in one line.
    pub summary: &'static str,
    /// The tested resource of the device or the mechanism.
    pub resource: &'static str,
    /// What its mechanism needs.
    pub needs: Needs,
    /// The coordinator's action.
    pub act: HostAct,
    /// The documented result.
    pub answer: Answer,
    /// Documented Xids; the driver should log one of them.
    pub xids: &'static [u32],
    /// Workload of the victims.
    pub victim: &'static str,
    /// Whether only a virtual machine file can cause it, because PTX cannot.
    pub planted_only: bool,
    /// How long it may take until it is complete: its trials are long enough to see its harm.
    pub takes_ns: u64,
    /// Prepares it.
    arm: Arm,
    /// Prepares its helper process, where it has one.
    helper: Option<ArmHelper>,
}

impl std::fmt::Debug for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// The usual values.
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
    arm: call::nothing,
    helper: None,
};

/// Declares the module of each group of faults and registers its `FAULTS`.
macro_rules! catalogue {
    ($( $module:ident, )*) => {
        $( mod $module; )*
        const MODULES: &[&[Fault]] = &[ $( $module::FAULTS, )* ];
    };
}

catalogue! {
    call,
    printf,
    oom,
    hang,
    service,
    lock,
    kernel,
    peer,
}

/// Every fault, from benign to severe, then in the order of the registry. The controls come first,
/// because no trial counts without them.
pub static CATALOGUE: LazyLock<Vec<Fault>> = LazyLock::new(|| {
    let mut faults: Vec<Fault> = MODULES.iter().copied().flatten().copied().collect();
    faults.sort_by_key(|fault| fault.severity);
    faults
});

/// The control that must affect no victim.
pub const PLACEBO: &str = "placebo";
/// The self-test fault: its effect on a victim must always be detected.
pub const CANARY: &str = "canary";

#[must_use]
pub fn find(name: &str) -> Option<&'static Fault> {
    CATALOGUE.iter().find(|fault| fault.name == name)
}

impl Fault {
    /// Allocates and loads everything that the fault needs.
    pub fn arm(&self, gpu: &Gpu, how: &Arming<'_>) -> Result<Box<dyn Armed>, LoadError> {
        (self.arm)(gpu, how)
    }

    /// Whether it needs a helper process.
    #[must_use]
    pub const fn has_helper(&self) -> bool {
        self.helper.is_some()
    }

    /// Prepares its helper process; returns its text for the process that it helps.
    pub fn arm_helper(&self, gpu: &Gpu) -> Result<(Box<dyn Armed>, Option<String>), LoadError> {
        let arm = self
            .helper
            .ok_or(LoadError::Fault { fault: self.name, what: "it has no helper process" })?;
        arm(gpu)
    }
}

#[cfg(test)]
mod tests;
