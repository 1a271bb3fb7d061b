//! Which figures of a record decide a claim, and what the record must hold besides.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::SubAxis;

/// The figures of a record that a claim is about. An absent key selects all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Selection {
    /// Rows of these sub-axes; without them, rows of the claim's axis. Older ledgers have
    /// `sub_axis`, one name.
    #[serde(
        default,
        alias = "sub_axis",
        deserialize_with = "one_or_many",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub sub_axes: Vec<SubAxis>,
    /// Records with this kind of victim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub victim: Option<VictimKind>,
    /// Rows beside this aggressor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggressor: Option<String>,
    /// Requests that the victim keeps outstanding in the closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// Tenants on the device, the victim included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenants: Option<u32>,
    /// Variants that begin with this text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// Faults, by name or class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// The mechanism whose figure divides this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<String>,
    /// Records of this profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Records of devices with one of these major compute capabilities.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compute_capability: Vec<u32>,
    /// What the record must hold besides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<Need>,
}

impl Selection {
    pub(super) fn is_all(&self) -> bool {
        *self == Self::default()
    }

    /// Whether figures of a sub-axis that this selection allows are beside this aggressor.
    pub fn is_beside(&self, aggressor: Option<&str>) -> bool {
        self.aggressor.is_none() || self.aggressor.as_deref() == aggressor
    }
}

/// Reads a list of sub-axes, and the one name of older ledgers.
fn one_or_many<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<SubAxis>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum AsRead {
        One(SubAxis),
        Many(Vec<SubAxis>),
    }
    Ok(match AsRead::deserialize(from)? {
        AsRead::One(one) => vec![one],
        AsRead::Many(many) => many,
    })
}

/// Which of several figures decide.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// Each must agree; one that contradicts refutes the claim.
    #[default]
    All,
    /// One that agrees is enough.
    Any,
    /// The worst for the tenant.
    Worst,
}

impl Scope {
    /// Whether it is the default.
    pub const fn is_all(&self) -> bool {
        matches!(self, Self::All)
    }

    /// Reads a scope, and the flag `any` of older ledgers.
    pub(super) fn or_any<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Scope, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum AsRead {
            Scope(Scope),
            Any(bool),
        }
        Ok(match AsRead::deserialize(from)? {
            AsRead::Scope(scope) => scope,
            AsRead::Any(true) => Scope::Any,
            AsRead::Any(false) => Scope::All,
        })
    }
}

/// Whose a threshold and a tolerance are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ToleranceOf {
    /// The statement gives them.
    Statement,
    /// The ledger sets them, because the statement gives words or a single figure.
    Ours,
}

named! {
    /// How much of the device a victim demands.
    pub enum VictimKind {
        /// At most an even share, so that any loss is caused by the neighbours.
        Abiding = "abiding",
        /// The whole device.
        Saturating = "saturating",
        /// What each of its neighbours demands.
        Equal = "equal",
    }
}

impl VictimKind {
    pub(super) const fn need(self) -> Need {
        match self {
            Self::Abiding => Need::AbidingVictim,
            Self::Saturating => Need::SaturatingVictim,
            Self::Equal => Need::EqualTenants,
        }
    }
}

/// What a record must hold for a claim beside the quantity: a closed list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    /// A victim that demands at most an even share.
    AbidingVictim,
    /// A victim that demands the whole device.
    SaturatingVictim,
    /// Tenants that all run the victim's load.
    EqualTenants,
    /// A victim with more requests outstanding.
    Depth,
    /// Quotas that add up to more than the device.
    OversubscribedQuotas,
    /// Tenants with different quotas.
    UnequalQuotas,
    /// Time slices of several lengths.
    SliceLengths,
    /// Neighbours that pause.
    PausingNeighbours,
    /// A measurement of caches after a switch.
    CacheAfterSwitch,
    /// Rights to change instances that are in use.
    Root,
    /// A reset of the device.
    DeviceReset,
    /// Clients of one server on several GPUs.
    Topology,
    /// Energy at several loads.
    Energy,
    /// A language model as the victim.
    LanguageModel,
}

impl Need {
    /// What it is, and what measures it.
    pub const fn in_words(self) -> [&'static str; 2] {
        /// Of an experiment that does not exist.
        const NONE: &str = "no experiment of this version has it";
        match self {
            Self::AbidingVictim => {
                ["a victim that keeps to an even share", "a profile with share up to 1/tenants"]
            }
            Self::SaturatingVictim => {
                ["a victim that demands the whole device", "a profile with share = 1"]
            }
            Self::EqualTenants => ["tenants that all run the victim's load", "the profile equal"],
            Self::Depth => ["a victim with more requests outstanding", "the profile depth"],
            Self::OversubscribedQuotas => [
                "quotas that add up to more than the device",
                "a profile with mps-quota.pct above 100/tenants",
            ],
            Self::UnequalQuotas => ["tenants with different quotas", "the profile shares"],
            Self::SliceLengths => {
                ["time slices of several lengths", "a record for each time-slicing.slice"]
            }
            Self::PausingNeighbours => ["neighbours that pause", NONE],
            Self::CacheAfterSwitch => ["a measurement of caches after a switch", NONE],
            Self::Root => ["rights to change instances that are in use", NONE],
            Self::DeviceReset => ["a reset of the device", NONE],
            Self::Topology => ["clients of one server on several GPUs", NONE],
            Self::Energy => ["energy at several loads", NONE],
            Self::LanguageModel => ["a language model as the victim", NONE],
        }
    }
}
