//! `green-context`: tenants are threads of one process, each with a green context on an even part
//! of the SMs.
//!
//! A green context sets SMs aside for the streams made in it (CUDA driver API, "Green Contexts",
//! since CUDA 12.4). It divides nothing else: its tenants share one address space, so that there is
//! no isolation of memory; they share L2, DRAM and copy engines; and a fault of one ends all. Those
//! axes are not scored, since there is nothing to score.
//!
//! SMs come in steps of the chip (2, or 8 from compute capability 9.0 on), so that 132 SMs give two
//! tenants 64 each and leave 4, never 66 and 66. The proof is that NVML lists one process, ours,
//! and that the blocks of each tenant ran on SMs of its own.

use gpubench_record::Proof;
use gpubench_record::wire::Inside;

use super::{Asked, Mechanism, Questions, Seen, device_is_cut, observed, prohibited, waived};
use crate::plan::Availability;

/// See the module.
#[derive(Debug)]
pub struct GreenContext;

/// First CUDA version whose driver has green contexts (cuda.h of 12.4; driver release 550).
const CUDA_MIN: i32 = 12_040;

impl Mechanism for GreenContext {
    fn name(&self) -> &'static str {
        "green-context"
    }

    fn availability(&self, asked: &Asked<'_>) -> Availability {
        let facts = asked.facts;
        if let Some(waived) = device_is_cut(facts).or_else(|| prohibited(facts)) {
            return waived;
        }
        if facts.cuda < CUDA_MIN {
            let (major, minor) = (facts.cuda / 1000, facts.cuda % 1000 / 10);
            return waived(
                format!("the driver speaks CUDA {major}.{minor}, green contexts need 12.4"),
                Some("a driver of release 550 or later"),
            );
        }
        Availability::Available
    }

    fn inside(&self, places: usize) -> Vec<Inside> {
        let places = u32::try_from(places).unwrap_or(u32::MAX);
        let one = |place| Inside::GreenContext { place, places };
        (0..places).map(one).collect()
    }

    fn questions(&self, _asked: &Asked<'_>) -> Questions {
        Questions {
            census: true,
            over_limit_bytes: None,
        }
    }

    fn prove(&self, _asked: &Asked<'_>, seen: &Seen) -> Vec<Proof> {
        if seen.condition.is_native() || seen.tenants.len() < 2 {
            return Vec::new();
        }
        let mut proofs: Vec<Proof> = one_process(seen).into_iter().collect();
        proofs.push(apart(seen));
        proofs
    }
}

/// Whether all tenants are in one process, and nobody else is there.
pub(super) fn one_process(seen: &Seen) -> Option<Proof> {
    const CHECK: &str = "all tenants are threads of one process";
    let mut pids = seen.ours.clone();
    pids.dedup();
    let listed = seen.listed.as_ref()?;
    // NVML's numbers can be those of another process namespace; how many there are can be told.
    let alone = match seen.foreign() {
        Some(foreign) => foreign.is_empty(),
        None => listed.len() == 1 + seen.services.len(),
    };
    let holds = pids.len() == 1 && alone;
    let evidence = format!(
        "NVML lists {listed:?}, the tenants are in {pids:?}, ours beside them are {:?}",
        seen.services
    );
    Some(observed(CHECK, holds, evidence))
}

/// Whether the blocks of no two tenants ran on the same SM.
fn apart(seen: &Seen) -> Proof {
    const CHECK: &str = "each tenant's blocks run on SMs of its own";
    let counted: Vec<(String, &[u32])> = seen
        .tenants
        .iter()
        .filter_map(|tenant| Some((tenant.name(), tenant.census.as_deref()?)))
        .collect();
    let mut all: Vec<u32> = counted
        .iter()
        .flat_map(|(_, sms)| sms.iter().copied())
        .collect();
    let total = all.len();
    all.sort_unstable();
    all.dedup();
    let each = counted.iter().all(|(_, sms)| !sms.is_empty());
    let holds = each && counted.len() == seen.tenants.len() && all.len() == total;
    let told: Vec<String> = counted
        .iter()
        .map(|(name, sms)| format!("{name}: {} SMs", sms.len()))
        .collect();
    let both = total - all.len();
    let evidence = format!("{}; {both} in common", told.join(", "));
    Proof {
        limiter: holds,
        ..observed(CHECK, holds, evidence)
    }
}

#[cfg(test)]
mod tests {
    use super::{apart, one_process};
    use crate::mechanism::{Seen, TenantSeen};
    use gpubench_record::Condition;

    fn seen(census: &[Option<&[u32]>]) -> Seen {
        let tenants = census.iter().enumerate().map(|(place, sms)| TenantSeen {
            place,
            census: sms.map(<[u32]>::to_vec),
            ..TenantSeen::default()
        });
        Seen {
            tenants: tenants.collect(),
            ..Seen::new(Condition::C, vec![7, 7])
        }
    }

    #[test]
    fn one_sm_in_common_is_no_partition() {
        for (census, expected) in [
            (vec![Some(&[0, 1][..]), Some(&[2, 3][..])], true),
            (vec![Some(&[0, 1]), Some(&[1, 2])], false),
            (vec![Some(&[0, 1]), Some(&[])], false),
            (vec![Some(&[0, 1]), None], false),
        ] {
            assert_eq!(apart(&seen(&census)).holds, expected, "{census:?}");
        }
    }

    #[test]
    fn a_second_process_is_not_one() {
        let of = |ours: Vec<u32>, listed: Vec<u32>| {
            let mut seen = seen(&[]);
            seen.ours = ours;
            seen.listed = Some(listed);
            one_process(&seen).map(|proof| proof.holds)
        };
        assert_eq!(of(vec![7, 7], vec![7]), Some(true));
        assert_eq!(of(vec![7, 7], vec![31_000]), Some(true));
        assert_eq!(of(vec![7, 8], vec![7, 8]), Some(false));
        assert_eq!(of(vec![7, 7], vec![7, 9]), Some(false));
        let mut beside = seen(&[]);
        (beside.listed, beside.services) = (Some(vec![7, 9]), vec![9]);
        assert_eq!(one_process(&beside).map(|proof| proof.holds), Some(true));
    }
}
