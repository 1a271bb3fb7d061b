//! Which ends of the injector come from the fault, and which are a failed trial.

use gpubench_workloads::fault::HostAct;

use crate::tenant::TenantError;

/// Whether an injector without a report fails the trial.
///
/// A fault may end the injector. Silence is a failure, unless the coordinator's action can leave
/// the injector waiting for a killed service.
pub fn is_failure(act: HostAct, error: &TenantError) -> bool {
    match error {
        TenantError::Ended { .. } => false,
        TenantError::Silent { .. } => !act.leaves_waiting(),
        TenantError::Refused { .. } | TenantError::Protocol { .. } => true,
    }
}

#[cfg(test)]
mod tests {
    use gpubench_record::RefusalKind;

    use super::*;

    const ACTS: [HostAct; 8] = [
        HostAct::None,
        HostAct::Kill,
        HostAct::Stop,
        HostAct::KillVictim,
        HostAct::KillHelper,
        HostAct::TerminateClient,
        HostAct::KillServer,
        HostAct::KillDaemon,
    ];

    #[test]
    fn silence_is_a_failure_unless_a_service_was_killed() {
        let silent = TenantError::Silent {
            tenant: "neighbour-1".to_owned(),
            doing: "running a fault trial",
            seconds: 17,
            how: "stopped".to_owned(),
        };
        let failing = ACTS.map(|act| is_failure(act, &silent));
        assert_eq!(failing, [true, true, true, true, true, true, false, false]);
    }

    #[test]
    fn an_end_is_no_failure_and_a_wrong_answer_always_is() {
        let (tenant, what) = ("neighbour-1".to_owned(), "replied yes".to_owned());
        let ended =
            TenantError::Ended { tenant: tenant.clone(), how: "killed by signal 9".to_owned() };
        let refused = TenantError::Refused {
            tenant: tenant.clone(),
            doing: "injecting".to_owned(),
            what: what.clone(),
            kind: RefusalKind::Driver { code: 2 },
        };
        let protocol = TenantError::Protocol { tenant, what };
        for act in ACTS {
            assert!(!is_failure(act, &ended), "{act:?}");
            assert!(is_failure(act, &refused), "{act:?}");
            assert!(is_failure(act, &protocol), "{act:?}");
        }
    }
}
