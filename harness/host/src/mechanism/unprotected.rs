//! The unprotected form of a mechanism: the same tenants share the device in space or in time
//! without any protection. Its contended cells show whether an aggressor harms a victim at all.

use gpubench_plan::profile::Profile;
use gpubench_plan::{Availability, VariantRef};
use gpubench_record::{MechanismProperties, Sharing};

use super::{CATALOGUE, HostFacts, Mechanism, MechanismContext};

/// The unprotected form for a mechanism with these properties on this host; `None` for a mechanism
/// that shares nothing, and if no unprotected form can run.
///
/// Sharing in space is compared with unprotected sharing in space, because time slices do not show
/// the harm of an aggressor that runs at the same time. If that form cannot run, and for sharing in
/// time, it is unprotected sharing in time.
pub fn unprotected_form(
    properties: &MechanismProperties,
    cx: &MechanismContext<'_>,
) -> Option<VariantRef> {
    let in_space = match properties.sharing {
        Sharing::Reference | Sharing::OneTenant => return None,
        Sharing::InTime => false,
        Sharing::InSpace => true,
    };
    if !native_runs(cx.facts) {
        return None;
    }
    let profile = unprotected_profile(cx.profile);
    let cx = MechanismContext { profile: &profile, ..*cx };
    let variant = |form: &'static dyn Mechanism| {
        VariantRef::new(form.name(), form.configuration(&cx).variant)
    };
    if in_space
        && let Some(form) = form_of(Sharing::InSpace)
        && form.availability(&cx) == Availability::Available
    {
        return Some(variant(form));
    }
    let admits_several = cx.facts.compute_mode.as_deref().is_none_or(|mode| mode == "DEFAULT");
    form_of(Sharing::InTime).filter(|_| admits_several).map(variant)
}

/// A profile under which no unprotected form protects a tenant.
pub fn unprotected_profile(profile: &Profile) -> Profile {
    let mut profile = profile.clone();
    for set in CATALOGUE.iter().filter_map(|mechanism| mechanism.entry().unprotected) {
        set(&mut profile);
    }
    profile
}

/// Whether native cells can run: not while MIG divides the device, nor while its compute mode
/// refuses every process.
pub fn native_runs(facts: &HostFacts) -> bool {
    facts.mig != Some(true) && facts.compute_mode.as_deref() != Some("PROHIBITED")
}

fn form_of(sharing: Sharing) -> Option<&'static dyn Mechanism> {
    CATALOGUE.iter().copied().find(|mechanism| {
        let entry = mechanism.entry();
        entry.sharing == sharing && entry.unprotected.is_some()
    })
}
