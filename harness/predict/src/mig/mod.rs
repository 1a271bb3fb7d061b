//! MIG profile tables: data under `profiles/mig`, one file per GPU.
//!
//! For planning without a device; a real device reports its profiles through NVML. A value without
//! a source is absent and never guessed.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::error::PredictError;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Short name, as in flags.
    pub name: String,
    /// Product names, as reported by the driver.
    pub products: Vec<String>,
    /// Memory of the GPU as its name states it. Sources state usable memory in GiB, and the names
    /// of several GPUs count GiB too, so instances together can have more than this.
    pub memory_gb: f64,
    pub sm: Option<u32>,
    pub memory_slots: u32,
    pub slices: u32,
    pub source: String,
    /// Source of the placements, if it is another one.
    pub placement_source: Option<String>,
    #[serde(rename = "profile")]
    pub profiles: Vec<Profile>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Id in `nvidia-smi mig -lgip`.
    pub id: Option<u32>,
    /// Name, for example `1g.10gb`.
    pub name: String,
    pub max: u32,
    pub sm: Option<u32>,
    pub memory_gib: Option<f64>,
    pub slices: u32,
    pub memory_slots: u32,
    /// Possible first memory slots.
    pub starts: Vec<u32>,
}

/// Decimal gigabytes of a binary one.
const GB_PER_GIB: f64 = 1.073_741_824;

impl Profile {
    /// Usable memory, or the figure in the name if no source states it.
    pub fn memory_gb(&self) -> f64 {
        self.memory_gib.map_or_else(|| self.nominal_gb(), |gib| gib * GB_PER_GIB)
    }

    fn nominal_gb(&self) -> f64 {
        let size = self.name.split('.').nth(1).unwrap_or_default();
        let digits: String = size.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap_or(0.0)
    }

    /// Whether it differs from a plain profile only in media or graphics engines.
    pub fn is_variant(&self) -> bool {
        self.name.contains(['+', '-'])
    }
}

impl Table {
    pub fn profile(&self, name: &str) -> Result<&Profile, PredictError> {
        let found = self.profiles.iter().find(|profile| profile.name.eq_ignore_ascii_case(name));
        found.ok_or_else(|| PredictError::Unknown {
            what: "MIG profile",
            name: name.to_owned(),
            known: format!("on {}: {}", self.name, self.profile_names()),
        })
    }

    fn profile_names(&self) -> String {
        let names: Vec<&str> = self.profiles.iter().map(|profile| profile.name.as_str()).collect();
        names.join(", ")
    }

    /// Usable memory of the whole GPU in decimal gigabytes: that of its name, or that of the
    /// largest legal mix of instances where that is more. What MIG holds fits the GPU.
    pub fn usable_gb(&self) -> f64 {
        let of_mix = |mix: &Vec<&Profile>| mix.iter().map(|profile| profile.memory_gb()).sum();
        let mixes = mixes(self);
        mixes.iter().map(of_mix).fold(self.memory_gb, f64::max)
    }

    /// Speed of an instance relative to the whole GPU, by SMs; `None` if a count is unknown.
    pub fn speed(&self, profile: &Profile) -> Option<f64> {
        Some(f64::from(profile.sm?) / f64::from(self.sm?))
    }
}

/// All tables. The files are embedded, and a test reads all of them.
pub fn tables() -> &'static [Table] {
    static TABLES: OnceLock<Vec<Table>> = OnceLock::new();
    TABLES.get_or_init(|| {
        gpubench_profiles::MIG.iter().filter_map(|text| toml::from_str(text).ok()).collect()
    })
}

/// The table of a GPU, by its short name, by an unambiguous prefix of the short name, or by a
/// product name. `Virtual H100 80GB` stands for H100-80, and `Virtual B200 180GB` for B200.
pub fn table(name: &str) -> Result<&'static Table, PredictError> {
    if let Some((chip, size)) = name.strip_prefix("Virtual ").and_then(|rest| rest.split_once(' '))
    {
        let whole = format!("{chip}-{}", size.trim_end_matches("GB"));
        let found = tables().iter().find(|one| one.name == whole || one.name == chip);
        if let Some(found) = found {
            return Ok(found);
        }
    }
    let is_it = |known: &str| known.eq_ignore_ascii_case(name);
    let is_exact =
        |table: &&Table| is_it(&table.name) || table.products.iter().any(|product| is_it(product));
    let begins = |table: &&Table| {
        let rest = table.name.get(name.len()..);
        rest.is_some_and(|rest| rest.starts_with('-'))
            && table.name.get(..name.len()).is_some_and(is_it)
    };
    let begun: Vec<&Table> = tables().iter().filter(begins).collect();
    let found = tables().iter().find(is_exact).or(match begun.as_slice() {
        [only] => Some(only),
        _ => None,
    });
    found.ok_or_else(|| {
        let names: Vec<&str> = tables().iter().map(|table| table.name.as_str()).collect();
        PredictError::Unknown {
            what: "MIG-capable GPU",
            name: name.to_owned(),
            known: names.join(", "),
        }
    })
}

// Placement of MIG instances: memory slots must not overlap, compute slices must suffice.

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Placed<'a> {
    pub profile: &'a Profile,
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
    let Some((&profile, rest)) = order.split_first() else { return true };
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
    use super::*;
    use crate::error::from_toml;

    #[test]
    fn every_table_reads_and_is_consistent() {
        for text in gpubench_profiles::MIG {
            let table: Table = from_toml("MIG table", text).expect("an embedded table");
            assert!(!table.profiles.is_empty(), "{}", table.name);
            for profile in &table.profiles {
                let context = format!("{} {}", table.name, profile.name);
                assert!(profile.slices <= table.slices, "{context}");
                let fits = |start: &u32| start + profile.memory_slots <= table.memory_slots;
                assert!(profile.starts.iter().all(fits), "{context}");
                assert!(profile.max as usize <= profile.starts.len(), "{context}");
                assert!(profile.name.starts_with(&format!("{}g.", profile.slices)), "{context}");
                assert!(profile.memory_gb() > 0.0, "{context}");
                // Names have decimal or binary gigabytes, depending on the profile.
                assert!(profile.memory_gb() <= profile.nominal_gb() * GB_PER_GIB, "{context}");
            }
        }
        assert_eq!(tables().len(), gpubench_profiles::MIG.len());
    }

    #[test]
    fn names_and_products_find_a_table() {
        assert_eq!(table("nvidia h200").map(|table| &table.name), Ok(&"H200-141".to_owned()));
        assert_eq!(table("h200").map(|table| table.memory_gb), Ok(141.0));
        // The instance of the whole GPU.
        let usable_gb = table("h200").map(Table::usable_gb);
        assert_eq!(usable_gb, Ok(140.0 * GB_PER_GIB));
        assert_eq!(table("A100-80").map(Table::usable_gb), Ok(80.0));
        for ambiguous in ["A100", "H1", "", "H200-"] {
            assert!(table(ambiguous).is_err(), "{ambiguous}");
        }
        for (product, name) in [("Virtual H100 80GB", "H100-80"), ("Virtual B200 180GB", "B200")] {
            assert_eq!(table(product).map(|table| table.name.as_str()), Ok(name));
        }
        let refused = table("V100").expect_err("V100 has no MIG").to_string();
        assert!(refused.contains("unknown MIG-capable GPU \"V100\" (known: A100-40,"), "{refused}");
        let a100 = table("A100-80").expect("known");
        let refused = a100.profile("1g.5gb").expect_err("an A100-40 profile").to_string();
        assert!(refused.contains("on A100-80: 1g.10gb,"), "{refused}");
    }

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
