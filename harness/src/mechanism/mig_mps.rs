//! `mig-mps`: all tenants share one hardware instance through an MPS server of that instance.
//!
//! One daemon serves one MIG device: `CUDA_VISIBLE_DEVICES=MIG-...` with pipe and log folders of
//! its own (MIG User Guide, "Getting started"). Exclusive compute mode, which is often
//! recommended for MPS, does not exist under MIG. Tenants name the instance too, so that one that
//! does not reach the daemon at least does not leave the instance.

use gpubench_record::Proof;

use super::host::{ControlError, Guard, HostError};
use super::{Asked, InForce, Mechanism, Seen, Stage, TenantEnv, mig, mps, program};
use crate::plan::Availability;

/// See the module.
#[derive(Debug)]
pub struct MigMps;

impl Mechanism for MigMps {
    fn name(&self) -> &'static str {
        "mig-mps"
    }

    fn variant(&self, asked: &Asked<'_>) -> String {
        let text = &asked.profile.mig_mps.layout;
        mig::variant(asked, self.name(), text, mig::layout(asked, text, 1))
    }

    fn availability(&self, asked: &Asked<'_>) -> Availability {
        match mig::available(asked, &asked.profile.mig_mps.layout, 1) {
            Availability::Available => {
                mps::daemon_available(asked).unwrap_or(Availability::Available)
            }
            waived => waived,
        }
    }

    fn host_changes(&self, asked: &Asked<'_>) -> Vec<String> {
        let mut changes = mig::changes(asked, mig::layout(asked, &asked.profile.mig_mps.layout, 1));
        changes.push(mps::DAEMON.to_owned());
        changes
    }

    fn stage(&self, asked: &Asked<'_>) -> Option<Stage> {
        Some(Stage {
            key: self.variant(asked),
            plain_too: false,
        })
    }

    fn enter(&self, asked: &Asked<'_>, guard: &mut Guard) -> Result<InForce, HostError> {
        let instances = mig::enter(asked, guard, &asked.profile.mig_mps.layout, 1)?;
        let uuid = instances
            .first()
            .and_then(|instance| instance.compute.first());
        let uuid = uuid.map(|compute| compute.uuid.clone()).ok_or_else(|| {
            ControlError::new("starting the MPS daemon", "the instance has no device")
        })?;
        let daemon = mps::start(guard, &uuid, mps::Form::Plain)?;
        Ok(InForce {
            daemon: Some(daemon),
            instances,
            ..InForce::default()
        })
    }

    fn tenant_env(&self, _asked: &Asked<'_>, set_up: &InForce, _place: usize) -> TenantEnv {
        let mut env = mps::client_env(set_up);
        env.extend(mig::instance_env(set_up.instances.first()));
        env
    }

    fn prove(&self, asked: &Asked<'_>, seen: &Seen) -> Vec<Proof> {
        let mut proofs = mps::clients(seen);
        if !proofs.is_empty() {
            proofs.push(mig::given(seen));
            // A wall around all of them is none between them.
            proofs.push(Proof {
                hardware: false,
                ..mig::sizes(asked, &asked.profile.mig_mps.layout, 1, seen)
            });
            proofs.extend(program::in_instance(seen));
        }
        proofs
    }
}
