//! Placement of MIG instances: memory slots must not overlap, compute slices must suffice.

use super::{Profile, Table};

/// One placed instance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Placed<'a> {
    /// Its profile.
    pub profile: &'a Profile,
    /// First memory slot.
    pub start: u32,
}

/// Places each profile at one of its starts; `None` if they do not fit together.
pub fn place<'a>(table: &Table, profiles: &[&'a Profile]) -> Option<Vec<Placed<'a>>> {
    let slices: u32 = profiles.iter().map(|profile| profile.slices).sum();
    let is_within_max = |profile: &&&Profile| {
        profiles.iter().filter(|other| other.name == profile.name).count() <= profile.max as usize
    };
    if slices > table.slices || !profiles.iter().all(|profile| is_within_max(&profile)) {
        return None;
    }
    // The largest first: it has the fewest starts.
    let mut order: Vec<&Profile> = profiles.to_vec();
    order.sort_by_key(|profile| std::cmp::Reverse(profile.memory_slots));
    let mut placed = Vec::with_capacity(order.len());
    place_next(&order, 0, &mut placed).then_some(placed)
}

fn place_next<'a>(order: &[&'a Profile], used: u64, placed: &mut Vec<Placed<'a>>) -> bool {
    let Some((&profile, rest)) = order.split_first() else {
        return true;
    };
    for &start in &profile.starts {
        let mask = ((1_u64 << profile.memory_slots) - 1) << start;
        if used & mask != 0 {
            continue;
        }
        placed.push(Placed { profile, start });
        if place_next(rest, used | mask, placed) {
            return true;
        }
        placed.pop();
    }
    false
}

/// Every legal mix of plain profiles, none of them empty.
pub fn mixes(table: &Table) -> Vec<Vec<&Profile>> {
    let plain: Vec<&Profile> =
        table.profiles.iter().filter(|profile| !profile.is_variant()).collect();
    let mut found = Vec::new();
    extend(table, &plain, &mut Vec::new(), &mut found);
    found
}

fn extend<'a>(
    table: &Table,
    choices: &[&'a Profile],
    mix: &mut Vec<&'a Profile>,
    found: &mut Vec<Vec<&'a Profile>>,
) {
    for (index, profile) in choices.iter().enumerate() {
        mix.push(profile);
        // No extension of a mix that does not fit can fit.
        if place(table, mix).is_some() {
            found.push(mix.clone());
            extend(table, &choices[index..], mix, found);
        }
        mix.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::super::table;
    use super::*;

    fn fits(gpu: &str, names: &[&str]) -> bool {
        let table = table(gpu).expect("known");
        let profiles: Vec<&Profile> =
            names.iter().map(|name| table.profile(name).expect("known")).collect();
        place(table, &profiles).is_some()
    }

    #[test]
    fn mixes_of_the_vendors_guide_fit_and_others_do_not() {
        // MIG user guide, getting started: -cgi 9,19,14,19 and -cgi 19,14,5 on an A100-40.
        assert!(fits("A100-40", &["3g.20gb", "1g.5gb", "2g.10gb", "1g.5gb"]));
        assert!(fits("A100-40", &["1g.5gb", "2g.10gb", "4g.20gb"]));
        assert!(fits("A100-40", &["3g.20gb", "4g.20gb"]));
        assert!(fits("A100-40", &["1g.5gb"; 7]));
        assert!(!fits("A100-40", &["1g.5gb"; 8]));
        assert!(!fits("A100-40", &["3g.20gb"; 3]));
        assert!(!fits("A100-40", &["4g.20gb", "4g.20gb"]));
        // Two 3g use all memory slots, although a compute slice is left.
        assert!(!fits("A100-40", &["3g.20gb", "3g.20gb", "1g.5gb"]));
        assert!(fits("A100-40", &["1g.10gb"; 4]));
        assert!(!fits("A100-40", &["7g.40gb", "1g.5gb"]));
    }

    #[test]
    fn every_mix_is_legal_and_listed_once() {
        let table = table("A100-40").expect("known");
        let mixes = mixes(table);
        let mut names: Vec<Vec<&str>> = mixes
            .iter()
            .map(|mix| mix.iter().map(|profile| profile.name.as_str()).collect())
            .collect();
        names.sort();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(names.contains(&vec!["3g.20gb", "4g.20gb"]));
        for mix in &mixes {
            let sum = |of: fn(&Profile) -> u32| mix.iter().map(|profile| of(profile)).sum::<u32>();
            let (slices, slots) = (sum(|p| p.slices), sum(|p| p.memory_slots));
            assert!(slices <= table.slices && slots <= table.memory_slots);
        }
    }
}
