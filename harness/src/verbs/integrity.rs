//! Whether the scores of a record follow from its cells: they are made again and compared.

use std::collections::BTreeMap;
use std::mem::take;

use gpubench_judge::{figures, score};
use gpubench_record::{Outcome, RunRecord, counted, json as record_json};
use serde_json::{Map, Value};

use super::record::rescore;

/// Scores that may differ by rounding on another processor.
const TOLERANCE: f64 = 1e-9;

/// Differences that are named; of the others the count is.
const NAMED_MAX: usize = 10;

/// Texts whose wording may change without a change of the rules.
const TEXTS: [&str; 4] = ["reason", "warnings", "evidence", "note"];

/// The parts of a record that scoring makes.
const SCORES: [&str; 13] = [
    "matrix",
    "overall",
    "service",
    "transients",
    "energy",
    "attribution",
    "tenant_limits",
    "dose_curves",
    "operator",
    "probe_figures",
    "fault_tallies",
    "claims",
    "notices",
];

/// The keys that name a row.
const NAMES: [&str; 13] = [
    "id",
    "variant",
    "axis",
    "sub_axis",
    "victim",
    "workload",
    "aggressor",
    "fault",
    "figure",
    "event",
    "condition",
    "counter",
    "tenant",
];

#[derive(Debug, Default, PartialEq, Eq)]
pub struct ScoredAgain {
    /// One sentence for each score that does not follow from the cells by the record's rules.
    pub differences: Vec<String>,
    /// What a reader should know of a record that other rules scored.
    pub note: Option<String>,
}

/// Gives a record the scores that follow from its cells, and names those that it had instead, and
/// what of its cells cannot be.
pub fn score_again(run: &mut RunRecord) -> ScoredAgain {
    let impossible = impossible(run);
    let mut again = scored_again(run);
    again.differences.splice(0..0, impossible);
    again
}

fn scored_again(run: &mut RunRecord) -> ScoredAgain {
    let stored = without_cells(run);
    let rules = &stored.scoring;
    let outcomes: Vec<Outcome> = run.cells.iter().map(|cell| cell.outcome.clone()).collect();
    if let Err(error) = rescore(run, &[]) {
        // What it says cannot be checked, so it says nothing.
        clear_scores(run);
        run.scoring.clone_from(rules);
        for (cell, outcome) in run.cells.iter_mut().zip(outcomes) {
            cell.outcome = outcome;
        }
        let text = format!("its scores cannot be made from its cells, and are left out: {error}");
        return ScoredAgain { differences: vec![text], note: None };
    }
    if *rules != score::VERSION {
        let version = score::VERSION;
        let note = format!("scored again by {version}: {rules} scored it before");
        return ScoredAgain { note: Some(note), ..ScoredAgain::default() };
    }
    ScoredAgain { differences: differences(&stored, &without_cells(run)), note: None }
}

/// What no run writes: a cell that is planned twice, that differs from its plan or has a figure out
/// of range, and a complete run without the results of all its cells.
pub fn impossible(run: &RunRecord) -> Vec<String> {
    let mut found = Vec::new();
    let mut planned = BTreeMap::new();
    for cell in &run.plan.cells {
        if planned.insert(cell.id.as_str(), cell).is_some() {
            found.push(format!("plan: cell {} is planned twice", cell.id));
        }
    }
    for result in &run.cells {
        let id = &result.cell.id;
        if planned.remove(id.as_str()).is_some_and(|cell| *cell != result.cell) {
            found.push(format!("cell {id} is not the cell of that name in the plan"));
        }
        found.extend(
            figures::below_zero(result).map(|(name, value)| {
                format!("cell {id}: {name} is {value} (possible: at least 0)")
            }),
        );
    }
    if run.complete && !planned.is_empty() {
        let count = counted(planned.len(), "planned cell");
        found.push(format!("it is complete, and {count} have no result"));
    }
    let more = found.len().saturating_sub(NAMED_MAX);
    found.truncate(NAMED_MAX);
    if more > 0 {
        found.push(format!("{more} more of its cells cannot be"));
    }
    found
}

/// Removes the parts of [`SCORES`].
fn clear_scores(run: &mut RunRecord) {
    run.matrix.clear();
    run.overall.clear();
    run.service.clear();
    run.transients.clear();
    run.energy.clear();
    run.attribution.clear();
    run.tenant_limits.clear();
    run.dose_curves.clear();
    run.operator.clear();
    run.probe_figures.clear();
    run.fault_tallies.clear();
    run.claims.clear();
    run.notices.clear();
}

/// A copy of a record without its cells, measured and planned, which are most of it.
fn without_cells(run: &mut RunRecord) -> RunRecord {
    let (cells, planned) = (take(&mut run.cells), take(&mut run.plan.cells));
    let copy = run.clone();
    run.cells = cells;
    run.plan.cells = planned;
    copy
}

/// The scores of a record that are not those of another one. Equal ones need no JSON.
fn differences(stored: &RunRecord, made: &RunRecord) -> Vec<String> {
    if stored == made {
        return Vec::new();
    }
    let [stored, made] = [stored, made].map(|run| record_json::value(run).unwrap_or_default());
    let mut found = Found::of("cells");
    for part in SCORES {
        // Records of format 1.0 lack the parts that were added then.
        let is_new =
            matches!(part, "operator" | "claims" | "notices") && is_empty(stored.get(part));
        if !is_new {
            found.rows(part, stored.get(part), made.get(part));
        }
    }
    found.sentences()
}

fn is_empty(rows: Option<&Value>) -> bool {
    rows.and_then(Value::as_array).is_none_or(Vec::is_empty)
}

/// What of a record does not follow from its events and samples, where `made` is made of them.
pub fn facts_again(stored: &RunRecord, made: &RunRecord) -> Vec<String> {
    if stored.cells.len() != made.cells.len() {
        let (stored, made) = (stored.cells.len(), made.cells.len());
        return vec![format!("it has {stored} cells, and {made} follow from the events")];
    }
    let mut found = Found::of("samples");
    for (stored, made) in stored.cells.iter().zip(&made.cells).filter(|(a, b)| a != b) {
        let value = |cell| serde_json::to_value(cell).unwrap_or_default();
        found.values(&format!("cell {}:", made.cell.id), &value(stored), &value(made));
    }
    let mut sentences = found.sentences();
    let facts = |run: &RunRecord| match record_json::value(run).unwrap_or_default() {
        Value::Object(mut facts) => {
            facts.retain(|key, _| {
                !SCORES.contains(&key.as_str()) && !OTHERS.contains(&key.as_str())
            });
            facts
        }
        _ => Map::new(),
    };
    // These texts are in the events, in the same words.
    let mut found = Found { skips: &[], ..Found::of("events") };
    found.objects("", &facts(stored), &facts(made));
    sentences.extend(found.sentences());
    sentences
}

/// What is compared elsewhere, or says how the scores were made.
const OTHERS: [&str; 4] = ["cells", "scoring", "problems", "records_left_out"];

struct Found {
    /// What everything follows from.
    source: &'static str,
    named: Vec<String>,
    count: usize,
    skips: &'static [&'static str],
}

impl Found {
    const fn of(source: &'static str) -> Self {
        Self { source, named: Vec::new(), count: 0, skips: &TEXTS }
    }

    fn sentences(mut self) -> Vec<String> {
        let more = self.count - self.named.len();
        if more > 0 {
            self.named.push(format!("{more} more figures do not follow from the {}", self.source));
        }
        self.named
    }

    fn add(&mut self, sentence: impl FnOnce() -> String) {
        self.count += 1;
        if self.named.len() < NAMED_MAX {
            self.named.push(sentence());
        }
    }

    fn rows(&mut self, part: &str, stored: Option<&Value>, made: Option<&Value>) {
        let rows = |value: Option<&Value>| value.and_then(Value::as_array).cloned();
        let (stored, made) = (rows(stored), rows(made));
        let (stored, made) = (stored.unwrap_or_default(), made.unwrap_or_default());
        if stored.len() != made.len() {
            self.add(|| {
                let (stored, made) = (stored.len(), made.len());
                format!("{part} has {stored} rows, and {made} follow from the cells")
            });
            return;
        }
        for (stored, made) in stored.iter().zip(&made) {
            let place = format!("{part}: {}", name(made));
            self.values(&place, stored, made);
        }
    }

    fn values(&mut self, place: &str, stored: &Value, made: &Value) {
        match (stored, made) {
            (Value::Object(stored), Value::Object(made)) => self.objects(place, stored, made),
            (Value::Array(stored), Value::Array(made)) if stored.len() == made.len() => {
                for (stored, made) in stored.iter().zip(made) {
                    self.values(place, stored, made);
                }
            }
            (Value::Number(a), Value::Number(b))
                if (a.is_f64() || b.is_f64()) && is_close(a.as_f64(), b.as_f64()) => {}
            _ if stored == made => {}
            _ => {
                let (stored, made, source) = (short(stored), short(made), self.source);
                self.add(|| format!("{place} is {stored}, and {made} follows from the {source}"));
            }
        }
    }

    fn objects(&mut self, place: &str, stored: &Map<String, Value>, made: &Map<String, Value>) {
        let mut keys: Vec<&String> = stored.keys().chain(made.keys()).collect();
        keys.sort();
        keys.dedup();
        for key in keys.into_iter().filter(|key| !self.skips.contains(&key.as_str())) {
            // Records of format 1.0 do not say which axes an overall level rests on.
            if key == "axes" && is_empty(stored.get(key)) {
                continue;
            }
            let of = |object: &Map<String, Value>| object.get(key).cloned().unwrap_or_default();
            self.values(&format!("{place} {key}"), &of(stored), &of(made));
        }
    }
}

fn is_close(a: Option<f64>, b: Option<f64>) -> bool {
    a.zip(b).is_some_and(|(a, b)| (a - b).abs() <= TOLERANCE * a.abs().max(b.abs()))
}

fn name(row: &Value) -> String {
    let texts = NAMES.iter().filter_map(|key| row.get(key)?.as_str());
    texts.collect::<Vec<_>>().join(" ")
}

/// A value of a file, at most 60 characters of it.
fn short(value: &Value) -> String {
    let text = match value {
        Value::Null => "missing".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use gpubench_record::RunRecord;
    use gpubench_store::Record;

    use super::{ScoredAgain, score, score_again};

    type TestResult = Result<(), Box<dyn std::error::Error>>;

    /// The matrix of a real GPU, scored by today's rules.
    fn real() -> Result<RunRecord, Box<dyn std::error::Error>> {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR"));
        let dir = dir.join("../reports/examples/h100_580.159.04_matrix");
        let mut run = Record::open(&dir)?.run().clone();
        super::rescore(&mut run, &[])?;
        Ok(run)
    }

    #[test]
    fn scores_that_follow_from_their_cells_pass() -> TestResult {
        let mut run = real()?;
        assert_eq!(score_again(&mut run), ScoredAgain::default());
        Ok(())
    }

    #[test]
    fn a_changed_row_is_named_and_has_its_own_score_again() -> TestResult {
        let whole = real()?;
        let at = whole.matrix.iter().position(|row| row.level.as_deref() == Some("L0"));
        let at = at.ok_or("no row with L0")?;
        let mut run = whole.clone();
        run.matrix[at].level = Some("L3".to_owned());
        let retention = run.matrix[at].retention.as_mut().ok_or("no retention")?;
        retention.value = 0.990;
        let found = score_again(&mut run).differences;
        assert_eq!(found.len(), 2, "{found:?}");
        let row = &whole.matrix[at];
        assert!(found[0].contains(&row.variant), "{found:?}");
        assert!(found[0].ends_with("level is L3, and L0 follows from the cells"), "{found:?}");
        assert!(found[1].contains("retention value is 0.99"), "{found:?}");
        assert_eq!(run.matrix, score_of(&whole)?);
        Ok(())
    }

    fn score_of(
        run: &RunRecord,
    ) -> Result<Vec<gpubench_record::MatrixRow>, crate::verbs::record::JudgeError> {
        let mut run = run.clone();
        super::rescore(&mut run, &[])?;
        Ok(run.matrix)
    }

    /// Whatever rules its file names.
    #[test]
    fn a_record_that_cannot_be_scored_keeps_no_score() -> TestResult {
        for rules in [score::VERSION, "scoring-v2", "scoring-v9"] {
            let mut run = real()?;
            run.scoring = rules.to_owned();
            let twice = run.cells[0].clone();
            run.cells.push(twice);
            let found = score_again(&mut run);
            let said = found.differences.first().ok_or("no difference")?;
            assert!(said.contains("are left out: cell 0000-"), "{said}");
            assert!(run.matrix.is_empty() && run.overall.is_empty() && run.claims.is_empty());
        }
        Ok(())
    }

    #[test]
    fn a_removed_row_is_found() -> TestResult {
        let mut run = real()?;
        let rows = run.matrix.len();
        run.matrix.pop();
        let found = score_again(&mut run).differences;
        let expected = format!("matrix has {} rows, and {rows} follow from the cells", rows - 1);
        assert_eq!(found, [expected]);
        Ok(())
    }
}
