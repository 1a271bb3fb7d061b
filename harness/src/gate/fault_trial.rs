//! The outcome of each victim of a fault trial, and whether the trial counts. Pure: a stored trial
//! is judged again with the same result.

#[cfg(test)]
mod tests;

use gpubench_record::{
    ExpectedAnswer, FaultObservation, FaultResult, FaultTrial, Harm, Outcome, SampleRow,
};

use super::victim_outcomes::victim_outcome;

/// `CUDA_SUCCESS` (cuda.h).
const SUCCESS: i32 = 0;

/// Judges a trial. `rows` has the requests of each victim, in the order of the observation.
#[must_use]
pub fn judge_trial(
    trial: &FaultTrial,
    observed: &FaultObservation,
    rows: &[Vec<SampleRow>],
) -> FaultResult {
    let at_ns = instant(trial, observed);
    let mut doubts = Vec::new();
    doubts.extend(observed.failure.clone());
    let mut victims = Vec::new();
    for (victim, rows) in observed.victims.iter().zip(rows) {
        match victim_outcome(trial, at_ns, &victim.planned.tenant, rows) {
            Ok(mut outcome) => {
                // A process that was killed logs no failed request.
                if victim.death.is_some() {
                    (outcome.harm, outcome.next_good_ns) = (Harm::Dead, None);
                }
                victims.push(outcome);
            }
            Err(doubt) => doubts.push(doubt),
        }
    }
    doubts.extend(unexpected_answer(trial, observed));
    let outcome = if doubts.is_empty() {
        Outcome::measured()
    } else {
        Outcome::inconclusive(doubts.join("; "))
    };
    let detected_after_ns = observed.injector.code.and(observed.injector.detected_ns);
    FaultResult {
        planned: trial.clone(),
        outcome,
        victims,
        detected_after_ns: detected_after_ns.map(|ns| ns.saturating_sub(at_ns)),
        observed: observed.clone(),
    }
}

/// When the fault happened: the act of the coordinator where that causes it, else the start of the
/// injection.
fn instant(trial: &FaultTrial, observed: &FaultObservation) -> u64 {
    let acted_ns = observed.acted_ns.filter(|_| trial.facts.by_coordinator);
    acted_ns.or(observed.injector.began_ns).unwrap_or(trial.at_ns)
}

/// Why the fault did not happen as planned; `None` where it did. Without the planned fault a trial
/// shows nothing about containment.
fn unexpected_answer(trial: &FaultTrial, observed: &FaultObservation) -> Option<String> {
    use ExpectedAnswer::{Either, Error, ProcessEnds, Success, Unknown};
    let (fault, injector) = (&trial.fault, &observed.injector);
    let code = injector.code.unwrap_or(SUCCESS);
    match (trial.facts.answer, &injector.ended) {
        (Unknown, _) => Some(format!("fault {fault} is unknown to this version")),
        (ProcessEnds, Some(_)) => None,
        (ProcessEnds, None) => Some(format!("{fault} did not end its process")),
        // An injector that waits for a service for ever was hit by the fault if the coordinator
        // ended the service.
        (_, Some(_)) if trial.facts.leaves_waiting && observed.acted_ns.is_some() => None,
        (_, Some(ended)) => Some(format!("the process of {fault} ended: {ended}")),
        (Either, None) => None,
        (Success, None) => {
            (code != SUCCESS).then(|| format!("{fault} failed with CUresult {code}"))
        }
        // Any error is accepted: which code it has depends on the driver.
        (Error, None) => (code == SUCCESS).then(|| format!("{fault} raised no error")),
    }
}
