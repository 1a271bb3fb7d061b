//! The four traps that lie beside the tree's paths.

use super::walk::Step;

/// A mistake that is near on some path.
#[derive(Debug, Clone, Copy)]
pub struct Trap {
    /// What not to do, and why.
    pub text: &'static str,
    is_near: fn(&Step) -> bool,
}

/// The traps of S1.
pub const TRAPS: [Trap; 4] = [
    Trap {
        text: "time-slicing for regulated tenants: it isolates neither memory nor compute nor \
               faults, whatever the replica count says",
        is_near: |step| step.node.number == 1 && step.choice.value == "hard",
    },
    Trap {
        text: "MPS for fault-sensitive serving: a fatal fault of one client is reported to all \
               clients of its server",
        is_near: |step| step.node.number == 8,
    },
    Trap {
        text: "the GPU Operator on nodes whose driver the cloud manages: it fights for the driver \
               unless driver.enabled and toolkit.enabled are false",
        is_near: |step| step.node.number == 5 && step.choice.value == "cloud",
    },
    Trap {
        text: "treating HAMi's compute cap as MIG's: it limits a rate after the fact, and bursts \
               exceed it until the limiter catches up",
        is_near: |step| step.node.number == 7,
    },
];

/// The traps near a step.
pub fn near(step: &Step) -> Vec<&'static str> {
    TRAPS
        .iter()
        .filter(|trap| (trap.is_near)(step))
        .map(|trap| trap.text)
        .collect()
}
