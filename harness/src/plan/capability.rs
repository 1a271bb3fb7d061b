//! What the host at hand can do, as far as a plan needs to know it.
//!
//! Mechanisms fill this in after asking the host; planning itself asks nobody.

use gpubench_record::MechanismProperties;
use serde::{Deserialize, Serialize};

/// Every mechanism variant that the profile's options ask for, in report order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// One entry for each variant.
    pub mechanisms: Vec<Capability>,
}

/// One variant of one mechanism on this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capability {
    /// Which one.
    pub variant: VariantRef,
    /// Variants that follow one another without a switch of the host share a group.
    pub group: String,
    /// Whether it can run.
    pub availability: Availability,
    /// What it would change on the host, one line each.
    pub host_changes: Vec<String>,
    /// Whether native cells run in its group. False where they cannot, as under a MIG mode that
    /// nobody allowed to switch off.
    pub needs_native: bool,
    /// Whether the host must be switched between its cells and those of tenants without any
    /// mechanism. Within a block its cells then follow one another.
    #[serde(default)]
    pub separate: bool,
    /// What its mechanism is on every host.
    pub properties: MechanismProperties,
    /// The form whose contended cells show how the aggressor bites unprotected, in the same group.
    /// Where that form is planned anyway its cells serve; where it is this variant itself, it is
    /// unprotected by identity.
    pub unprotected: Option<VariantRef>,
}

/// A mechanism with its options.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct VariantRef {
    /// Name in the catalogue of mechanisms.
    pub mechanism: String,
    /// Canonical variant, for example `time-slicing[slice=default]`.
    pub variant: String,
}

/// Whether a variant can run here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "availability")]
pub enum Availability {
    /// It can.
    Available,
    /// It cannot.
    Waived {
        /// Why not.
        reason: String,
        /// What would make it available; absent if nothing can.
        remedy: Option<String>,
    },
}

impl VariantRef {
    /// A mechanism with the text of its variant.
    #[must_use]
    pub fn new(mechanism: impl Into<String>, variant: impl Into<String>) -> Self {
        Self {
            mechanism: mechanism.into(),
            variant: variant.into(),
        }
    }
}
