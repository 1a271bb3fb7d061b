//! Classes of faults, and how severe they are.

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

    /// The name on the command line and in profiles: the sub-axis of the fault axis.
    #[must_use]
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
