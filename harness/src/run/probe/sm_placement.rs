//! `sm-placement`: the SMs on which the blocks of two tenants run when both launch at the same
//! time.

use gpubench_record::{Condition, FromTenant, ProbeFound, SmPlacementPair, ToTenant};

use super::steps::ask_both;
use super::{NEIGHBOUR, Probe, Run, VICTIM};
use crate::run::RunError;
use crate::run::tenant_set::TenantSet;

/// The entry of the catalogue.
pub(super) const PROBE: Probe = Probe {
    name: "sm-placement",
    summary: "on how many SMs do the blocks of each tenant run, and on how many those of both?",
    sub_axis: "compute/sm",
    runs: &[Run::Tenants(|tenants| Box::pin(sm_placement(tenants)))],
    ..super::PROBE
};

/// Of six counts the smallest and the largest bound the median with 97 %.
const ROUNDS: usize = 6;

/// Has both tenants report their SMs once in each round.
async fn sm_placement(tenants: &mut TenantSet) -> Result<ProbeFound, RunError> {
    tenants.arrange(Condition::C).await?;
    let message = ToTenant::FindSms;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let (victim, neighbour) = ask_both(tenants, &message, &message).await?;
        let sms_of = |answer, slot| match answer {
            FromTenant::FoundSms { sms } => Ok(sms),
            other => Err(tenants.unexpected(slot, &other)),
        };
        rounds.push(SmPlacementPair {
            victim_sms: sms_of(victim, VICTIM)?,
            neighbour_sms: sms_of(neighbour, NEIGHBOUR)?,
        });
    }
    Ok(ProbeFound::SmPlacement { device_sms: tenants.handles().sm_count(), rounds })
}
