//! Proof of `mps` on a table of observations.

use super::clients;
use crate::mechanism::Observation;
use gpubench_record::Condition;

#[test]
fn the_daemon_must_list_every_tenant() {
    for (daemon, nvml, expected) in [
        (Some(Ok(vec![7, 8])), None, vec![true]),
        (Some(Ok(vec![7, 8])), Some(vec![7, 8]), vec![true, true]),
        (Some(Ok(vec![7, 8])), Some(vec![7]), vec![true, false]),
        (Some(Ok(vec![7, 8])), Some(vec![30_001]), vec![true]),
        (Some(Ok(vec![7])), Some(vec![7, 8]), vec![false, true]),
        (Some(Err("no answer".to_owned())), None, vec![false]),
        (None, Some(vec![7, 8]), vec![false, true]),
    ] {
        let observed = Observation {
            daemon_clients: daemon,
            mps_clients: nvml,
            ..Observation::new(Condition::C, vec![7, 8])
        };
        let holds: Vec<bool> = clients(&observed).iter().map(|proof| proof.holds).collect();
        assert_eq!(holds, expected, "{observed:?}");
    }
}
