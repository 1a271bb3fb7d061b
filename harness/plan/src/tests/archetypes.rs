//! Plans of the built-in profiles: neighbours, numbers of tenants, open loops that give a p99.

use std::collections::BTreeSet;

use gpubench_profiles::PROFILES;
use gpubench_record::{Condition, Event, Plan, Role, TopUpDecision, TopUpReason};

use super::{host, of_name};
use crate::profile::{Profile, Wanted};
use crate::{MoreBlocks, VariantRef, extend, notes, plan};

type TestResult = Result<(), Box<dyn std::error::Error>>;

#[test]
fn every_built_in_profile_has_open_loops_that_give_a_p99() -> TestResult {
    for name in crate::profile::load::names() {
        let profile = of_name(name)?;
        let plan = plan(&profile, &host(&[0; 6]), "ptx")?;
        assert!(plan.device_time_ns() <= profile.device_time.ns, "{name}");
        assert!(!plan.cells.is_empty(), "{name}");
        // Profiles for throughput, for a smoke test and for the scaling table need no p99, and
        // the default is limited to twelve minutes.
        let exempt = [
            "batch-training",
            "smoke",
            "default",
            "scaling",
            "pairs",
            "equal",
            "shares",
            "depth",
            "transients",
            "energy",
            "attribution",
        ]
        .contains(&name);
        let notes = notes(&plan, &profile);
        assert!(exempt || notes.is_empty(), "{name}: {notes:?}");
    }
    Ok(())
}

/// Profiles that follow no published work; the last two serve the claims ledger, which has sources.
const WITHOUT_SOURCE: [&str; 14] = [
    "default",
    "smoke",
    "nightly",
    "weekly",
    "claims",
    "scaling",
    "pairs",
    "equal",
    "shares",
    "depth",
    "load-curve",
    "transients",
    "energy",
    "attribution",
];

/// The sources that the comment at the head of a profile names.
fn sources(text: &str) -> Option<String> {
    let head = text.lines().map_while(|line| line.strip_prefix('#'));
    let head: Vec<&str> = head.map(str::trim).collect();
    let head = head.join(" ");
    head.split_once("Sources: ").map(|(_, named)| named.to_owned())
}

#[test]
fn every_archetype_names_its_source() {
    let mut followed = 0;
    for (name, text) in PROFILES {
        let found = sources(text);
        if WITHOUT_SOURCE.contains(name) {
            continue;
        }
        followed += 1;
        let found = found.unwrap_or_default();
        // An author, a venue and a year.
        let year = |word: &str| {
            let digits = word.trim_matches(|c: char| !c.is_ascii_digit());
            digits.len() == 4 && (1950..2100).contains(&digits.parse().unwrap_or(0))
        };
        let work = found.split_once('(').and_then(|(_, rest)| rest.split_once(", "));
        assert!(work.is_some() && found.split_whitespace().any(year), "{}: {found:?}", name);
        assert!(text.contains("ours"), "{} does not say which figures are its own", name);
    }
    assert_eq!(followed + WITHOUT_SOURCE.len(), PROFILES.len());
    assert!(followed >= 6);
}

#[test]
fn every_neighbour_has_the_role_of_the_profile() -> TestResult {
    let profile = of_name("saas-hostile")?;
    let plan = plan(&profile, &host(&[0]), "ptx")?;
    let roles_in = |condition: Condition| -> Vec<(Role, Option<&str>)> {
        let mut cells = plan.cells.iter();
        let cell = cells.find(|cell| cell.condition == condition && cell.victim == "compute");
        let tenants = cell.map_or(&[][..], |cell| &cell.tenants);
        let roles = tenants.iter().map(|one| (one.role, one.workload.as_deref()));
        roles.collect()
    };
    let contended = roles_in(Condition::C);
    assert_eq!(contended[0], (Role::Victim, Some("compute")));
    assert_eq!(contended[1].0, Role::Aggressor);
    assert_eq!(contended[2], (Role::Aggressor, Some("dram-copy")));
    assert_eq!(contended[3], (Role::Peer, Some("compute")));
    assert_eq!(roles_in(Condition::S)[1..], [(Role::Idle, None); 3]);
    Ok(())
}

#[test]
fn a_sweep_adds_contended_cells_with_fewer_tenants() -> TestResult {
    let profile = of_name("oversubscription")?;
    let plan = plan(&profile, &host(&[0]), "ptx")?;
    let first = plan.cells.iter().filter(|cell| cell.block == 0);
    let compute = first.filter(|cell| cell.victim == "compute");
    let mut found: Vec<(Condition, usize)> =
        compute.map(|cell| (cell.condition, cell.tenants.len())).collect();
    found.sort_unstable();
    use Condition::{C, N, NAgain, S, SAgain};
    let expected = [(N, 1), (NAgain, 1), (S, 8), (SAgain, 8), (C, 2), (C, 4), (C, 8)];
    assert_eq!(found, expected);
    let has = |end: &str| plan.cells.iter().any(|cell| cell.id.ends_with(end));
    assert!(has("-C-fma-hog") && has("-C-fma-hog-tenants4"));
    Ok(())
}

/// The sub-axes and mechanisms of the claims that a record of two tenants decides from its cells.
#[test]
fn the_profile_claims_measures_what_the_ledger_needs_and_nothing_else() -> TestResult {
    use gpubench_record::{Axis, SubAxis};
    use std::collections::BTreeSet;
    let claims = crate::ledger()?.claims;
    let of_cells = |one: &&gpubench_record::Claim| {
        let needs = one.quantity.map_or("", |quantity| quantity.needs());
        let two = one.select.tenants.is_none_or(|tenants| tenants == 2);
        two && one.select.profile.is_none()
            && (needs.contains("cells") || needs.contains("tenants"))
    };
    let needed: BTreeSet<SubAxis> =
        claims.iter().filter(of_cells).flat_map(|claim| claim.select.sub_axes.clone()).collect();
    assert!(needed.len() >= 5, "{needed:?}");
    let profile = of_name("claims")?;
    let measured: BTreeSet<SubAxis> =
        plan(&profile, &host(&[0]), "ptx")?.pairs.iter().map(|pair| pair.sub_axis).collect();
    assert_eq!(measured, needed);
    assert!(claims.iter().any(|claim| claim.axis == Axis::Jitter));
    let mut names: BTreeSet<String> = BTreeSet::new();
    for claim in &claims {
        names.extend(claim.mechanisms.iter().chain(&claim.select.against).cloned());
    }
    let wanted = crate::profile::Wanted::Names(names.iter().cloned().collect());
    let sorted = |wanted: &crate::profile::Wanted| match wanted {
        crate::profile::Wanted::All => BTreeSet::new(),
        crate::profile::Wanted::Names(names) => names.iter().cloned().collect::<BTreeSet<_>>(),
    };
    assert_eq!(sorted(&profile.mechanisms), sorted(&wanted));
    Ok(())
}

// More blocks for undecided rows.

/// Two mechanisms in one group, the first of which is the unprotected form of both, and one in
/// another group.
fn planned() -> Result<Plan, Box<dyn std::error::Error>> {
    let mut host = host(&[0, 0, 1]);
    let form = VariantRef::new("m1", "m1");
    for mechanism in &mut host.mechanisms[1..] {
        mechanism.unprotected = Some(form.clone());
    }
    // Without jitter, all cells have the same length.
    let profile = Profile {
        axes: Wanted::Names(vec!["compute".to_owned(), "bandwidth".to_owned()]),
        ..of_name("default")?
    };
    Ok(plan(&profile, &host, "ptx")?)
}

fn row(variant: &str, victim: &str, aggressor: &str, more: u32) -> MoreBlocks {
    MoreBlocks {
        variant: variant.to_owned(),
        axis: "compute".to_owned(),
        victim: victim.to_owned(),
        aggressor: aggressor.to_owned(),
        reason: TopUpReason::Straddles,
        blocks: 10,
        wanted: 10 + more,
    }
}

#[test]
fn a_row_gets_every_condition_of_its_victim_in_each_further_block() -> TestResult {
    let plan = planned()?;
    let (top_up, cells) = extend(&plan, u64::MAX, vec![row("m2", "compute", "fma-hog", 3)]);
    assert_eq!(top_up.rows[0].decision, TopUpDecision::Planned);
    let blocks: BTreeSet<u32> = cells.iter().map(|cell| cell.block).collect();
    assert_eq!(blocks, (plan.blocks..plan.blocks + 3).collect());
    for block in blocks {
        let of_block = cells.iter().filter(|cell| cell.block == block);
        let mut found: Vec<(&str, Condition)> =
            of_block.map(|cell| (cell.variant.as_str(), cell.condition)).collect();
        found.sort_unstable();
        use Condition::{C, N, NAgain, S, SAgain};
        let expected = [("exclusive", N), ("exclusive", NAgain), ("m1", C)];
        let own = [("m2", S), ("m2", SAgain), ("m2", C)];
        assert_eq!(found, [&expected[..], &own[..]].concat(), "block {block}");
    }
    // The second block is the first one reversed.
    let of = |block: u32| {
        let cells = cells.iter().filter(move |cell| cell.block == plan.blocks + block);
        cells.map(|cell| (cell.variant.clone(), cell.condition)).collect::<Vec<_>>()
    };
    let (first, mut second) = (of(0), of(1));
    second.reverse();
    assert_eq!(first, second);
    let needs_ns: u64 = cells.iter().map(|cell| plan.durations_of(cell).cell_ns()).sum();
    assert_eq!(top_up.rows[0].needs_ns, needs_ns);
    Ok(())
}

#[test]
fn further_cells_have_new_ids_in_run_order_and_the_schedule_of_their_block() -> TestResult {
    let plan = planned()?;
    let rows = vec![row("m2", "compute", "fma-hog", 4), row("m3", "stream", "dram-copy", 2)];
    let (_, cells) = extend(&plan, u64::MAX, rows);
    let ids: Vec<&str> = plan.cells.iter().chain(&cells).map(|cell| cell.id.as_str()).collect();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");
    let seeds: BTreeSet<(u32, u64)> =
        plan.cells.iter().chain(&cells).map(|cell| (cell.block, cell.schedule_seed)).collect();
    assert_eq!(seeds.len() as u32, plan.blocks + 4, "one schedule a block");
    Ok(())
}

#[test]
fn the_smallest_rows_come_first_and_shared_cells_count_once() -> TestResult {
    let plan = planned()?;
    let rows = |first: u32| {
        vec![
            row("m3", "stream", "dram-copy", 9),
            row("m2", "compute", "fma-hog", first),
            row("m1", "compute", "fma-hog", 1),
        ]
    };
    let (all, _) = extend(&plan, u64::MAX, rows(2));
    let order: Vec<&str> = all.rows.iter().map(|row| row.variant.as_str()).collect();
    assert_eq!(order, ["m1", "m2", "m3"]);
    // m2 needs two blocks of six cells, of which the row of m1 has three in the first.
    let cell_ns = plan.durations.cell_ns();
    let needs = [all.rows[0].needs_ns, all.rows[1].needs_ns].map(|ns| ns / cell_ns);
    assert_eq!(needs, [5, 9]);
    let left_ns = all.rows[0].needs_ns + all.rows[1].needs_ns;
    let (some, cells) = extend(&plan, left_ns, rows(2));
    let decisions: Vec<TopUpDecision> = some.rows.iter().map(|row| row.decision).collect();
    use TopUpDecision::{Planned, TooLong};
    assert_eq!(decisions, [Planned, Planned, TooLong]);
    let spent_ns: u64 = cells.iter().map(|cell| plan.durations_of(cell).cell_ns()).sum();
    assert_eq!(spent_ns, left_ns);
    assert!(cells.iter().all(|cell| cell.victim == "compute"));
    // Each fits alone, both do not.
    let (one, _) = extend(&plan, left_ns - 1, rows(2));
    let decisions: Vec<TopUpDecision> = one.rows.iter().map(|row| row.decision).collect();
    assert_eq!(decisions, [Planned, TooLong, TooLong]);
    let (none, cells) = extend(&plan, 0, rows(2));
    assert!(none.rows.iter().all(|row| row.decision == TooLong) && cells.is_empty());
    Ok(())
}

/// Every dimension of the neighbours makes cells of the one plan, in every block.
#[test]
fn the_dimensions_of_neighbours_are_cells() -> TestResult {
    let of = |name: &str| -> Result<Plan, Box<dyn std::error::Error>> {
        let profile = Profile { mechanisms: Wanted::All, ..of_name(name)? };
        Ok(plan(&profile, &host(&[0, 0]), "ptx")?)
    };
    let first = |plan: &Plan, condition: Condition| {
        let cells = plan.cells.iter();
        let cells = cells.filter(|cell| cell.block == 0 && cell.variant == "m1");
        let of = cells.filter(|cell| cell.condition == condition && cell.victim == "compute");
        of.cloned().collect::<Vec<_>>()
    };
    let equal = of("equal")?;
    let contended = equal.cells.iter().filter(|cell| cell.condition == Condition::C);
    assert!(contended.clone().all(|cell| cell.is_of_equals() && cell.depths() == [1, 1]));
    let tenants: BTreeSet<usize> = contended.map(|cell| cell.tenants.len()).collect();
    assert_eq!(tenants.into_iter().collect::<Vec<_>>(), [2, 3, 4, 5, 7, 8]);
    let depth = of("depth")?;
    let depths = |condition| -> BTreeSet<[u32; 2]> {
        first(&depth, condition).iter().map(|cell| cell.depths()).collect()
    };
    assert_eq!(depths(Condition::C).len(), 9);
    assert_eq!(depths(Condition::S), BTreeSet::from([[1, 2], [2, 2], [4, 2]]));
    let load = of("load-curve")?;
    for condition in [Condition::S, Condition::C] {
        let cells = first(&load, condition);
        let of = |cell: &&gpubench_record::Cell| cell.shape.load_pct.is_some();
        assert_eq!(cells.iter().filter(of).count(), 6, "{condition:?}");
        assert!(cells.iter().filter(of).all(|cell| !cell.closed_only));
    }
    assert!((load.load_of(&first(&load, Condition::C)[0]) - load.load).abs() < 1.1);
    let transients = of("transients")?;
    let events = first(&transients, Condition::C);
    let events: Vec<_> = events.iter().filter(|cell| cell.shape.event.is_some()).collect();
    assert_eq!(events.len(), Event::ALL.len());
    for cell in events {
        let at_ns = transients.event_ns(cell);
        assert!(cell.closed_only && at_ns > transients.durations_of(cell).cell_ns() / 2);
    }
    let pairs = of("pairs")?;
    let sides = |side: fn(&gpubench_record::PlannedPair) -> &String| {
        pairs.pairs.iter().map(side).collect::<BTreeSet<_>>().len()
    };
    assert_eq!(sides(|pair| &pair.victim) * sides(|pair| &pair.aggressor), pairs.pairs.len());
    let ids = |plan: &Plan| plan.cells.iter().map(|cell| cell.id.clone()).collect::<BTreeSet<_>>();
    for plan in [&equal, &depth, &load, &transients, &pairs, &of("energy")?, &of("attribution")?] {
        assert_eq!(ids(plan).len(), plan.cells.len());
        assert!(plan.device_time_ns() <= 900_000_000_000);
    }
    Ok(())
}
