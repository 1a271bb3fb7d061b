//! `mig-mps`: all tenants share one hardware instance through an MPS server of that instance.
//!
//! One daemon serves one MIG device: `CUDA_VISIBLE_DEVICES=MIG-...` with pipe and log folders of
//! its own (MIG User Guide, "Getting started"). Exclusive compute mode, which is often recommended
//! for MPS, does not exist under MIG. Tenants select the instance too, so that a tenant that does
//! not reach the daemon still stays in the instance.

use gpubench_plan::Availability;
use gpubench_record::{Proof, Sharing};

use super::host::{ControlError, Guard, HostError};
use super::interface::{About, USUAL};
use super::{
    Configuration, HostStage, InForce, Mechanism, MechanismContext, MechanismEntry, Observation,
    OpeningChecks, OptionEntry, TenantEnv, mig, mig_layout, mps,
};

#[derive(Debug)]
pub struct MigMps;

const ENTRY: MechanismEntry = MechanismEntry {
    name: "mig-mps",
    summary: "all processes share one hardware instance through an MPS server",
    about: About {
        since: "driver 450",
        needs: "a GPU with MIG; --allow-reconfigure, root",
        changes: "MIG mode, an instance, an MPS daemon",
        proof: "the UUID of the instance, and the clients of the daemon",
        deployed_by: "MIG profiles shared by MPS, set up by hand",
    },
    group: "mig-mps",
    reconfigures: true,
    options: &[OptionEntry {
        key: "layout",
        summary: "size of the instance",
        accepted: &["auto", "7g", "3g.40gb"],
    }],
    sharing: Sharing::InSpace,
    mps_daemon: true,
    ..USUAL
};

impl Mechanism for MigMps {
    fn entry(&self) -> &'static MechanismEntry {
        &ENTRY
    }

    fn availability(&self, cx: &MechanismContext<'_>) -> Availability {
        match mig_layout::available(cx, &cx.profile.mig_mps.layout, 1) {
            Availability::Available => mps::daemon_available(cx).unwrap_or(Availability::Available),
            waived => waived,
        }
    }

    fn configuration(&self, cx: &MechanismContext<'_>) -> Configuration {
        let text = &cx.profile.mig_mps.layout;
        let variant = mig_layout::variant(cx, ENTRY.name, text, mig_layout::layout(cx, text, 1));
        let mut host_changes = mig_layout::changes(cx, mig_layout::layout(cx, text, 1));
        host_changes.push(mps::DAEMON.to_owned());
        Configuration {
            variant: variant.clone(),
            host_changes,
            stage: Some(HostStage { key: variant, allows_native: false }),
            checks: OpeningChecks::default(),
            refuses_outsiders: false,
            memory_limit_bytes: None,
            compute_limit: None,
            required: vec![mps::CLIENTS, mig::ASSIGNED, mig::SIZES, mig::LISTED],
        }
    }

    fn enter(&self, cx: &MechanismContext<'_>, guard: &mut Guard) -> Result<InForce, HostError> {
        let instances = mig_layout::enter(cx, guard, &cx.profile.mig_mps.layout, 1)?;
        let uuid = instances.first().and_then(|instance| instance.compute.first());
        let uuid = uuid.map(|compute| compute.uuid.clone()).ok_or_else(|| {
            ControlError::new("starting the MPS daemon", "the instance has no device")
        })?;
        let daemon = mps::start(guard, &uuid, mps::Form::Plain)?;
        Ok(InForce { daemon: Some(daemon), instances, ..InForce::default() })
    }

    fn tenant_env(&self, _cx: &MechanismContext<'_>, set_up: &InForce, _slot: usize) -> TenantEnv {
        let mut env = mps::client_env(set_up);
        env.extend(mig::instance_env(set_up.instances.first()));
        env
    }

    fn prove(&self, cx: &MechanismContext<'_>, observed: &Observation) -> Vec<Proof> {
        let mut proofs = mps::clients(observed);
        if !proofs.is_empty() {
            proofs.push(mig::assigned(observed));
            // The instance isolates its tenants from others, not from each other.
            proofs.push(Proof {
                hardware: false,
                ..mig::sizes(cx, &cx.profile.mig_mps.layout, 1, observed)
            });
            proofs.extend(mig::listed_in_instances(observed));
        }
        proofs
    }
}
