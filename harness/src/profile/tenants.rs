//! Rules of the tenants of a contended cell.

use super::Profile;
use super::error::Fault;
use crate::axis;

/// Words for a neighbour that are no names of aggressors.
const AGGRESSOR: &str = "aggressor";
const PEER: &str = "peer";

/// Whether each word names what a neighbour can do.
pub(super) fn neighbours(profile: &Profile) -> Result<(), Fault> {
    const KEY: &str = "neighbours";
    let words = &profile.neighbours;
    if words.first().is_none_or(|first| first != AGGRESSOR) {
        let problem = "the first neighbour runs the aggressor that a cell is about";
        let accepted = "a list that begins with \"aggressor\"";
        return Err(Fault::at(KEY, problem, accepted));
    }
    let others = profile.tenants.saturating_sub(1) as usize;
    if words.len() > others {
        let problem = format!("{} words for {others} neighbours", words.len());
        return Err(Fault::at(KEY, problem, format!("at most {others}")).bound_by("tenants"));
    }
    let aggressors = axis::aggressors();
    for (index, word) in words.iter().enumerate() {
        let is_user_victim = word == PEER && profile.user_victim.victim().is_some();
        let problem = if is_user_victim {
            "a program of one's own has no peers".to_owned()
        } else if [AGGRESSOR, PEER].contains(&word.as_str()) || aggressors.contains(&word.as_str())
        {
            continue;
        } else {
            format!("no neighbour does \"{word}\"")
        };
        let accepted = format!("{AGGRESSOR}, {PEER}, {}", aggressors.join(", "));
        let fault = Fault::at(KEY, problem, accepted).element(index);
        return Err(if is_user_victim {
            fault.bound_by("user-victim.command")
        } else {
            fault
        });
    }
    Ok(())
}

/// Whether the smaller numbers of tenants rise and stay below `tenants`.
pub(super) fn sweep(profile: &Profile) -> Result<(), Fault> {
    let most = profile.tenants.saturating_sub(1);
    let mut before = 1;
    for (index, &tenants) in profile.sweep.iter().enumerate() {
        if tenants <= before || tenants > most {
            let problem = format!("{tenants} tenants");
            let accepted = format!("rising numbers from 2 to {most}, below tenants");
            let fault = Fault::at("sweep", problem, accepted).element(index);
            return Err(fault.bound_by("tenants"));
        }
        before = tenants;
    }
    Ok(())
}
