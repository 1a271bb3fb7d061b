//! The gates on a cell, and how a record names them.
//!
//! What each gate checks is listed in the binary's room `gate`. A record of another version can
//! hold a gate that this version does not have: it reads as [`Gate::Other`].

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// Declares the gates, each with its name in records.
macro_rules! gates {
    ($($gate:ident => $name:literal,)*) => {
        /// A check on one cell that decides whether its figures can be trusted.
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
        #[serde(from = "String", into = "String")]
        #[expect(missing_docs, reason = "the catalogue in the room `gate` has a text for each")]
        pub enum Gate {
            $($gate,)*
            /// A gate of another version, by its name.
            Other(String),
        }

        impl Gate {
            /// Every gate of this version.
            pub const ALL: &[Self] = &[$(Self::$gate),*];

            /// The name in records and reasons.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$gate => $name,)*
                    Self::Other(name) => name,
                }
            }

            fn named(name: &str) -> Self {
                match name {
                    $($name => Self::$gate,)*
                    other => Self::Other(other.to_owned()),
                }
            }
        }
    };
}

gates! {
    TenantsAlive => "tenants-alive",
    Completed => "completed",
    LogComplete => "log-complete",
    Results => "results",
    NeighboursIdle => "neighbours-idle",
    ClosedRate => "closed-rate",
    WarmUp => "warm-up",
    Drift => "drift",
    Overload => "overload",
    Schedule => "schedule",
    CoResidencyClosed => "co-residency-closed",
    CoResidencyOpen => "co-residency-open",
    Dose => "dose",
    VictimInEveryTenth => "victim-in-every-tenth",
    AggressorAlive => "aggressor-alive",
    Lateness => "lateness",
    MechanismInForce => "mechanism-in-force",
    ForeignProcess => "foreign-process",
    Throttle => "throttle",
    Xid => "xid",
    Ecc => "ecc",
    EccCorrected => "ecc-corrected",
    TimeNamespace => "time-namespace",
    CpuSteal => "cpu-steal",
    CpuGap => "cpu-gap",
    ServiceDrift => "service-drift",
    DeviceDrift => "device-drift",
}

/// Without a text of its own for each name: a record has tens of thousands.
impl<'de> Deserialize<'de> for Gate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Name;
        impl Visitor<'_> for Name {
            type Value = Gate;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a gate")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<Gate, E> {
                Ok(Gate::named(name))
            }
        }
        deserializer.deserialize_str(Name)
    }
}

impl From<Gate> for String {
    fn from(gate: Gate) -> Self {
        match gate {
            Gate::Other(name) => name,
            known => known.as_str().to_owned(),
        }
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::Gate;

    #[test]
    fn gates_keep_their_names_and_gates_of_other_versions_are_read() -> serde_json::Result<()> {
        for gate in Gate::ALL {
            let text = serde_json::to_string(gate)?;
            assert_eq!(text, format!("\"{gate}\""));
            assert_eq!(serde_json::from_str::<Gate>(&text)?, *gate);
        }
        let other: Gate = serde_json::from_str("\"nvlink-errors\"")?;
        assert_eq!(other, Gate::Other("nvlink-errors".to_owned()));
        assert_eq!(serde_json::to_string(&other)?, "\"nvlink-errors\"");
        Ok(())
    }
}
