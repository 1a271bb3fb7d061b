//! What tenants report beside their samples: facts of each once its context is open, and the
//! answers to access attempts.

use std::ffi::OsStr;

use gpubench_record::{FromTenant, RefusalKind, ToTenant};

use super::{CONTEXT, TenantSet, name_of};
use crate::mechanism::{Mechanism, OverLimit, PRIORITY, TenantObservation};
use crate::run::snapshot::SnapshotScope;
use crate::run::{RunError, observe};
use crate::tenant::{Tenant, TenantError};

impl TenantSet {
    /// Opens the victim's context, and has every neighbour request one. A neighbour that gets one
    /// closes it again.
    pub(super) async fn attempt_access(&mut self) -> Result<(), RunError> {
        self.open_only(0).await?;
        self.access_attempts.clear();
        for slot in 1..self.slots.len() {
            let answer = match self.set_open(slot, true).await {
                Ok(()) => None,
                Err(RunError::Tenant(TenantError::Refused {
                    kind: RefusalKind::Driver { code },
                    ..
                })) => Some(code),
                Err(error) => return Err(error),
            };
            self.set_open(slot, false).await?;
            self.access_attempts.push((name_of(slot), answer));
        }
        self.attempted_at_ns = Some(self.handles.now_ns().await?);
        Ok(())
    }

    /// Attempts to get a context beside the victim's, by name, and the answers.
    pub fn access_attempts(&self) -> Vec<(String, Option<i32>)> {
        self.access_attempts.clone()
    }

    /// When the last of these attempts was answered.
    pub const fn attempted_at_ns(&self) -> Option<u64> {
        self.attempted_at_ns
    }

    /// What a snapshot of these tenants reads. The files of a process are read only where the
    /// mechanism preloads a library: the kernel locks the process's memory map meanwhile.
    pub fn snapshot_scope(&self) -> SnapshotScope {
        let preloads = |mechanism: &&dyn Mechanism| mechanism.entry().accounting_library;
        let open = self.slots.iter().flatten().filter(|tenant| tenant.is_open());
        let (programs, tenants): (Vec<&Tenant>, Vec<&Tenant>) =
            open.partition(|tenant| tenant.program().is_some());
        let (mapped_of, program_of) = if self.config.mechanism.as_ref().is_some_and(preloads) {
            (
                tenants.iter().map(|tenant| tenant.pid()).collect(),
                programs.first().map(|tenant| tenant.pid()),
            )
        } else {
            (Vec::new(), None)
        };
        SnapshotScope { set_up: self.config.set_up.clone(), mapped_of, program_of }
    }

    /// What the tenants with open contexts reported, the victim first. A user's program reports
    /// nothing.
    pub fn observations(&self) -> Vec<TenantObservation> {
        let reports = |tenant: &Tenant| tenant.is_open() && tenant.program().is_none();
        let open = |tenant: &Option<Tenant>| tenant.as_ref().is_some_and(reports);
        let all = self.slots.iter().zip(&self.observations);
        let all = all.zip(&self.config.environments);
        all.filter(|((tenant, _), _)| open(tenant))
            .map(|((tenant, observed), given)| TenantObservation {
                library_faults: tenant.as_ref().map_or_else(Vec::new, Tenant::library_faults),
                handed_instance: self.config.set_up.instance_id(observed.slot),
                visible_devices: given
                    .get(OsStr::new("CUDA_VISIBLE_DEVICES"))
                    .map(|name| name.to_string_lossy().into_owned()),
                priority: observe::variable(observed.pid, PRIORITY),
                ..observed.clone()
            })
            .collect()
    }

    /// Does the checks of the mechanism, once for each tenant process.
    pub(super) async fn check(&mut self, slot: usize) -> Result<(), RunError> {
        let checks = self.config.checks;
        if checks.sm_placement && self.observations[slot].sm_placement.is_none() {
            let message = ToTenant::FindSms;
            let answer = self.ask(slot, &message, "counting its SMs", CONTEXT).await;
            match answer {
                Ok(FromTenant::FoundSms { sms }) => {
                    self.observations[slot].sm_placement = Some(sms)
                }
                // The proof then rests on the other evidence.
                Err(RunError::Tenant(error @ TenantError::Refused { .. })) => {
                    self.handles.recorder.warning(error.to_string())?;
                    self.observations[slot].sm_placement = Some(Vec::new());
                }
                Ok(other) => return Err(self.unexpected(slot, &other)),
                Err(error) => return Err(error),
            }
        }
        if let Some(bytes) = checks.over_limit_bytes
            && self.observations[slot].over_limit.is_none()
        {
            let message = ToTenant::TryAllocate { bytes };
            let doing = "allocating beyond its limit";
            match self.ask(slot, &message, doing, CONTEXT).await? {
                FromTenant::Tried { refused_with } => {
                    self.observations[slot].over_limit = Some(OverLimit { bytes, refused_with });
                }
                other => return Err(self.unexpected(slot, &other)),
            }
        }
        let now_ns = self.handles.now_ns().await?;
        self.observations[slot].checked_at_ns.get_or_insert(now_ns);
        Ok(())
    }
}
