//! What mechanisms need of a run: options, facts of the host, journal.

use gpubench_host::mechanism::host::JournalLocation;
use gpubench_host::mechanism::{self, HostFacts, HostStage, MechanismContext};
use gpubench_plan::profile::Profile;

/// The user's options, the facts of the host, and the journal of its changes.
pub struct HostSetup {
    /// The user's profile.
    profile: Profile,
    /// The profile of unprotected forms, which run for comparison.
    unprotected: Profile,
    pub facts: HostFacts,
    /// The journal of changes.
    pub journal: JournalLocation,
}

impl HostSetup {
    /// From the user's profile, the facts of the host, and the journal of its changes.
    #[must_use]
    pub fn new(profile: Profile, facts: HostFacts, journal: JournalLocation) -> Self {
        Self { unprotected: mechanism::unprotected_profile(&profile), profile, facts, journal }
    }

    /// The context of mechanisms with the user's options.
    pub const fn context(&self) -> MechanismContext<'_> {
        MechanismContext { profile: &self.profile, facts: &self.facts }
    }

    /// The context of the mechanism of a variant. A variant that does not follow from the user's
    /// options is an unprotected form.
    pub fn context_of(&self, mechanism: &str, variant: &str) -> MechanismContext<'_> {
        let context = self.context();
        let is_own =
            mechanism::find(mechanism).is_none_or(|m| m.configuration(&context).variant == variant);
        let profile = if is_own { &self.profile } else { &self.unprotected };
        MechanismContext { profile, ..context }
    }

    /// The state of the host in which cells of that variant run.
    pub fn stage_of(&self, mechanism: &str, variant: &str) -> Option<HostStage> {
        let context = self.context_of(mechanism, variant);
        mechanism::find(mechanism)?.configuration(&context).stage
    }
}
