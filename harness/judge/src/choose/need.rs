//! What people need of a mechanism, as they write it: `dram>=L2`, `jitter<=0.5`, `memory-cap`.

use gpubench_plan::fault_part;
use gpubench_record::{Axis, MatrixRow, SubAxis};

/// One need.
#[derive(Debug, Clone, PartialEq)]
pub struct Need {
    /// As it was written, in the case and with the names of records, and without blanks.
    pub text: String,
    pub what: What,
}

/// What is needed.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// A level, or better.
    Level(Rows, u8),
    /// A figure: of these rows, of this kind, at least or at most the number.
    Figure(Rows, Figure, Bound),
    /// That setting the mechanism up takes no such step.
    Without(Step),
    /// That tenants are processes of their own.
    Processes,
    /// Tenants on one GPU.
    Tenants(u32),
    /// Memory of each tenant, in bytes.
    Memory(u64),
}

/// A number on one side of which a figure must be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

/// The figures that a need can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// Retention of rates, survival of trials.
    Kept,
    Jitter,
    /// The tail of latencies at the offered load, over what service times alone give.
    Tail,
    Guarantee,
    Efficiency,
    /// Work of all tenants together, in devices: the sum of their progress.
    Throughput,
}

/// What a mechanism can take to set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Tenants start anew: in the environment of a daemon or with a library.
    Restart,
    Root,
    /// No process may use the GPU.
    Drain,
    Reset,
    Reboot,
}

impl Step {
    pub const ALL: [Self; 5] = [Self::Restart, Self::Root, Self::Drain, Self::Reset, Self::Reboot];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Restart => "restart",
            Self::Root => "root",
            Self::Drain => "drain",
            Self::Reset => "reset",
            Self::Reboot => "reboot",
        }
    }
}

/// The rows of the matrix that a need is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    /// `None`: every axis whose rows are rates.
    pub axis: Option<Axis>,
    /// A sub-axis, a class of faults, an aggressor or a fault.
    pub part: Option<String>,
}

impl Rows {
    /// Every row of an axis.
    pub const fn of(axis: Axis) -> Self {
        Self { axis: Some(axis), part: None }
    }

    pub fn has(&self, row: &MatrixRow) -> bool {
        let part = self.part.as_deref();
        let is_of_axis = |axis: Axis| row.axis == axis.as_str();
        self.axis.map_or_else(|| OF_RATES.into_iter().any(is_of_axis), is_of_axis)
            && part.is_none_or(|part| {
                row.sub_axis.as_deref() == Some(part) || row.aggressor.as_deref() == Some(part)
            })
    }

    /// The sub-axes without which an axis is not measured.
    pub fn required(&self) -> &'static [&'static str] {
        match (self.axis, &self.part) {
            (Some(Axis::Memory), None) => &["capacity", "cap", "residue", "visibility"],
            (Some(Axis::Compute), None) => &["sm"],
            (Some(Axis::Bandwidth), None) => &["dram", "l2", "pcie"],
            _ => &[],
        }
    }

    /// `AXIS`, `AXIS/PART`, or a sub-axis, a class of faults or a fault alone.
    fn parse(name: &str) -> Option<Self> {
        let axis_of = |name: &str| Axis::ALL.into_iter().find(|axis| axis.as_str() == name);
        let sub_axis = |name: &str| SUB_AXES.into_iter().find(|sub| sub.as_str() == name);
        let (axis, part) = match name.split_once('/') {
            Some((axis, part)) => (axis_of(axis)?, Some(part)),
            None => match axis_of(name) {
                Some(axis) => (axis, None),
                None => {
                    let of_fault = || fault_part(name, None).map(|_| Axis::Fault);
                    (sub_axis(name).map(SubAxis::axis).or_else(of_fault)?, Some(name))
                }
            },
        };
        // Parts of faults and of jitter are as many as there are faults and aggressors.
        let is_known = part.is_none_or(|part| match axis {
            Axis::Fault | Axis::Jitter => !part.is_empty(),
            _ => sub_axis(part).is_some_and(|sub| sub.axis() == axis),
        });
        is_known.then(|| Self { axis: Some(axis), part: part.map(str::to_owned) })
    }
}

/// The axes of which rates are measured.
const OF_RATES: [Axis; 3] = [Axis::Compute, Axis::Bandwidth, Axis::Power];

const SUB_AXES: [SubAxis; 12] = [
    SubAxis::Sm,
    SubAxis::Issue,
    SubAxis::Launch,
    SubAxis::Driver,
    SubAxis::Dram,
    SubAxis::L2,
    SubAxis::Pcie,
    SubAxis::Capacity,
    SubAxis::Cap,
    SubAxis::Residue,
    SubAxis::Visibility,
    SubAxis::Power,
];

/// A need that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("need \"{text}\": {problem} (accepted: {accepted})")]
pub struct NeedError {
    pub text: String,
    pub problem: String,
    pub accepted: &'static str,
}

const NAMES: &str = "memory, compute, bandwidth, fault or jitter, one of their parts such as dram, \
                     fault/mmu or oom, retention/dram, survival, tail, efficiency, \
                     guarantee/dram, throughput, tenants, memory-cap, processes, no-restart, \
                     no-root, no-drain, no-reset, no-reboot";
const VALUES: &str = "NAME>=L1 to NAME>=L3 or their names partial, bounded, strong, NAME>=0.8, \
                      jitter<=0.5, tail<=0.5, tenants>=4, memory>=10GiB";
/// What a screen prints and no need can name.
const OVERALL: &str = "overall is the weakest axis of one record, so name the axes that you need";
const WORD: &str = "a word says what enforces the isolation, and is no level";

impl Need {
    /// Fails when the text names nothing that a record has.
    pub fn parse(text: &str) -> Result<Self, NeedError> {
        let given: String = text.split_whitespace().collect();
        let text = of_record(&given);
        let wrong = |problem: &str, accepted| {
            Err(NeedError { text: given.clone(), problem: problem.to_owned(), accepted })
        };
        let unknown = |name: &str| {
            let meant = similar(name).map(|name| format!(", did you mean {name}?"));
            wrong(&format!("unknown name{}", meant.unwrap_or_default()), NAMES)
        };
        let parts = [">=", "<="].into_iter().find_map(|sign| Some((sign, text.split_once(sign)?)));
        let Some((sign, (name, value))) = parts else {
            return match alone(&text) {
                Some(what) => Ok(Self { what, text }),
                None if text.contains(['<', '>', '=']) => wrong("no >= and no <=", VALUES),
                None if Rows::parse(&text).is_some() => wrong("it has no value", VALUES),
                None => unknown(&text),
            };
        };
        if name == "overall" {
            return wrong(OVERALL, NAMES);
        }
        let Some((rows, figure)) = named(name) else {
            return unknown(name);
        };
        let has_level = is_of_level(figure) && !is_ratio(name);
        let is_least = sign == ">=";
        let what = match (name, level(value), value.parse::<f64>().ok(), bytes(value)) {
            ("tenants", _, Some(n), _) if is_least && n >= 1.0 && n.fract() == 0.0 && n < 1e6 => {
                What::Tenants(n as u32)
            }
            ("tenants", ..) => return wrong("no number of tenants", "tenants>=4"),
            ("memory", _, _, Some(bytes)) if is_least => What::Memory(bytes),
            (_, Some(level), ..) if is_least && has_level => What::Level(rows, level),
            (_, None, Some(number), _) if number.is_finite() && number >= 0.0 => {
                let is_rising = !matches!(figure, Figure::Jitter | Figure::Tail);
                let has_figure = rows.axis != Some(Axis::Memory) || rows.part.is_some();
                if is_rising != is_least || !has_figure || rows.part.as_deref() == Some("cap") {
                    return wrong("this figure has no such bound", VALUES);
                }
                let bound = if is_least { Bound::AtLeast } else { Bound::AtMost };
                What::Figure(rows, figure, bound(number))
            }
            _ if WORDS.iter().any(|word| word.eq_ignore_ascii_case(value)) => {
                return wrong(WORD, VALUES);
            }
            _ => return wrong("no such value", VALUES),
        };
        Ok(Self { text, what })
    }

    /// The axis that a measurement of it needs.
    pub const fn axis(&self) -> Option<Axis> {
        match &self.what {
            What::Level(rows, _) | What::Figure(rows, ..) => rows.axis,
            What::Memory(_) => Some(Axis::Memory),
            _ => None,
        }
    }

    /// Whether the need is one of isolation, which the published tree asks for.
    pub fn is_about(&self, axis: Axis) -> bool {
        !matches!(self.what, What::Memory(_)) && self.axis() == Some(axis)
    }
}

/// A need as records write it: screens have some names in capitals, and `faults`.
fn of_record(text: &str) -> String {
    let at = text.find(['<', '>', '=']).unwrap_or(text.len());
    let (name, rest) = (text[..at].to_lowercase(), &text[at..]);
    let part = |part| match part {
        "faults" => "fault",
        "sms" => "sm",
        other => other,
    };
    let name: Vec<&str> = name.split('/').map(part).collect();
    let value = rest.trim_start_matches(['<', '>', '=']);
    let level = level(&value.to_uppercase()).or_else(|| named_level(value));
    let level = level.map(|level| format!("L{level}"));
    let sign = &rest[..rest.len() - value.len()];
    format!("{}{sign}{}", name.join("/"), level.unwrap_or_else(|| value.to_owned()))
}

/// The known name that is nearest to an unknown one, by the rule of the command line's flags.
fn similar(name: &str) -> Option<String> {
    // What people call the latency of few requests.
    if ["latency", "p95", "p99", "p999", "slo"].contains(&name) {
        return Some("tail".to_owned());
    }
    let others = "tail efficiency guarantee throughput tenants memory-cap processes";
    let steps = Step::ALL.iter().map(|step| format!("no-{}", step.as_str()));
    let subs = || SUB_AXES.iter().map(|sub| (sub.axis().as_str(), sub.as_str()));
    let known = Axis::ALL.iter().map(|axis| axis.as_str().to_owned());
    let known = known.chain(subs().map(|(_, sub)| sub.to_owned()));
    let known = known.chain(subs().map(|(axis, sub)| format!("{axis}/{sub}")));
    let known = known.chain(others.split(' ').map(str::to_owned)).chain(steps);
    let near = known.map(|one| (strsim::jaro(name, &one), one)).filter(|(near, _)| *near > 0.7);
    near.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, one)| one)
}

/// The rows and the figure of a name.
fn named(name: &str) -> Option<(Rows, Figure)> {
    let every = Rows { axis: None, part: None };
    let (first, rest) = name.split_once('/').map_or((name, None), |(a, b)| (a, Some(b)));
    let figure = match first {
        "efficiency" => Figure::Efficiency,
        "guarantee" => Figure::Guarantee,
        "tail" => {
            let axis = Axis::Jitter.as_str();
            let rows = Rows::parse(&rest.map_or(axis.to_owned(), |part| format!("{axis}/{part}")))?;
            return Some((rows, Figure::Tail));
        }
        "retention" => Figure::Kept,
        "survival" => {
            let axis = Axis::Fault.as_str();
            let rows = Rows::parse(&rest.map_or(axis.to_owned(), |part| format!("{axis}/{part}")))?;
            return Some((rows, Figure::Kept));
        }
        "throughput" | "tenants" => return rest.is_none().then_some((every, Figure::Throughput)),
        _ => {
            let rows = Rows::parse(name)?;
            let is_jitter = rows.axis == Some(Axis::Jitter);
            return Some((rows, if is_jitter { Figure::Jitter } else { Figure::Kept }));
        }
    };
    let rows = rest.map_or(Some(every), Rows::parse)?;
    rows.axis.is_none_or(|axis| OF_RATES.contains(&axis)).then_some((rows, figure))
}

/// Needs without a value.
pub const ALONE: [&str; 7] =
    ["memory-cap", "processes", "no-restart", "no-root", "no-drain", "no-reset", "no-reboot"];

/// A need without a value.
fn alone(text: &str) -> Option<What> {
    let cap = || Rows { axis: Some(Axis::Memory), part: Some("cap".to_owned()) };
    let step =
        || Step::ALL.into_iter().find(|step| Some(step.as_str()) == text.strip_prefix("no-"));
    match text {
        "memory-cap" => Some(What::Level(cap(), 2)),
        "processes" => Some(What::Processes),
        _ => step().map(What::Without),
    }
}

/// Whether it names a ratio, which has no level.
fn is_ratio(name: &str) -> bool {
    ["retention", "survival"].contains(&name.split('/').next().unwrap_or(name))
}

/// The words of reports that are no level.
const WORDS: [&str; 6] = ["hardware", "software", "none", "negligible", "low-medium", "high"];

/// The name of a level, as the legend of a screen has it.
fn named_level(name: &str) -> Option<u8> {
    let names = ["partial", "bounded", "strong"];
    (1..).zip(names).find(|(_, known)| known.eq_ignore_ascii_case(name)).map(|(level, _)| level)
}

const fn is_of_level(figure: Figure) -> bool {
    matches!(figure, Figure::Kept | Figure::Jitter)
}

fn level(value: &str) -> Option<u8> {
    match value {
        "L1" => Some(1),
        "L2" => Some(2),
        "L3" => Some(3),
        _ => None,
    }
}

/// A size with its unit.
pub fn bytes(value: &str) -> Option<u64> {
    let units = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1_u64 << 40)];
    let decimal = [("MB", 1_000_000), ("GB", 1_000_000_000), ("TB", 1_000_000_000_000)];
    let mut units = units.into_iter().chain(decimal);
    let (number, unit) =
        units.find_map(|(name, bytes)| Some((value.strip_suffix(name)?, bytes)))?;
    let number: f64 = number.trim().parse().ok()?;
    let bytes = number * unit as f64;
    (number > 0.0 && bytes < 1e18).then_some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(axis: Axis, part: Option<&str>) -> Rows {
        Rows { axis: Some(axis), part: part.map(str::to_owned) }
    }

    #[test]
    fn needs_are_read_as_people_write_them() {
        use Bound::{AtLeast, AtMost};
        let every = Rows { axis: None, part: None };
        let dram = || rows(Axis::Bandwidth, Some("dram"));
        for (text, want) in [
            ("dram>=L2", What::Level(dram(), 2)),
            ("bandwidth/dram >= L3", What::Level(dram(), 3)),
            ("dram>=0.8", What::Figure(dram(), Figure::Kept, AtLeast(0.8))),
            ("jitter<=0.5", What::Figure(Rows::of(Axis::Jitter), Figure::Jitter, AtMost(0.5))),
            ("tail <= 0.5", What::Figure(Rows::of(Axis::Jitter), Figure::Tail, AtMost(0.5))),
            ("jitter>=L2", What::Level(Rows::of(Axis::Jitter), 2)),
            ("fault/mmu>=L2", What::Level(rows(Axis::Fault, Some("mmu")), 2)),
            ("guarantee/dram>=0.4", What::Figure(dram(), Figure::Guarantee, AtLeast(0.4))),
            ("throughput>=1", What::Figure(every, Figure::Throughput, AtLeast(1.0))),
            ("memory-cap", What::Level(rows(Axis::Memory, Some("cap")), 2)),
            ("memory>=10GiB", What::Memory(10 << 30)),
            ("memory>=L2", What::Level(Rows::of(Axis::Memory), 2)),
            ("tenants>=4", What::Tenants(4)),
            ("no-reset", What::Without(Step::Reset)),
            ("processes", What::Processes),
            ("DRAM >= l2", What::Level(dram(), 2)),
            ("Faults/mmu>=L2", What::Level(rows(Axis::Fault, Some("mmu")), 2)),
            ("No-Reset", What::Without(Step::Reset)),
            ("oom>=L2", What::Level(rows(Axis::Fault, Some("oom")), 2)),
            ("compute>=strong", What::Level(Rows::of(Axis::Compute), 3)),
            ("dram>=Partial", What::Level(dram(), 1)),
            ("retention/dram>=0.9", What::Figure(dram(), Figure::Kept, AtLeast(0.9))),
            ("survival>=0.9", What::Figure(Rows::of(Axis::Fault), Figure::Kept, AtLeast(0.9))),
        ] {
            assert_eq!(Need::parse(text).map(|need| need.what), Ok(want), "{text}");
        }
    }

    #[test]
    fn a_need_without_a_value_is_one_of_the_list() {
        assert!(ALONE.iter().all(|text| Need::parse(text).is_ok()));
        assert_eq!(ALONE.len(), 2 + Step::ALL.len());
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_what_is_accepted() {
        for (text, problem) in [
            ("dran>=L2", "unknown name, did you mean dram?"),
            ("memroy>=L2", "unknown name, did you mean memory?"),
            ("efficency>=0.9", "unknown name, did you mean efficiency?"),
            ("no-rooot", "unknown name, did you mean no-root?"),
            ("bandwidth/sm>=L2", "unknown name, did you mean bandwidth?"),
            ("dram>=L0", "no such value"),
            ("overall>=L1", OVERALL),
            ("compute>=Hardware", WORD),
            ("survival>=L1", "no such value"),
            ("retention/dram>=L2", "no such value"),
            ("jitter<=-1", "no such value"),
            ("tail<=-0.1", "no such value"),
            ("dram>=L4", "no such value"),
            ("dram>L2", "no >= and no <="),
            ("dram", "it has no value"),
            ("dram<=L2", "no such value"),
            ("jitter>=0.5", "this figure has no such bound"),
            ("dram<=0.5", "this figure has no such bound"),
            ("memory>=0.9", "this figure has no such bound"),
            ("cap>=0.9", "this figure has no such bound"),
            ("efficiency>=L2", "no such value"),
            ("guarantee/memory>=0.5", "unknown name, did you mean guarantee?"),
            ("dram>=nan", "no such value"),
            ("tenants>=1.5", "no number of tenants"),
            ("memory>=-1GiB", "no such value"),
            ("qqq", "unknown name"),
            ("\u{130}\u{130}\u{130}>=L2", "unknown name"),
            ("", "unknown name"),
        ] {
            let found = Need::parse(text).map_err(|error| error.problem);
            assert_eq!(found, Err(problem.to_owned()), "{text}");
        }
    }
}
