//! `doctor --verify`: one tenant without a mechanism verifies the kernels of every workload.

use std::collections::BTreeMap;
use std::time::Duration;

use gpubench_record::wire::Participants;
use gpubench_record::{FromTenant, ToTenant, Verification};

use crate::judge::DeviceSession;
use crate::run::{RunClock, participants_of};
use crate::tenant::{Spawner, Tenant};

/// Longest wait for an answer.
const ANSWER: Duration = Duration::from_secs(120);

/// Each workload with its result.
///
/// # Errors
/// When the tenant does not start, cannot open the device, or gives no results.
pub async fn all_workloads(session: &DeviceSession) -> Result<Vec<(String, Verification)>, String> {
    let participants = participants_of(0);
    let spawner = Spawner::new(session.environment()).map_err(|error| error.to_string())?;
    let none = BTreeMap::new();
    let tenant = spawner.spawn("diagnostic", participants, &none);
    let mut diagnostic = Diagnostic {
        tenant: tenant.await.map_err(|error| error.to_string())?,
        participants,
        clock: session.clock(),
    };
    let results = diagnostic.verify().await;
    diagnostic.tenant.stop().await;
    results
}

/// The diagnostic tenant and its clock.
struct Diagnostic {
    tenant: Tenant,
    participants: Participants,
    clock: RunClock,
}

impl Diagnostic {
    async fn verify(&mut self) -> Result<Vec<(String, Verification)>, String> {
        let open = ToTenant::Open {
            ordinal: 0,
            spin: false,
            participants: self.participants,
            inside: None,
        };
        self.request(&open).await?;
        let workloads = gpubench_workloads::load::CATALOGUE
            .iter()
            .map(|workload| workload.name.to_owned())
            .collect();
        let results = match self.request(&ToTenant::Verify { workloads }).await? {
            FromTenant::Verified { results } => results.into_iter().collect(),
            other => return Err(format!("unexpected answer to a verification: {other:?}")),
        };
        self.request(&ToTenant::Close).await?;
        Ok(results)
    }

    /// Sends a message and waits for the answer.
    async fn request(&mut self, message: &ToTenant) -> Result<FromTenant, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        self.clock.expect(self.participants.issuer).map_err(|error| text(&error))?;
        self.tenant.send(message).await.map_err(|error| text(&error))?;
        let answer = self.tenant.receive("verifying kernels", ANSWER).await;
        // A tenant that answers without a device call never joined the clock.
        self.clock.abandon(self.participants).map_err(|error| text(&error))?;
        answer.map_err(|error| text(&error))
    }
}
