//! What mechanisms need to know of a run: options, facts, journal.

use crate::mechanism::host::JournalLocation;
use crate::mechanism::{self, HostFacts, HostStage, MechanismContext};
use crate::profile::Profile;

/// The user's wishes, the facts of the host, and where its changes are written.
pub struct HostSetup {
    /// What the user wants.
    profile: Profile,
    /// The same for unprotected forms, which run for comparison.
    unprotected: Profile,
    /// The facts of the host.
    pub facts: HostFacts,
    /// Where changes are written.
    pub journal: JournalLocation,
}

impl HostSetup {
    /// From the user's profile, the facts of the host, and the journal of its changes.
    #[must_use]
    pub fn new(profile: Profile, facts: HostFacts, journal: JournalLocation) -> Self {
        Self {
            unprotected: mechanism::unprotected_profile(&profile),
            profile,
            facts,
            journal,
        }
    }

    /// The context of mechanisms with the user's options.
    pub const fn asked(&self) -> MechanismContext<'_> {
        MechanismContext {
            profile: &self.profile,
            facts: &self.facts,
        }
    }

    /// The context of the mechanism of a variant's cells. A variant that the user's options do not
    /// make is an unprotected form.
    pub fn asked_of(&self, mechanism: &str, variant: &str) -> MechanismContext<'_> {
        let asked = self.asked();
        let is_own =
            mechanism::find(mechanism).is_none_or(|m| m.configuration(&asked).variant == variant);
        let profile = if is_own {
            &self.profile
        } else {
            &self.unprotected
        };
        MechanismContext { profile, ..asked }
    }

    /// The state of the host in which cells of that variant run.
    pub fn stage_of(&self, mechanism: &str, variant: &str) -> Option<HostStage> {
        let context = self.asked_of(mechanism, variant);
        mechanism::find(mechanism)?.configuration(&context).stage
    }
}
