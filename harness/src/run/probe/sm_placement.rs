//! On which SMs the blocks of two tenants run when both launch at the same time.

use gpubench_record::{Condition, FromTenant, ProbeFound, SmPlacementPair, ToTenant};

use super::concurrent::ask_both;
use super::{NEIGHBOUR, VICTIM};
use crate::run::RunError;
use crate::run::tenant_set::TenantSet;

/// Of six counts the least and the greatest bound the median with 97 %.
const ROUNDS: usize = 6;

/// Has both tenants count their SMs, again and again.
pub async fn sm_placement(tenants: &mut TenantSet) -> Result<ProbeFound, RunError> {
    tenants.arrange(Condition::C).await?;
    let ask = ToTenant::FindSms;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let (victim, neighbour) = ask_both(tenants, &ask, &ask).await?;
        let counted = |answer, slot| match answer {
            FromTenant::FoundSms { sms } => Ok(sms),
            other => Err(tenants.unexpected(slot, &other)),
        };
        rounds.push(SmPlacementPair {
            victim_sms: counted(victim, VICTIM)?,
            neighbour_sms: counted(neighbour, NEIGHBOUR)?,
        });
    }
    Ok(ProbeFound::SmPlacement {
        device_sms: tenants.handles().sm_count(),
        rounds,
    })
}
