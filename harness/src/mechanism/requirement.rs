//! What a cell must show before its mechanism counts as in force.

use gpubench_record::{Proof, ProofTime, RequiredProof};

/// A check of a mechanism, and when its evidence is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requirement {
    when: ProofTime,
    check: &'static str,
}

impl Requirement {
    /// A check of what tenants report when they open their contexts.
    pub(super) const fn at_open(check: &'static str) -> Self {
        let when = ProofTime::AtOpen;
        Self { when, check }
    }

    /// A check that each tenant process does once.
    pub(super) const fn once(check: &'static str) -> Self {
        let when = ProofTime::Once;
        Self { when, check }
    }

    /// A check of what is observed while the samples are taken.
    pub(super) const fn during(check: &'static str) -> Self {
        let when = ProofTime::During;
        Self { when, check }
    }

    /// Its proof for one cell. The caller adds the instant.
    pub(super) fn proof(self, holds: bool, evidence: impl Into<String>) -> Proof {
        Proof {
            when: self.when,
            t_ns: None,
            check: self.check.to_owned(),
            holds,
            evidence: evidence.into(),
            hardware: false,
            limiter: false,
        }
    }

    /// As in a plan.
    #[must_use]
    pub fn planned(self) -> RequiredProof {
        RequiredProof { when: self.when, check: self.check.to_owned() }
    }
}
