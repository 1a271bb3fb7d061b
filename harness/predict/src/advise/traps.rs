//! Common mistakes at the questions of the tree.

use super::walk::Step;

/// A common mistake.
#[derive(Debug, Clone, Copy)]
pub struct Trap {
    /// What not to do, and why.
    pub text: &'static str,
    applies_to: fn(&Step) -> bool,
}

/// The traps of the overview S1.
pub const TRAPS: [Trap; 4] = [
    Trap {
        text: "time-slicing for regulated tenants: it isolates neither memory nor compute nor \
               faults, at any replica count",
        applies_to: |step| step.node.number == 1 && step.choice.value == "hard",
    },
    Trap {
        text: "MPS for fault-sensitive serving: a fatal fault of one client is reported to all \
               clients of its server",
        applies_to: |step| step.node.number == 8,
    },
    Trap {
        text: "the GPU Operator on nodes with a driver of the cloud provider: it replaces the \
               driver unless driver.enabled and toolkit.enabled are false",
        applies_to: |step| step.node.number == 5 && step.choice.value == "cloud",
    },
    Trap {
        text: "treating HAMi's compute limit like a MIG instance: it limits a rate after the \
               fact, and bursts exceed it until the limiter reacts",
        applies_to: |step| step.node.number == 7,
    },
];

/// The traps at a step.
pub fn at(step: &Step) -> Vec<&'static str> {
    TRAPS.iter().filter(|trap| (trap.applies_to)(step)).map(|trap| trap.text).collect()
}
