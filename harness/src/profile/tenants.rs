//! Rules for the tenants of a contended cell.

use super::Profile;
use super::error::Fault;
use crate::axis;

/// A neighbour that runs the aggressor of the cell.
pub const AGGRESSOR: &str = "aggressor";
/// A neighbour that runs the victim's workload at its load.
pub const PEER: &str = "peer";

/// Checks the roles of the neighbours.
pub(super) fn neighbours(profile: &Profile) -> Result<(), Fault> {
    const KEY: &str = "neighbours";
    let roles = &profile.neighbours;
    if roles.first().is_none_or(|first| first != AGGRESSOR) {
        let problem = "the first neighbour must run the aggressor of the cell";
        let accepted = "a list that begins with \"aggressor\"";
        return Err(Fault::at(KEY, problem, accepted));
    }
    let others = profile.tenants.saturating_sub(1) as usize;
    if roles.len() > others {
        let problem = format!("{} roles for {others} neighbours", roles.len());
        return Err(Fault::at(KEY, problem, format!("at most {others}")).bound_by("tenants"));
    }
    let aggressors = axis::aggressors();
    for (index, role) in roles.iter().enumerate() {
        let peer_of_program = role == PEER && profile.user_victim.victim().is_some();
        let problem = if peer_of_program {
            "the user's own program has no peers".to_owned()
        } else if [AGGRESSOR, PEER].contains(&role.as_str()) || aggressors.contains(&role.as_str())
        {
            continue;
        } else {
            format!("unknown role \"{role}\"")
        };
        let accepted = format!("{AGGRESSOR}, {PEER}, {}", aggressors.join(", "));
        let fault = Fault::at(KEY, problem, accepted).element(index);
        return Err(if peer_of_program { fault.bound_by("user-victim.command") } else { fault });
    }
    Ok(())
}

/// Checks that the smaller numbers of tenants rise and stay below `tenants`.
pub(super) fn sweep(profile: &Profile) -> Result<(), Fault> {
    let max = profile.tenants.saturating_sub(1);
    let mut before = 1;
    for (index, &tenants) in profile.sweep.iter().enumerate() {
        if tenants <= before || tenants > max {
            let problem = format!("{tenants} tenants");
            let accepted = format!("rising numbers from 2 to {max}, below tenants");
            let fault = Fault::at("sweep", problem, accepted).element(index);
            return Err(fault.bound_by("tenants"));
        }
        before = tenants;
    }
    Ok(())
}
