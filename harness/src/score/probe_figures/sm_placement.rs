//! On how many SMs blocks of each tenant ran.
//!
//! In hardware partitions each tenant's SM numbers begin at zero. Equal numbers of two tenants are
//! then different SMs, and there is no figure of SMs with blocks of both.

use gpubench_record::{SmNumbers, SmPlacementPair};

use super::Out;

const EXPLAINS: &str = "compute/sm";

/// SMs of the victim, of its neighbour, and with blocks of both.
pub(super) fn figures(out: &mut Out<'_>, rounds: &[SmPlacementPair], numbers: SmNumbers) {
    let counts =
        |of: fn(&SmPlacementPair) -> usize| rounds.iter().map(|pair| of(pair) as f64).collect();
    let count = |out: &mut Out<'_>, what, of| out.median(EXPLAINS, what, "SMs", counts(of));
    count(out, "SMs with the victim's blocks", |pair| pair.victim_sms.len());
    count(out, "SMs with the neighbour's blocks", |pair| pair.neighbour_sms.len());
    if numbers == SmNumbers::OfDevice {
        count(out, "SMs with blocks of both", |pair| {
            let other = &pair.neighbour_sms;
            pair.victim_sms.iter().filter(|sm| other.contains(sm)).count()
        });
    }
}
