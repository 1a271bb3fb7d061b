//! The answer as a document and as data.

use gpubench_record::{DeviceKind, Estimate, RunRecord};
use gpubench_show::{Block, Cell, Line, Page, Paint, Table, VIRTUAL_TITLE, list, outwards};
use serde_json::{Value, json};

use super::cost::host_time_ns;
use super::measure::of_every_need;
use super::need::{Need, Step};
use super::{Candidate, Finding, Shown, Verdict, is_of_model, ranked};

/// The isolation that people compare, as needs; the numbers do not matter.
const COLUMNS: [&str; 7] =
    ["compute>=L1", "dram>=L1", "l2>=L1", "pcie>=L1", "memory>=L1", "jitter>=L1", "fault>=L1"];

/// What a published tree answers, and what the records say of it.
#[derive(Debug, Clone, Default)]
pub struct SecondOpinion {
    /// The tree's recommendation, or the question that it leaves open.
    pub says: String,
    /// Where it contradicts the records.
    pub contradictions: Vec<String>,
}

/// What `choose` answers.
#[derive(Debug)]
pub struct Answer<'a> {
    pub names: Vec<String>,
    pub records: &'a [&'a RunRecord],
    pub needs: &'a [Need],
    pub candidates: &'a [Candidate],
    pub front: Vec<&'a Candidate>,
    pub accept_unknown: bool,
    pub second: Option<SecondOpinion>,
}

/// The columns of isolation, each with its name.
pub fn columns() -> Vec<(&'static str, Need)> {
    let column = |text: &&'static str| {
        Some((text.split('>').next().unwrap_or(text), Need::parse(text).ok()?))
    };
    COLUMNS.iter().filter_map(column).collect()
}

/// What stands for levels that are not known.
pub(super) const OPEN: &str = "?";

/// The levels between two bounds.
pub fn levels([worst, best]: [f64; 2]) -> String {
    match (worst.is_finite(), best.is_finite()) {
        (true, _) if worst == best => format!("L{worst}"),
        (true, _) => format!("L{worst}..L{best}"),
        (false, true) if best <= 0.0 => "L0".to_owned(),
        (false, true) if best < 3.0 => format!("at most L{best}"),
        (false, _) => OPEN.to_owned(),
    }
}

/// What the columns of the costs mean.
const COSTS: &str = "alone: rate under the mechanism beside idle neighbours, over the native one. \
                     all tenants: the sum of each one's rate beside the others over that alone. A \
                     victim asks for its share of the device, so the sum passes 1 where it loses \
                     little; work that fills the device is measured by profile equal. context: \
                     memory that the context of a tenant takes.";
/// The same of a column that only --memory fills.
const FIT: &str = " fit: tenants that the memory holds.";

/// What setting up takes, in words.
pub fn takes(steps: &[Step]) -> String {
    let words = |step: &Step| match step {
        Step::Restart => "tenants started anew",
        Step::Root => "root",
        Step::Drain => "a drained GPU",
        Step::Reset => "a reset of the GPU",
        Step::Reboot => "a reboot",
    };
    let words: Vec<&str> = steps.iter().map(words).collect();
    if words.is_empty() { "nothing".to_owned() } else { list(&words, "and") }
}

impl Answer<'_> {
    /// The mechanisms that it names, best first.
    pub fn named(&self) -> Vec<&Candidate> {
        if self.needs.is_empty() {
            return self.front.clone();
        }
        ranked(self.candidates, self.accept_unknown)
    }

    fn by(&self) -> &'static str {
        if is_of_model(self.records) { " by the model" } else { "" }
    }

    pub fn page(&self) -> Page {
        let device = self.records.first().map(|run| &run.device);
        let name =
            device.map_or_else(String::new, |of| format!("{}, driver {}", of.name, of.driver));
        let mut page = Page::new(format!("Which mechanism: {name}"));
        if device.is_some_and(|of| of.kind == DeviceKind::Virtual) {
            page.notice(format!("{VIRTUAL_TITLE}. Every outcome here is by the model."));
        }
        self.answer(&mut page);
        if self.needs.is_empty() {
            page.push(self.isolation_table());
            self.open_levels(&mut page);
        } else {
            page.push(self.needs_table());
            self.reasons(&mut page);
        }
        page.push(self.cost_table());
        let has_fit = self.candidates.iter().any(|one| one.cost.tenants_fit.is_some());
        page.say(format!("{COSTS}{}", if has_fit { FIT } else { "" }));
        if let Some(ns) = host_time_ns(self.records) {
            let seconds = ns as f64 / 1e9;
            page.say(format!(
                "Changes of the host, of all mechanisms together, took {seconds:.1} s in these \
                 records."
            ));
        }
        if let Some(second) = &self.second {
            page.push(Block::Gap);
            let tree = "It is a published overview's questions about needs, and no measurement.";
            let says = format!("{}. {tree}", second.says);
            page.push(Line::new(says).marked("the published tree:", Paint::Faint));
            for one in &second.contradictions {
                page.push(Line::new(one).marked("the record contradicts it here:", Paint::Bad));
            }
        }
        page
    }

    fn answer(&self, page: &mut Page) {
        let (named, by) = (self.named(), self.by());
        if self.needs.is_empty() {
            let names: Vec<&str> = named.iter().map(|one| one.label.as_str()).collect();
            page.say(match names.as_slice() {
                [] => "No mechanism is measured.".to_owned(),
                names => format!(
                    "Without a need: no other mechanism isolates as well at no higher cost{by} \
                     than {}. Name what you need with --need.",
                    list(names, "and")
                ),
            });
            return;
        }
        let Some(first) = named.first() else {
            let sentence = format!("no mechanism meets every need{by}.");
            page.push(Line::new(sentence).marked("nothing meets:", Paint::Bad));
            for one in ranked(self.candidates, true) {
                let sentence = format!("{} fails no need; unknown: {}", one.label, doubts(one));
                page.push(Line::new(sentence).marked("perhaps:", Paint::Weak));
            }
            return;
        };
        let accepted = |one: &Candidate| match doubts(one) {
            open if open.is_empty() => open,
            open => format!(" (unknown and accepted: {open})"),
        };
        let what =
            if first.verdict == Verdict::Meets { "meets every need" } else { "fails no need" };
        let sentence = format!("{} {what}{by}{}.", first.label, accepted(first));
        page.push(Line::new(sentence).marked("use:", Paint::Good));
        for one in &named[1..] {
            page.push(
                Line::new(format!("{}{}", one.label, accepted(one))).marked("or:", Paint::Fair),
            );
        }
        if named.len() > 1 {
            page.say(
                "In this order: processes before threads, then the better isolated, the weakest \
                 axis first, then the more work of all tenants together, then the least to change.",
            );
        }
    }

    /// One paragraph for a design document: the first mechanism, the figures behind it, where they
    /// come from, and what is unknown.
    pub fn paragraph(&self) -> Option<String> {
        let (named, run) = (self.named(), self.records.first()?);
        let first = named.first().filter(|_| !self.needs.is_empty())?;
        let found = first.findings.iter().filter(|found| found.verdict == Verdict::Meets);
        let met: Vec<String> = found
            .map(|found| {
                let figure = found.figure.as_deref();
                format!("{} ({})", found.need, figure.unwrap_or("no figure"))
            })
            .collect();
        let met = if met.is_empty() { "no need".to_owned() } else { met.join("; ") };
        let unknown = match open(first).as_slice() {
            [] => "No need is unknown.".to_owned(),
            open => format!("Unknown: {}.", open.join(", ")),
        };
        let dates = self.records.iter().map(|run| run.provenance.started_at.get(..10));
        let mut dates: Vec<&str> = dates.flatten().collect();
        dates.sort_unstable();
        dates.dedup();
        let of_model = if is_of_model(self.records) {
            " The GPU is a model of one: the figures are predictions."
        } else {
            ""
        };
        Some(format!(
            "The tenants share the GPU by {}. It meets{}: {met}. {unknown} Measured by gpubench {} \
             on {}, driver {}, on {}.{of_model}",
            first.label,
            self.by(),
            run.provenance.gpubench,
            run.device.name,
            run.device.driver,
            list(&dates, "and")
        ))
    }

    /// The answer in Markdown, which begins with the paragraph.
    pub fn markdown(&self) -> String {
        let paragraph = self.paragraph().map(|text| format!("{text}\n\n"));
        paragraph.unwrap_or_default() + &self.page().markdown()
    }

    fn needs_table(&self) -> Table {
        // Once for all rows, which leaves the names their width.
        let outcome = format!("outcome{}", self.by());
        let columns = ["mechanism".to_owned(), outcome].into_iter();
        let columns = columns.chain(self.needs.iter().map(|need| need.text.clone()));
        let rows = self.candidates.iter().map(|one| {
            let each = one.findings.iter().map(|found| painted(found.verdict));
            [Cell::text(&one.label), painted(one.verdict)].into_iter().chain(each).collect()
        });
        Table { boxed: false, ..Table::new("", "", columns, rows) }
    }

    /// Why each mechanism fails, and what would decide each unknown.
    fn reasons(&self, page: &mut Page) {
        for one in self.candidates.iter().filter(|one| one.verdict == Verdict::Meets) {
            for found in &one.findings {
                page.push(line(&one.label, found, Paint::Good));
            }
        }
        for one in self.candidates.iter().filter(|one| one.verdict == Verdict::Fails) {
            let failed = one.findings.iter().filter(|found| found.verdict == Verdict::Fails);
            let lines = failed.clone().map(|found| line(&one.label, found, Paint::Bad));
            let is_said = failed.clone().any(|found| found.need.starts_with("tenants>="));
            let refusal = one.refusal.filter(|_| !is_said).map(|why| {
                Line::new(format!("sharing: {}: {why}", one.label)).marked("fails", Paint::Bad)
            });
            refusal.into_iter().chain(lines).for_each(|line| page.push(line));
        }
        // One line for all mechanisms with the same reason, and for all needs of one that did not
        // run.
        let mut groups: Vec<(Finding, Vec<&Candidate>)> = Vec::new();
        for one in self.candidates.iter().filter(|one| one.verdict == Verdict::Unknown) {
            let mut open: Vec<Finding> = one.findings.clone();
            open.retain(|found| found.verdict == Verdict::Unknown);
            if !one.cost.is_measured {
                open = of_every_need(&open).into_iter().collect();
            }
            for found in open {
                let same = groups.iter_mut().find(|(known, _)| {
                    let texts = |of: &Finding| {
                        let can = of.measure.is_some();
                        (of.need.clone(), of.reason.clone(), of.figure.clone(), can)
                    };
                    texts(known) == texts(&found)
                });
                match same {
                    Some((_, all)) => all.push(one),
                    None => groups.push((found, vec![one])),
                }
            }
        }
        for (found, all) in groups {
            let names: Vec<&str> = all.iter().map(|one| one.label.as_str()).collect();
            page.push(line(&names.join(", "), &found, Paint::Weak));
            if let Some((command, minutes)) = &found.measure {
                let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
                let (one, several) = (format!("--mechanism {}", all[0].name), names.join(","));
                let command = command.replace(&one, &format!("--mechanism {several}"));
                let per = format!("--for-minutes {minutes}");
                let minutes = minutes * all.len() as u64;
                let command = command.replace(&per, &format!("--for-minutes {minutes}"));
                let text = format!("{command}   (about {minutes} min)");
                page.push(Line::new(text).indented(4, 6).marked("measures it:", Paint::Faint));
            } else {
                let text = "no run of this program on this host as it is";
                page.push(Line::new(text).indented(4, 6).marked("measures it:", Paint::Faint));
            }
        }
    }

    fn isolation_table(&self) -> Table {
        let names = columns().into_iter().map(|(name, _)| name);
        let heads = ["mechanism"].into_iter().chain(names);
        let rows = self.candidates.iter().map(|one| {
            let cells = one.shown.iter().map(|shown| shown.text.clone());
            std::iter::once(one.label.clone()).chain(cells).collect::<Vec<_>>()
        });
        Table::plain(heads, rows).with_heading(format!("Isolation{}", self.by()))
    }

    /// Why levels of measured mechanisms are open: a line for each column and reason.
    fn open_levels(&self, page: &mut Page) {
        for (at, (name, need)) in columns().iter().enumerate() {
            let mut groups: Vec<(&str, &Shown, Vec<&str>)> = Vec::new();
            let own = self.candidates.iter().filter(|one| one.refusal.is_none());
            for one in own.filter(|one| one.cost.is_measured) {
                let shown = &one.shown[at];
                let Some(why) = shown.why.as_deref() else { continue };
                match groups.iter_mut().find(|(known, ..)| *known == why) {
                    Some((.., all)) => all.push(&one.label),
                    None => groups.push((why, shown, vec![&one.label])),
                }
            }
            for (why, shown, all) in groups {
                let mut text = format!("{name} of {}: {why}", list(&all, "and"));
                if shown.bounds[0] < shown.bounds[1] {
                    text +=
                        &format!("; --need '{}' prints the command that measures it", need.text);
                }
                page.push(Line::new(text).marked(&shown.text, Paint::Weak));
            }
        }
    }

    fn cost_table(&self) -> Table {
        let heads = [
            "mechanism",
            "alone",
            "all tenants, devices",
            "not usable",
            "one tenant at most",
            "context",
            "fit",
            "mJ for a request",
            "takes",
        ];
        let measured = self.candidates.iter().filter(|one| one.cost.is_measured);
        let rows = measured.map(|one| {
            let cost = &one.cost;
            let percent = |share: f64| format!("{:.0} %", 100.0 * share);
            let span = |a: f64, b: f64| format!("{a:.2} to {b:.2}");
            let text = |of: &Estimate| {
                let [lo, hi] = [outwards(of.lo, -1.0, 3), outwards(of.hi, 1.0, 3)];
                format!("{:.3} [{lo}, {hi}]", of.value)
            };
            let ends = cost.throughput.as_ref().map(|[a, b]| span(a.value, b.value));
            let unusable = cost.unusable.as_ref();
            vec![
                one.label.clone(),
                cost.efficiency.as_ref().map(text).unwrap_or_default(),
                ends.unwrap_or_default(),
                unusable.map(|of| percent(of.share)).unwrap_or_default(),
                unusable.map(|of| percent(of.ceiling)).unwrap_or_default(),
                cost.overhead_bytes.map(|b| format!("{} MiB", b >> 20)).unwrap_or_default(),
                cost.tenants_fit.map(|fit| fit.to_string()).unwrap_or_default(),
                cost.energy_mj.map(|[a, b]| span(a, b)).unwrap_or_default(),
                takes(&cost.steps),
            ]
        });
        let rows: Vec<Vec<String>> = rows.collect();
        let is_filled = |at: &usize| rows.iter().any(|row| !row[*at].is_empty());
        let filled: Vec<usize> = (0..heads.len()).filter(is_filled).collect();
        let of = |row: &Vec<String>| filled.iter().map(|at| row[*at].clone()).collect::<Vec<_>>();
        Table::plain(filled.iter().map(|at| heads[*at]), rows.iter().map(of))
            .with_heading(format!("What sharing takes{}", self.by()))
    }

    /// The same for programs.
    pub fn json(&self) -> Value {
        let mechanisms = self.candidates.iter().map(|one| {
            let needs: Vec<Value> = one.findings.iter().map(of_finding).collect();
            let levels = columns()
                .into_iter()
                .zip(&one.shown)
                .map(|((name, _), shown)| (name.to_owned(), json!(shown.bounds.map(finite))));
            json!({
                "mechanism": one.name, "variant": one.variant,
                "outcome": (!self.needs.is_empty()).then(|| one.verdict.as_str()), "needs": needs,
                "refusal": one.refusal,
                "isolation": levels.collect::<serde_json::Map<_, _>>(), "cost": of_cost(one),
                "on_front": self.front.iter().any(|front| front.variant == one.variant),
            })
        });
        let named: Vec<&str> = self.named().iter().map(|one| one.variant.as_str()).collect();
        let needs: Vec<&str> = self.needs.iter().map(|need| need.text.as_str()).collect();
        let accepted: Vec<Value> = self
            .named()
            .iter()
            .filter(|_| self.accept_unknown)
            .filter_map(|one| {
                let open = open(one);
                (!open.is_empty()).then(|| json!({ "variant": one.variant, "needs": open }))
            })
            .collect();
        json!({
            "format": 1, "by": if is_of_model(self.records) { "model" } else { "measurement" },
            "records": self.names, "device": self.records.first().map(|run| json!({
                "kind": run.device.kind.as_str(), "name": run.device.name,
                "driver": run.device.driver,
            })),
            "needs": needs, "accept_unknown": self.accept_unknown, "answer": named,
            "accepted_unknown": accepted, "mechanisms": mechanisms.collect::<Vec<_>>(),
            "host_time_ns": host_time_ns(self.records),
            "second_opinion": self.second.as_ref().map(|second| json!({
                "says": second.says, "contradictions": second.contradictions,
            })),
        })
    }
}

/// The needs that are unknown.
fn open(one: &Candidate) -> Vec<&str> {
    let unknown = one.findings.iter().filter(|found| found.verdict == Verdict::Unknown);
    unknown.map(|found| found.need.as_str()).collect()
}

/// The same in words, with what speaks against them.
fn doubts(one: &Candidate) -> String {
    let unknown = one.findings.iter().filter(|found| found.verdict == Verdict::Unknown);
    let texts = unknown.map(|found| match &found.against {
        Some(why) => format!("{}, and {why}", found.need),
        None => found.need.clone(),
    });
    texts.collect::<Vec<_>>().join(", ")
}

fn line(names: &str, found: &Finding, paint: Paint) -> Line {
    let texts = [found.figure.clone(), found.reason.clone()];
    let texts: Vec<String> = texts.into_iter().flatten().collect();
    let why = if texts.is_empty() { String::new() } else { format!(": {}", texts.join("; ")) };
    let (word, need) = (found.verdict.as_str(), &found.need);
    Line::new(format!("{need}: {names}{why}")).marked(word, paint)
}

fn painted(verdict: Verdict) -> Cell {
    let paint = match verdict {
        Verdict::Meets => Paint::Good,
        Verdict::Fails => Paint::Bad,
        Verdict::Unknown => Paint::Weak,
    };
    Cell::text(verdict.as_str()).painted(paint, verdict.as_str())
}

fn finite(end: f64) -> Option<f64> {
    end.is_finite().then_some(end)
}

fn of_finding(found: &Finding) -> Value {
    json!({
        "need": found.need, "outcome": found.verdict.as_str(),
        "bounds": found.bounds.map(finite), "figure": found.figure, "reason": found.reason,
        "measure": found.measure.as_ref().map(|(command, minutes)| {
            json!({ "command": command, "minutes": minutes })
        }),
    })
}

fn of_cost(one: &Candidate) -> Value {
    let cost = &one.cost;
    let steps: Vec<&str> = cost.steps.iter().map(|step| step.as_str()).collect();
    json!({
        "efficiency": cost.efficiency, "throughput": cost.throughput,
        "unusable": cost.unusable.as_ref().map(|of| json!({
            "share": of.share, "ceiling": of.ceiling, "basis": of.basis,
        })),
        "overhead_bytes": cost.overhead_bytes, "tenants_fit": cost.tenants_fit,
        "energy_mj": cost.energy_mj, "steps": steps, "changes": cost.changes,
    })
}
