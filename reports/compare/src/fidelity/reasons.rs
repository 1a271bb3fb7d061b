//! Known differences: what the model gets wrong, and why.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Compared, Verdict};

/// The list of known differences.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reasons {
    /// One entry for each reason.
    #[serde(default, rename = "difference")]
    pub differences: Vec<KnownDifference>,
}

/// Rows that differ for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownDifference {
    /// Folder of the record.
    pub record: String,
    /// The rows, as `VARIANT NAME`.
    pub rows: Vec<String>,
    /// Whether the model is optimistic in them. An entry without it does not cover such a row.
    #[serde(default)]
    pub optimistic: bool,
    /// Why they differ.
    pub reason: String,
}

impl Reasons {
    /// Gives the rows their reasons. Returns the listed rows that do not differ as listed.
    pub(super) fn apply(&self, records: &mut [Compared]) -> Vec<String> {
        let mut used = BTreeSet::new();
        for compared in records {
            for row in &mut compared.rows {
                let optimistic = match row.verdict() {
                    Verdict::Open | Verdict::Within => continue,
                    Verdict::Outside => false,
                    Verdict::Optimistic => true,
                };
                let key = row.key();
                let known = self.differences.iter().find(|one| {
                    one.record == compared.record
                        && one.optimistic == optimistic
                        && one.rows.contains(&key)
                });
                row.reason = known.map(|one| one.reason.clone());
                used.insert((compared.record.clone(), optimistic, key));
            }
        }
        let listed = self.differences.iter().flat_map(|one| {
            let key = |row: &String| (one.record.clone(), one.optimistic, row.clone());
            one.rows.iter().map(key)
        });
        let unneeded = listed.filter(|key| !used.contains(key));
        let text = |(record, optimistic, row): (String, bool, String)| {
            let kind = if optimistic { "optimistic" } else { "outside its bounds" };
            format!("{record}: {row} is not {kind}")
        };
        unneeded.map(text).collect()
    }
}
