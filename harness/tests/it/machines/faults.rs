//! The proportion of contained faults that a machine file plants.

use super::planted::Planted;

/// Ends every client of an MPS server, and no one else unless a defect is planted.
pub const FAULT: &str = "trap";
/// The fewest of which none contained is L0.
pub const TRIALS: u32 = 17;

/// The chance that a trial harms no victim. There is one: two tenants, one of which fails.
pub fn contained(planted: &Planted, mechanism: &str) -> Option<f64> {
    let defects = &planted.machine.defects;
    let is_shared = match mechanism {
        "time-slicing" | "mig" => false,
        "mps" | "mps-quota" => !defects.mps_contains_faults,
        _ => return None,
    };
    Some(if is_shared { 0.0 } else { 1.0 - defects.fault_escape })
}
