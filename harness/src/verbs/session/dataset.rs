//! Sessions as figures of a dataset, and back.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use gpubench_compare::session::Bounds;
use gpubench_compare::{Dose, Metric, Row, RowKey, Series, Session};
use gpubench_record::{DeviceKind, Margins};
use gpubench_stats::{Confidence, Effect};
use gpubench_store::dataset::{self, Figure, TEXTS};
use serde::{Deserialize, Serialize};

use crate::error::ExpectedError;
use crate::verbs::verdict::from_store;

/// What a session is beside its rows.
#[derive(Serialize, Deserialize)]
struct Head {
    kind: DeviceKind,
    facts: BTreeMap<String, String>,
    labels: BTreeMap<String, String>,
    margins: Option<Margins>,
}

/// The facts, labels and margins of a session as JSON.
pub fn head_of(session: &Session) -> Result<String, ExpectedError> {
    let head = Head {
        kind: session.kind,
        facts: session.facts.clone(),
        labels: session.labels.clone(),
        margins: session.margins,
    };
    serde_json::to_string(&head).map_err(|error| ExpectedError::internal(error.to_string()))
}

fn fact<'a>(session: &'a Session, name: &str) -> &'a str {
    session.facts.get(name).map_or("", String::as_str)
}

/// One for each record, wherever its folder is.
pub fn id(session: &Session) -> String {
    let of = |name| fact(session, name);
    dataset::record_id([of("uuid"), &session.started_at, of("profile"), of("calibration")])
}

/// Its figures, with the text of [`head_of`].
pub fn figures_of<'a>(
    id: &'a str,
    head: &'a str,
    session: &'a Session,
) -> Result<Vec<Figure<'a>>, ExpectedError> {
    let of_session = head;
    let host = fact(session, "hostname");
    let node = session.labels.get("node").map_or("", String::as_str);
    let of_run = ["product", "device", "profile", "calibration", "scoring", "gpubench", "clock"];
    let of_run = of_run.map(|name| fact(session, name));
    let head = [host, fact(session, "uuid"), fact(session, "driver"), &session.started_at, id];
    let measured = session.rows.iter().filter_map(|(key, row)| match row {
        Row::Measured(series) => Some((key, series)),
        _ => None,
    });
    let figures = measured.enumerate().map(|(at, (key, series))| {
        // A text of kilobytes, which readers expand for each row.
        let of_session = if at == 0 { of_session } else { "" };
        let beside = key.aggressor.as_deref().unwrap_or_default();
        let row = [key.variant.as_str(), &key.axis, &key.victim, beside, key.metric.as_str()];
        let texts =
            head.iter().chain(&of_run).chain([&node]).chain(&row).chain([&of_session]).copied();
        let texts: Vec<&str> = texts.collect();
        let own = Effect::of_mean(&series.blocks).and_then(|one| one.interval(Confidence::P95));
        let own = own.map_err(|error| ExpectedError::internal(error.to_string()))?;
        let (bounds, shown) = (series.bounds, |value| key.metric.shown(value));
        Ok(Figure {
            texts: texts
                .try_into()
                .map_err(|_| ExpectedError::internal("a row of a dataset".to_owned()))?,
            dose: key.dose.map_or(1.0, |dose| dose.0),
            value: shown(own.value),
            moved: [bounds.down, bounds.up],
            ends: [shown(own.lo - bounds.down), shown(own.hi + bounds.up)],
            blocks: u32::try_from(series.blocks.len()).unwrap_or(u32::MAX),
            is_bound: series.is_bound,
        })
    });
    figures.collect()
}

/// The texts of a figure that make a session and its rows.
const READ: [&str; 7] =
    ["started_at", "variant", "axis", "victim", "aggressor", "metric", "session"];

/// The sessions of a dataset, with the mean of each row to keep. Rows without figures are not in a
/// dataset.
pub(super) fn sessions_of(
    dir: &Path,
    keep: impl Fn(&RowKey) -> bool,
) -> Result<Vec<Session>, ExpectedError> {
    let (mut keys, mut found) = (Keys::default(), Vec::new());
    let read = dataset::each_record(dir, &READ, |figures| {
        found.push(session_of(dir, figures, |one| keys.of(one, &keep)));
    });
    read.map_err(|error| from_store(dir, error))?;
    found.into_iter().collect()
}

fn text<'a>(figure: &Figure<'a>, column: &str) -> &'a str {
    TEXTS.iter().position(|name| *name == column).map_or("", |at| figure.texts[at])
}

/// The keys of rows, each made once for all records; none for a row that is not kept.
#[derive(Default)]
struct Keys {
    known: HashMap<String, Option<Arc<RowKey>>>,
    name: String,
}

impl Keys {
    /// The key of a figure; fails with the name of an unknown metric.
    fn of<'a>(
        &mut self,
        figure: &Figure<'a>,
        keep: impl Fn(&RowKey) -> bool,
    ) -> Result<Option<Arc<RowKey>>, &'a str> {
        let columns = ["metric", "variant", "axis", "victim", "aggressor"];
        let [metric, variant, axis, victim, aggressor] = columns.map(|name| text(figure, name));
        self.name.clear();
        for part in [metric, variant, axis, victim, aggressor, &figure.dose.to_string()] {
            self.name.push_str(part);
            self.name.push('\n');
        }
        if let Some(key) = self.known.get(&self.name) {
            return Ok(key.clone());
        }
        let known = Metric::ALL.into_iter().find(|one| one.as_str() == metric);
        let key = RowKey {
            variant: variant.to_owned(),
            axis: axis.to_owned(),
            victim: victim.to_owned(),
            aggressor: Some(aggressor.to_owned()).filter(|name| !name.is_empty()),
            dose: Dose::below_1(figure.dose),
            metric: known.ok_or(metric)?,
        };
        let key = keep(&key).then(|| Arc::new(key));
        self.known.insert(self.name.clone(), key.clone());
        Ok(key)
    }
}

fn session_of<'a>(
    dir: &Path,
    figures: &[Figure<'a>],
    mut key: impl FnMut(&Figure<'a>) -> Result<Option<Arc<RowKey>>, &'a str>,
) -> Result<Session, ExpectedError> {
    let Some(first) = figures.first() else {
        return Err(ExpectedError::internal("a record of a dataset without a figure"));
    };
    let name = text(first, "record");
    let unreadable = |what: String| {
        ExpectedError::unreadable_record(dir, format!("record {name} of the dataset: {what}"))
    };
    let mut rows = BTreeMap::new();
    for one in figures {
        let key = key(one).map_err(|metric| unreadable(format!("unknown metric {metric:?}")))?;
        let Some(key) = key else { continue };
        let mean = if key.metric.is_log() { one.value.ln() } else { one.value };
        let [down, up] = one.moved;
        let (bounds, is_bound) = (Bounds { down, up }, one.is_bound);
        let series = Series { blocks: vec![mean], bounds, is_bound, ..Series::default() };
        rows.insert(key, Row::Measured(series));
    }
    let session = figures.iter().map(|one| text(one, "session")).find(|text| !text.is_empty());
    let head: Head = serde_json::from_str(session.unwrap_or_default())
        .map_err(|error| unreadable(error.to_string()))?;
    Ok(Session {
        name: format!("{}/{name}", dir.display()),
        started_at: text(first, "started_at").to_owned(),
        kind: head.kind,
        facts: head.facts,
        labels: head.labels,
        margins: head.margins,
        levels: BTreeMap::new(),
        rows,
        doubts: Vec::new(),
        repeats: BTreeMap::new(),
        work: BTreeMap::new(),
        losses: Vec::new(),
        is_doubtful: false,
    })
}
