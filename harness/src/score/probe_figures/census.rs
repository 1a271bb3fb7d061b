//! On how many SMs blocks of each tenant ran.
//!
//! Numbers are those that a tenant's own part of the device shows: of two parts of the hardware
//! the same number need not be the same SM.

use gpubench_record::CensusPair;

use super::Out;

const EXPLAINS: &str = "compute/sm";

/// SMs of the victim, of its neighbour, and with blocks of both.
pub(super) fn figures(out: &mut Out<'_>, rounds: &[CensusPair]) {
    let counts = |of: fn(&CensusPair) -> usize| rounds.iter().map(|pair| of(pair) as f64).collect();
    let count = |out: &mut Out<'_>, what, of| out.median(EXPLAINS, what, "SMs", counts(of));
    count(out, "SMs with the victim's blocks", |pair| {
        pair.victim_sms.len()
    });
    count(out, "SMs with the neighbour's blocks", |pair| {
        pair.neighbour_sms.len()
    });
    // Each part of the hardware counts its SMs from zero.
    if !out.variant.starts_with("mig") || out.variant.starts_with("mig-mps") {
        count(out, "SMs with blocks of both", |pair| {
            let other = &pair.neighbour_sms;
            pair.victim_sms
                .iter()
                .filter(|sm| other.contains(sm))
                .count()
        });
    }
}
