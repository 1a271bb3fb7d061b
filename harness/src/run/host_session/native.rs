//! Which state of the host a cell needs, and whether tenants without a mechanism can run in the
//! present one.

use super::{HostSession, MechanismKey, PLAIN};
use crate::mechanism::HostStage;
use crate::run::RunError;
use crate::run::tenant_set::TenantSet;

impl HostSession {
    /// The state of the host that a cell or trial needs.
    pub(super) fn wanted(&self, key: &MechanismKey<'_>) -> Option<HostStage> {
        let own = self.handles.setup.host.stage_of(key.mechanism, key.variant);
        own.or_else(|| self.shared.get(key.group).cloned())
    }

    /// Whether the host must be switched for this cell or trial.
    pub fn would_switch(&self, key: &MechanismKey<'_>) -> bool {
        self.stage != self.wanted(key)
    }

    /// The tenants without a mechanism, if they can run in the present state of the host.
    pub async fn native(&mut self) -> Result<Option<&mut TenantSet>, RunError> {
        let allowed = match &self.stage {
            Some(stage) => stage.allows_native || self.refused.contains_key(stage),
            None => self.handles.setup.host.facts.mig != Some(true),
        };
        if !allowed {
            return Ok(None);
        }
        self.start(PLAIN, "").await?;
        self.of(PLAIN).map(Some)
    }
}
