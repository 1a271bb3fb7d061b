//! What `doctor --calibrate` measured on a GPU, for comparisons of its sessions.

use std::collections::BTreeMap;

use gpubench_compare::diff::Repeatability;
use gpubench_compare::{Metric, Row, RowKey, Session};
use gpubench_record::VictimSpread;
use gpubench_stats::NoEstimate;
use gpubench_stats::moments::mean;

use crate::error::ExpectedError;
use crate::judge::spread;

/// What the kept sessions say about the native rates of these sessions: between them nothing
/// changed. Only where all ran on one GPU with the calibration of the kept ones.
///
/// # Errors
/// When the file of the spread cannot be read.
pub fn kept_spread(
    sides: [&[Session]; 2],
) -> Result<BTreeMap<RowKey, Repeatability>, ExpectedError> {
    let sessions = || sides.into_iter().flatten();
    let Some(uuid) = common(sessions(), "uuid") else {
        return Ok(BTreeMap::new());
    };
    let calibration = common(sessions(), "calibration");
    let Some(kept) =
        spread::known(uuid)?.filter(|kept| calibration == Some(kept.calibration.as_str()))
    else {
        return Ok(BTreeMap::new());
    };
    let keys = sessions().flat_map(|session| &session.rows);
    let keys = keys
        .filter(|(key, row)| key.metric == Metric::NativeRate && matches!(row, Row::Measured(_)));
    let known =
        keys.filter_map(|(key, _)| Some((RowKey::clone(key), kept.victims.get(&key.victim)?)));
    known
        .filter(|(_, victim)| victim.logs.len() >= 2)
        .map(|(key, victim)| {
            let found = repeatability(victim);
            let found = found.map_err(|error| ExpectedError::Internal {
                what: format!("the spread of {}: {error}", key.victim),
            });
            Ok((key, found?))
        })
        .collect()
}

/// The value of a fact that all sessions share.
fn common<'a>(mut sessions: impl Iterator<Item = &'a Session>, fact: &str) -> Option<&'a str> {
    let value = |session: &'a Session| session.facts.get(fact).map(String::as_str);
    let first = value(sessions.next()?)?;
    sessions.all(|session| value(session) == Some(first)).then_some(first)
}

fn repeatability(victim: &VictimSpread) -> Result<Repeatability, NoEstimate> {
    let means = victim.logs.iter().map(|blocks| mean(blocks.as_flattened()));
    Repeatability::of_sessions(&means.collect::<Result<Vec<f64>, _>>()?)
}
