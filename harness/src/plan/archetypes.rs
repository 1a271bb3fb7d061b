//! What the plans of the built-in profiles hold: neighbours, numbers of tenants, room for tails.

use gpubench_record::{Condition, Role};

use super::tests::{built_in, host};
use super::{notes, plan};

type TestResult = Result<(), Box<dyn std::error::Error>>;

#[test]
fn every_built_in_profile_has_a_plan_whose_open_loops_are_good_for_a_p99() -> TestResult {
    for name in crate::profile::built_in::names() {
        let profile = built_in(&name)?;
        let plan = plan(&profile, &host(&[0; 6]), "ptx")?;
        assert!(plan.device_time_ns() <= profile.device_time.ns, "{name}");
        assert!(!plan.cells.is_empty(), "{name}");
        // Those that are about throughput or show that something works promise no tails, and the
        // default has to do with ten minutes.
        let short = ["batch-training", "smoke", "default"].contains(&name.as_str());
        let said = notes(&plan, &profile);
        assert!(short || said.is_empty(), "{name}: {said:?}");
    }
    Ok(())
}

/// Profiles that follow no published situation.
const OF_OUR_OWN: [&str; 4] = ["default", "smoke", "nightly", "weekly"];

/// The sources that the comment at the head of a profile names.
fn sources(text: &str) -> Option<String> {
    let head = text.lines().map_while(|line| line.strip_prefix('#'));
    let head: Vec<&str> = head.map(str::trim).collect();
    let head = head.join(" ");
    head.split_once("Sources: ")
        .map(|(_, named)| named.to_owned())
}

#[test]
fn every_archetype_names_the_work_that_it_follows() {
    let mut followed = 0;
    for profile in crate::profile::built_in::CATALOGUE {
        let found = sources(profile.text);
        if OF_OUR_OWN.contains(&profile.name) {
            continue;
        }
        followed += 1;
        let found = found.unwrap_or_default();
        // Somebody's name, a place and a year.
        let year = |word: &str| {
            let digits = word.trim_matches(|c: char| !c.is_ascii_digit());
            digits.len() == 4 && (1950..2100).contains(&digits.parse().unwrap_or(0))
        };
        let work = found
            .split_once('(')
            .and_then(|(_, rest)| rest.split_once(", "));
        assert!(
            work.is_some() && found.split_whitespace().any(year),
            "{}: {found:?}",
            profile.name
        );
        assert!(
            profile.text.contains("ours"),
            "{} says not which figures are its own",
            profile.name
        );
    }
    assert_eq!(
        followed + OF_OUR_OWN.len(),
        crate::profile::built_in::CATALOGUE.len()
    );
    assert!(followed >= 6);
}

#[test]
fn neighbours_do_what_the_profile_says_each() -> TestResult {
    let profile = built_in("saas-hostile")?;
    let plan = plan(&profile, &host(&[0]), "ptx")?;
    let done = |condition: Condition| -> Vec<(Role, Option<&str>)> {
        let mut cells = plan.cells.iter();
        let cell = cells.find(|cell| cell.condition == condition && cell.victim == "compute");
        let tenants = cell.map_or(&[][..], |cell| &cell.tenants);
        let roles = tenants
            .iter()
            .map(|one| (one.role, one.workload.as_deref()));
        roles.collect()
    };
    let contended = done(Condition::C);
    assert_eq!(contended[0], (Role::Victim, Some("compute")));
    assert_eq!(contended[1].0, Role::Aggressor);
    assert_eq!(contended[2], (Role::Aggressor, Some("dram-copy")));
    assert_eq!(contended[3], (Role::Peer, Some("compute")));
    assert_eq!(done(Condition::S)[1..], [(Role::Idle, None); 3]);
    Ok(())
}

#[test]
fn a_sweep_adds_contended_cells_with_fewer_tenants() -> TestResult {
    let profile = built_in("oversubscription")?;
    let plan = plan(&profile, &host(&[0]), "ptx")?;
    let first = plan.cells.iter().filter(|cell| cell.block == 0);
    let compute = first.filter(|cell| cell.victim == "compute");
    let mut seen: Vec<(Condition, usize)> = compute
        .map(|cell| (cell.condition, cell.tenants.len()))
        .collect();
    seen.sort_unstable();
    use Condition::{C, N, NAgain, S, SAgain};
    let expected = [
        (N, 1),
        (NAgain, 1),
        (S, 8),
        (SAgain, 8),
        (C, 2),
        (C, 4),
        (C, 8),
    ];
    assert_eq!(seen, expected);
    let told = |end: &str| plan.cells.iter().any(|cell| cell.id.ends_with(end));
    assert!(told("-C-fma-hog") && told("-C-fma-hog-tenants4"));
    Ok(())
}
