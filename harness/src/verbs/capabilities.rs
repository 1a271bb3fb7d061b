//! What each mechanism of the catalogue can do on this host.

use std::collections::BTreeMap;

use gpubench_record::{MechanismRow, Outcome, OutcomeKind, RequiredProof, Skip};

use gpubench_host::mechanism;
use gpubench_host::mechanism::{
    HostFacts, Mechanism, MechanismContext, Requirement, unprotected_form, unprotected_profile,
};
use gpubench_plan::profile::Profile;
use gpubench_plan::{Availability, Capabilities, Capability, VariantRef};

/// What each mechanism of the catalogue can do on a host.
pub fn capabilities(facts: &HostFacts, profile: &Profile) -> Capabilities {
    let profiles = profile.with_asked();
    let mut mechanisms: Vec<Capability> = Vec::new();
    for mechanism in mechanism::all() {
        for profile in &profiles {
            let one = capability(mechanism, &MechanismContext { profile, facts });
            // Only some mechanisms have a variant for each asked share.
            if !mechanisms.iter().any(|known| known.variant == one.variant) {
                mechanisms.push(one);
            }
        }
    }
    Capabilities { mechanisms, required_proofs: required_proofs(facts, profile) }
}

/// The proofs that each cell needs, by variant: those of the profile and their unprotected forms.
fn required_proofs(facts: &HostFacts, profile: &Profile) -> BTreeMap<String, Vec<RequiredProof>> {
    let mut required = BTreeMap::new();
    for profile in &[profile.with_asked(), vec![unprotected_profile(profile)]].concat() {
        let cx = MechanismContext { profile, facts };
        for mechanism in mechanism::all() {
            let configuration = mechanism.configuration(&cx);
            let planned = configuration.required.into_iter().map(Requirement::planned);
            let of_variant = required.entry(configuration.variant);
            of_variant.or_insert_with(|| planned.collect());
        }
    }
    required
}

fn capability(mechanism: &dyn Mechanism, cx: &MechanismContext<'_>) -> Capability {
    let entry = mechanism.entry();
    let properties = entry.properties();
    let configuration = mechanism.configuration(cx);
    // The user's program is a process of its own and cannot run as a thread.
    let needs_thread = cx.profile.user_victim.victim().is_some() && properties.has_threads();
    let availability = if let Some(unfit) = mechanism::unfit(cx.facts) {
        unfit
    } else if needs_thread {
        Availability::Waived {
            reason: "its tenants are threads of one process, and the victim is a program"
                .to_owned(),
            remedy: None,
        }
    } else {
        mechanism.availability(cx)
    };
    let stage = configuration.stage;
    Capability {
        variant: VariantRef::new(entry.name, configuration.variant),
        group: entry.group.to_owned(),
        availability,
        host_changes: configuration.host_changes,
        needs_native: mechanism::native_runs(cx.facts),
        separate: stage.is_some_and(|stage| !stage.allows_native),
        properties,
        unprotected: unprotected_form(&properties, cx),
    }
}

// The outcome of each mechanism of a run.

/// Sets the outcome of every mechanism. A mechanism with a proof that does not hold failed, also
/// where its cells are measured. A skipped mechanism gets a row with its reason.
pub fn settle(mechanisms: &mut Vec<MechanismRow>, skips: &[Skip]) {
    for row in mechanisms.iter_mut() {
        let broken = row.proof.iter().find(|proof| !proof.holds);
        if let Some(proof) = broken
            && row.outcome.outcome == OutcomeKind::Measured
        {
            row.outcome = Outcome::failed(format!("not in force: {}", proof.evidence));
        }
    }
    for skip in skips.iter().filter(|skip| skip.axis.is_none()) {
        let known =
            mechanisms.iter().any(|row| row.variant == skip.variant || row.name == skip.variant);
        if !known {
            mechanisms.push(MechanismRow {
                name: skip.name.clone(),
                variant: skip.variant.clone(),
                outcome: Outcome::waived(skip.reason.clone()),
                remedy: skip.remedy.clone(),
                proof: Vec::new(),
                tenants: BTreeMap::new(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use gpubench_host::mechanism::HostFacts;
    use gpubench_plan::profile::options::Slice;
    use gpubench_plan::profile::{Overrides, Profile};
    use gpubench_plan::{Availability, Capabilities, Capability};

    use super::capabilities;
    use crate::verbs::profile::load;

    fn profile() -> Result<Profile, crate::error::ExpectedError> {
        load("smoke", &Overrides::default())
    }

    /// A GPU without MIG, on a host on which nothing may be changed.
    fn plain_host() -> HostFacts {
        HostFacts {
            driver_major: Some(580),
            cuda: 13000,
            compute_capability: (7, 5),
            compute_mode: Some("DEFAULT".to_owned()),
            memory_mib: 16_384,
            ..HostFacts::default()
        }
    }

    fn of<'a>(found: &'a Capabilities, name: &str) -> Option<&'a Capability> {
        let mut all = found.mechanisms.iter();
        all.find(|known| known.variant.mechanism == name)
    }

    fn reason(found: &Capabilities, name: &str) -> String {
        match of(found, name).map(|capability| &capability.availability) {
            Some(Availability::Waived { reason, .. }) => reason.clone(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_time_slice_that_cannot_be_set_is_waived_with_its_remedy()
    -> Result<(), crate::error::ExpectedError> {
        let mut profile = profile()?;
        profile.time_slicing.slice = Slice::Short;
        let mut facts = plain_host();
        facts.no_nvidia_smi = Some("nvidia-smi is in no folder of PATH".to_owned());
        let found = capabilities(&facts, &profile);
        assert!(reason(&found, "time-slicing").contains("nvidia-smi"));
        facts.no_nvidia_smi = None;
        let found = capabilities(&facts, &profile);
        assert!(reason(&found, "time-slicing").contains("device settings"));
        facts.allow_reconfigure = true;
        let found = capabilities(&facts, &profile);
        assert!(reason(&found, "time-slicing").contains("CAP_SYS_ADMIN"));
        facts.may_change_settings = true;
        let found = capabilities(&facts, &profile);
        let slicing = of(&found, "time-slicing");
        assert!(slicing.is_some_and(|slicing| {
            slicing.variant.variant == "time-slicing[slice=short]"
                && slicing.availability == Availability::Available
                && slicing.separate
                && slicing.host_changes == ["time slice of the GPU to short"]
        }));
        Ok(())
    }

    #[test]
    fn the_unprotected_form_of_sharing_in_space_is_mps_where_that_runs()
    -> Result<(), crate::error::ExpectedError> {
        let mut facts = plain_host();
        let form = |facts: &HostFacts, profile: &Profile| {
            let found = capabilities(facts, profile);
            let quota = of(&found, "mps-quota").and_then(|quota| quota.unprotected.clone());
            quota.map(|form| form.variant)
        };
        let slicing = "time-slicing[slice=default]".to_owned();
        assert_eq!(form(&facts, &profile()?), Some(slicing));
        facts.mps_control = Some("/usr/bin/nvidia-cuda-mps-control".into());
        assert_eq!(form(&facts, &profile()?), Some("mps".to_owned()));
        facts.mig = Some(true);
        assert_eq!(form(&facts, &profile()?), None, "no whole device");
        Ok(())
    }

    #[test]
    fn a_quota_below_the_victims_share_is_waived() -> Result<(), crate::error::ExpectedError> {
        let mut facts = plain_host();
        facts.mps_control = Some("/usr/bin/nvidia-cuda-mps-control".into());
        let mut profile = profile()?;
        profile.mps_quota.pct = 42;
        let found = capabilities(&facts, &profile);
        assert!(reason(&found, "mps-quota").contains("42 % of the SMs is less than"));
        profile.mps_quota.pct = 43;
        let found = capabilities(&facts, &profile);
        assert_eq!(reason(&found, "mps-quota"), "Some(Available)");
        Ok(())
    }

    #[test]
    fn each_asked_share_is_a_variant_of_the_mechanisms_with_limits()
    -> Result<(), crate::error::ExpectedError> {
        let mut facts = plain_host();
        facts.mps_control = Some("/usr/bin/nvidia-cuda-mps-control".into());
        let mut profile = profile()?;
        profile.shares = vec![[10, 90], [70, 70]];
        let found = capabilities(&facts, &profile);
        let quota = found.mechanisms.iter().filter(|one| one.variant.mechanism == "mps-quota");
        let quota: Vec<_> =
            quota.map(|one| (one.variant.variant.as_str(), &one.availability)).collect();
        let free = &Availability::Available;
        let all = [("mps-quota[pct=10/90]", free), ("mps-quota[pct=70/70]", free)];
        assert_eq!(quota, all, "10 % is less than the share of the victim, and asked for");
        let mps = found.mechanisms.iter().filter(|one| one.variant.mechanism == "mps");
        assert_eq!(mps.count(), 1, "a mechanism without limits has one variant");
        let proved = |variant: &str| found.required_proofs.contains_key(variant);
        assert!(proved("mps-quota[pct=10/90]") && proved("mps-quota[pct=70/70]"));
        Ok(())
    }

    #[test]
    fn an_exclusive_compute_mode_waives_mechanisms_of_several_processes()
    -> Result<(), crate::error::ExpectedError> {
        let mut facts = plain_host();
        facts.mps_control = Some("/usr/bin/nvidia-cuda-mps-control".into());
        facts.compute_mode = Some("EXCLUSIVE_PROCESS".to_owned());
        let found = capabilities(&facts, &profile()?);
        assert!(reason(&found, "time-slicing").contains("EXCLUSIVE_PROCESS"));
        assert!(of(&found, "time-slicing").is_some_and(|one| one.unprotected.is_none()));
        for name in ["exclusive", "exclusive-process", "mps", "green-context"] {
            assert_eq!(reason(&found, name), "Some(Available)", "{name}");
        }
        // In this mode the idle server would keep native tenants out.
        assert!(of(&found, "mps").is_some_and(|mps| mps.separate));
        facts.compute_mode = Some("PROHIBITED".to_owned());
        for one in capabilities(&facts, &profile()?).mechanisms {
            let name = one.variant.mechanism;
            assert_ne!(one.availability, Availability::Available, "{name}");
        }
        Ok(())
    }
}
