//! The pages of `gpubench claims`: the ledger, its recipes, and the verdicts of records.

use gpubench_plan::Ledger;
use gpubench_record::counted;
use gpubench_record::{Claim, ClaimRow, DeviceKind, RunRecord, Verdict};
use gpubench_show::{Block, Cell, Page, Paint, Table, VIRTUAL_TITLE};
use serde_json::{Value, json};

use super::figures::{NO_RECORD, no_record};
use crate::claims;

pub struct Judged<'a> {
    pub name: String,
    /// The run, with the claims to show.
    pub run: &'a RunRecord,
    /// How many claims it has.
    pub claims: usize,
}

impl Judged<'_> {
    /// The record and its counts; of a part of the claims, how many they are.
    fn heading(&self) -> String {
        let shown = self.run.claims.len();
        let part = match shown == self.claims {
            true => String::new(),
            false => format!(", {shown} of {}", counted(self.claims, "claim")),
        };
        format!("{}{part}: {}", self.name, counts(&self.run.claims))
    }
}

fn table(heading: &str, columns: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Table {
    let rows = rows.map(|row| row.iter().map(Cell::text).collect());
    Table::new("", heading, columns.iter().copied(), rows)
}

fn page(title: String, tables: impl IntoIterator<Item = Table>) -> Page {
    let mut page = Page::new(title);
    tables.into_iter().for_each(|table| page.push(table));
    page
}

fn painted(verdict: Verdict) -> Cell {
    let paint = match verdict {
        Verdict::Supported => Paint::Good,
        Verdict::Refuted => Paint::Bad,
        Verdict::Inconclusive => Paint::Weak,
        Verdict::Untested => Paint::Faint,
    };
    Cell::text(verdict.as_str()).painted(paint, "")
}

/// What the claims of the ledger say.
pub fn statements(ledger: &Ledger) -> Page {
    let rows = ledger.claims.iter().map(|claim| {
        let axis = claim.axis.as_str().to_owned();
        [claim.id.clone(), claim.mechanisms.join(", "), axis, claim.statement.clone()]
    });
    let title = format!("Claims ledger: {}", counted(ledger.claims.len(), "claim"));
    let table = Table::plain(["claim", "mechanism", "axis", "says"], rows);
    page(title, [table.with_heading("Claims of the literature")])
}

/// The claims of the ledger with their tests.
pub fn ledger(ledger: &Ledger) -> Page {
    let rows = ledger.claims.iter().map(|claim| {
        vec![
            claim.id.clone(),
            claim.mechanisms.join(", "),
            claim.axis.as_str().to_owned(),
            claim.statement.clone(),
            test(claim),
            claim.contradicts.join(", "),
            claim.source.clone(),
            claim.published_for.clone().unwrap_or_default(),
        ]
    });
    let columns =
        ["claim", "mechanism", "axis", "says", "test", "contradicts", "source", "published for"];
    let title = format!("Claims ledger: {}", counted(ledger.claims.len(), "claim"));
    page(title, [table("Claims of the literature", &columns, rows)])
}

/// The words that reports print as `claimed`.
pub fn words(ledger: &Ledger) -> Table {
    let mechanisms: Vec<&str> =
        ledger.words.iter().flat_map(|one| &one.mechanisms).map(String::as_str).collect();
    let rows = ledger.words_of(&mechanisms).into_iter().map(|one| {
        let axis = one.axis.as_str().to_owned();
        vec![one.mechanism, axis, one.word, one.source, one.cited.unwrap_or_default()]
    });
    let columns = ["mechanism", "axis", "word", "claimed by", "source"];
    table("Words for the isolation, as published", &columns, rows)
}

fn test(claim: &Claim) -> String {
    match claim.quantity {
        Some(_) => claims::test_in_words(claim),
        None => no_record(claim),
    }
}

/// Recipes that do not work and phrases that mislead.
pub fn recipes(ledger: &Ledger) -> Page {
    let recipes = ledger.recipes.iter().map(|one| {
        let texts = [&one.mechanism, &one.recipe, &one.wrong, &one.working];
        texts.map(String::clone).into()
    });
    let misleading = ledger.misleading.iter().map(|one| {
        let claims = one.claims.join(", ");
        let texts = [&one.mechanism, &one.phrase, &one.truth, &claims];
        texts.map(String::clone).into()
    });
    page(
        "Recipes and phrases in circulation".to_owned(),
        [
            table(
                "Recipes that do not work",
                &["mechanism", "recipe", "what is wrong", "working form"],
                recipes,
            ),
            table(
                "Phrases that mislead",
                &["mechanism", "phrase", "what is true", "claims that test it"],
                misleading,
            ),
        ],
    )
}

/// How much a page says of each claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// What was found, by verdict, and what would test the rest.
    Summary,
    /// Also test, source and what each was published for.
    Full,
}

pub fn verdicts(records: &[Judged<'_>], detail: Detail) -> Page {
    let mut blocks: Vec<Block> = Vec::new();
    if records.len() > 1 {
        let rows = together(records).into_iter().map(|(id, verdict, each)| {
            let each = each.map(|one| one.map_or_else(|| Cell::text(""), painted));
            [Cell::text(id), painted(verdict)].into_iter().chain(each).collect()
        });
        let mut columns = vec!["claim", "together"];
        columns.extend(records.iter().map(|one| one.name.as_str()));
        blocks.push(Table::new("", "All records", columns, rows).into());
    }
    let columns = ["claim", "verdict", "says", "test", "figures", "source", "published for"];
    for one in records {
        if detail == Detail::Summary {
            blocks.push(Block::Heading(one.heading()));
            blocks.extend(by_verdict(one).into_iter().map(Block::Table));
            continue;
        }
        let rows = one.run.claims.iter().map(|row| {
            let about = row.published_for.as_deref().unwrap_or_default();
            let ClaimRow { id, statement, test, evidence, source, .. } = row;
            let [id, says, test, evidence, source] =
                [id, statement, test, evidence, source].map(Cell::text);
            vec![id, painted(row.verdict), says, test, evidence, source, Cell::text(about)]
        });
        blocks.push(Table::new("", &one.heading(), columns, rows).into());
    }
    let without = |one: &&Judged<'_>| one.run.plan.claims.is_empty();
    let without = records.iter().filter(without).map(|one| {
        format!("{}: it holds no claims ledger; compared with the ledger of this version", one.name)
    });
    let mut titles: Vec<String> = records.iter().map(|one| title(one.run)).collect();
    titles.dedup();
    let mut all = Page::new(format!("Claims: {}", titles.join("; ")));
    without.for_each(|notice| all.notice(notice));
    all.blocks.extend(blocks);
    all
}

/// A table for each verdict that a record gives; claims that it does not test by what would.
fn by_verdict(one: &Judged<'_>) -> Vec<Table> {
    let of = |verdict: Verdict| one.run.claims.iter().filter(move |row| row.verdict == verdict);
    let decided = [Verdict::Refuted, Verdict::Inconclusive, Verdict::Supported];
    let decided = decided.into_iter().filter(|verdict| of(*verdict).next().is_some());
    let found = decided.map(|verdict| {
        let rows = of(verdict).map(|row| {
            vec![Cell::text(&row.id), Cell::text(&row.statement), Cell::text(&row.evidence)]
        });
        let heading = format!("{}: {}", verdict.as_str(), of(verdict).count());
        Table::plain(["claim", "says", "figures"], rows).with_heading(heading)
    });
    let mut tables: Vec<Table> = found.collect();
    let mut needs: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in of(Verdict::Untested) {
        let need = row.evidence.rsplit_once("; needs ").map_or(&*row.evidence, |(_, need)| need);
        match needs.iter_mut().find(|(known, _)| *known == need) {
            Some((_, ids)) => ids.push(&row.id),
            None => needs.push((need, vec![&row.id])),
        }
    }
    needs.sort_by_key(|(_, ids)| std::cmp::Reverse(ids.len()));
    let rows = needs.iter().map(|(need, ids)| [(*need).to_owned(), ids.join(", ")]);
    let untested = Table::plain(["what would test it", "claims"], rows);
    let heading = format!("untested: {}", of(Verdict::Untested).count());
    tables.extend((!needs.is_empty()).then(|| untested.with_heading(heading)));
    tables
}

/// The same as one table, for CSV.
pub fn verdict_lines(records: &[Judged<'_>]) -> Page {
    let lines = records.iter().flat_map(|one| {
        one.run.claims.iter().map(|row| {
            let texts = [
                &one.name,
                &row.id,
                row.verdict.as_str(),
                &row.statement,
                &row.source,
                &row.test,
                &row.evidence,
                row.published_for.as_deref().unwrap_or_default(),
                by(one.run),
            ];
            texts.map(str::to_owned).into()
        })
    });
    let columns =
        ["record", "claim", "verdict", "says", "source", "test", "figures", "published for", "by"];
    page(String::new(), [table("", &columns, lines)])
}

/// Recipes and phrases as one table, for CSV.
pub fn recipe_lines(ledger: &Ledger) -> Page {
    let both = recipes(ledger);
    let kinds = both.tables().zip(["recipe", "phrase"]);
    let rows = kinds.flat_map(|(table, kind)| {
        let rows = table.rows.iter().cloned();
        rows.map(move |row| std::iter::once(Cell::text(kind)).chain(row).collect())
    });
    let columns = ["kind", "mechanism", "text", "truth", "answer"];
    page(String::new(), [Table::new("", "", columns, rows)])
}

fn title(run: &RunRecord) -> String {
    match run.device.kind {
        DeviceKind::Real => run.device.name.clone(),
        DeviceKind::Virtual => format!("{VIRTUAL_TITLE} ({})", run.device.name),
    }
}

/// Whose word a verdict is.
const fn by(run: &RunRecord) -> &'static str {
    match run.device.kind {
        DeviceKind::Real => "measurement",
        DeviceKind::Virtual => "model",
    }
}

fn counts(rows: &[ClaimRow]) -> String {
    let count = |verdict: Verdict| {
        let n = rows.iter().filter(|row| row.verdict == verdict).count();
        format!("{n} {}", verdict.as_str())
    };
    let counts = Verdict::ALL.map(count).join(", ");
    let by_none = rows.iter().filter(|row| row.evidence.starts_with(NO_RECORD));
    match by_none.count() {
        0 => counts,
        n => format!("{counts} ({n} that no record decides)"),
    }
}

/// By claim: the verdict of all records, and that of each.
fn together<'a>(
    records: &'a [Judged<'a>],
) -> Vec<(String, Verdict, impl Iterator<Item = Option<Verdict>> + 'a)> {
    let mut ids: Vec<&str> = Vec::new();
    for row in records.iter().flat_map(|one| &one.run.claims) {
        if !ids.contains(&row.id.as_str()) {
            ids.push(&row.id);
        }
    }
    let of = |one: &Judged<'_>, id: &str| {
        let mut rows = one.run.claims.iter();
        rows.find(|row| row.id == id).map(|row| row.verdict)
    };
    ids.into_iter()
        .map(|id| {
            let each = move || records.iter().map(move |one| of(one, id));
            (id.to_owned(), claims::of_records(each().flatten()), each())
        })
        .collect()
}

/// The same for programs.
pub fn verdicts_json(records: &[Judged<'_>]) -> Value {
    let each = records.iter().map(|one| {
        json!({
            "record": one.name, "device_kind": one.run.device.kind.as_str(), "by": by(one.run),
            "device": one.run.device.name, "own_ledger": !one.run.plan.claims.is_empty(),
            "claims": one.run.claims,
        })
    });
    let all = together(records).into_iter();
    let all = all.map(|(id, verdict, _)| json!({ "id": id, "verdict": verdict }));
    json!({ "together": all.collect::<Value>(), "records": each.collect::<Value>() })
}
