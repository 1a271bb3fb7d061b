//! A plan that is frozen before its run: its text with a hash, and how the plan of a run differs.

use std::collections::BTreeMap;

use gpubench_record::{Cell, FrozenPlan, Plan, Thresholds};
use serde::{Deserialize, Serialize};

use crate::profile::schema::sorted;

/// A plan with its thresholds and the questions that it asks, as a file holds it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Frozen {
    /// BLAKE3 over the other keys.
    pub hash: String,
    /// What the run is to answer, one line each.
    pub questions: Vec<String>,
    /// The bounds of levels.
    pub thresholds: Thresholds,
    /// Every cell in its order.
    pub plan: Plan,
}

impl Frozen {
    /// Freezes a plan.
    pub fn of(plan: &Plan) -> Self {
        let mut questions: Vec<String> = Vec::new();
        for mechanism in plan.mechanisms.iter().filter(|one| !one.properties.is_reference()) {
            questions.extend(plan.pairs.iter().map(|pair| {
                let (victim, aggressor) = (&pair.victim, &pair.aggressor);
                let variant = &mechanism.variant;
                format!("what does {victim} keep beside {aggressor} under {variant}?")
            }));
        }
        questions.extend(
            plan.claims
                .iter()
                .map(|claim| format!("is it so that {}? ({})", claim.statement, claim.id)),
        );
        let thresholds = plan.thresholds.clone();
        let frozen = Self { hash: String::new(), questions, thresholds, plan: plan.clone() };
        Self { hash: frozen.hashed(), ..frozen }
    }

    /// Reads a file's text. Fails with what is wrong, and what is accepted.
    pub fn parse(text: &str) -> Result<Self, String> {
        const ACCEPTED: &str = "accepted is a file of gpubench plan --freeze";
        let frozen: Self = serde_json::from_str(text).map_err(|error| {
            let message = gpubench_record::parser_message(&error.to_string());
            format!("{message} ({ACCEPTED})")
        })?;
        if frozen.hash == frozen.hashed() {
            return Ok(frozen);
        }
        Err(format!("its hash is not that of its text: it was changed ({ACCEPTED}, unchanged)"))
    }

    fn hashed(&self) -> String {
        let unhashed = Self { hash: String::new(), ..self.clone() };
        // A plan holds finite numbers, texts and lists, so it always serializes.
        let text = sorted(&serde_json::to_value(unhashed).unwrap_or_default()).to_string();
        blake3::hash(text.as_bytes()).to_hex().to_string()
    }

    /// What the plan of a run left out of this one, added to it, and changed.
    pub fn compared(&self, run: &Plan) -> FrozenPlan {
        let (before, now) = (cells(&self.plan), cells(run));
        let more = |these: &BTreeMap<String, usize>, those: &BTreeMap<String, usize>| {
            let of = |(what, count): (&String, &usize)| {
                let more = count.saturating_sub(those.get(what).copied().unwrap_or(0));
                (more > 0).then(|| format!("{} {what}", gpubench_record::counted(more, "cell")))
            };
            these.iter().filter_map(of).collect()
        };
        let mut changed = Vec::new();
        let keys = |plan: &Plan| {
            serde_json::json!({
                "seed": plan.seed,
                "thresholds": plan.thresholds,
                "durations": plan.durations,
                "blocks": plan.blocks,
                "looks": plan.looks,
                "tenants": plan.tenants,
                "share": plan.share,
                "load": plan.load,
                "bursts": plan.bursts,
                "slo_ns": plan.slo_ns,
                "slo_share": plan.slo_share,
                "service_ns": plan.service_ns,
                "claims": plan.claims.iter().map(|claim| &claim.id).collect::<Vec<_>>(),
                "profile_hash": plan.profile_hash,
            })
        };
        let (before_keys, now_keys) = (keys(&self.plan), keys(run));
        for (key, value) in before_keys.as_object().into_iter().flatten() {
            if now_keys.get(key) != Some(value) {
                changed.push(key.clone());
            }
        }
        FrozenPlan {
            hash: self.hash.clone(),
            left_out: more(&before, &now),
            added: more(&now, &before),
            changed,
        }
    }
}

/// The cells of a plan by what they measure, with how many there are.
fn cells(plan: &Plan) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for cell in &plan.cells {
        *found.entry(what(cell)).or_insert(0) += 1;
    }
    found
}

fn what(cell: &Cell) -> String {
    let Cell { variant, victim, condition, .. } = cell;
    let [own, other] = cell.depths();
    let beside = cell.aggressor.as_ref().map_or_else(String::new, |aggressor| {
        format!(" beside {} {aggressor} at dose {}", cell.tenants.len() - 1, cell.dose)
    });
    let shape = match cell.shape.load_pct {
        Some(pct) => format!(" at load {pct} %"),
        None if let Some(event) = cell.shape.event => format!(" with {}", event.as_str()),
        None if cell.shape.is_usual() => String::new(),
        None => format!(" at depth {own} x {other}"),
    };
    format!("{} of {victim}{beside}{shape} under {variant}", condition.as_str())
}

#[cfg(test)]
mod tests {
    use super::Frozen;
    use crate::plan;
    use crate::profile::{Profile, Wanted};
    use crate::tests::{host, of_name};

    #[test]
    fn a_run_names_what_it_left_out_added_and_changed() -> Result<(), Box<dyn std::error::Error>> {
        let profile = Profile { mechanisms: Wanted::All, ..of_name("smoke")? };
        let whole = plan(&profile, &host(&[0, 0]), "ptx")?;
        let frozen = Frozen::of(&whole);
        let text = serde_json::to_string_pretty(&frozen)?;
        let read = Frozen::parse(&text)?;
        assert_eq!(read, frozen);
        let same = read.compared(&whole);
        assert!(same.left_out.is_empty() && same.added.is_empty() && same.changed.is_empty());
        assert!(same.to_string().ends_with("followed"), "{same}");
        let mut other = whole.clone();
        let gone = other.cells.remove(0);
        other.cells[0].dose = 0.5;
        other.thresholds.retention_l3 = 0.9;
        let found = read.compared(&other);
        assert!(found.left_out.iter().any(|text| text.contains(&gone.victim)), "{found}");
        assert_eq!(found.changed, ["thresholds"]);
        let changed = text.replacen("0.95", "0.90", 1);
        assert!(Frozen::parse(&changed).is_err_and(|error| error.contains("changed")));
        assert!(Frozen::parse("{}").is_err_and(|error| error.contains("--freeze")));
        Ok(())
    }
}
