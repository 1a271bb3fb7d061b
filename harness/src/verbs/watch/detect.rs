//! When a resource is contended: a window of the canary's requests against those that it learned
//! from. Pure.
//!
//! A window is contended in a resource when its requests are slower on average by [`Rule::least`],
//! and so many of them are above the 90th percentile of the learned ones that equal requests do it
//! once in [`Rule::alarms_per_day`] of all windows and resources of a day (exceedance test). That
//! rate holds for exchangeable requests, whatever their distribution; a slow drift of the device is
//! not, which the first condition is for.

use gpubench_stats::proportion::exceedance_p;

/// One learned request in this many is above the limit.
const ABOVE_ONE_IN: usize = 10;
/// Windows in a row without contention that end an event.
const QUIET: u32 = 2;
/// Windows in a row that are faster than the learned ones by [`Rule::least`] before those count as
/// contended, and are learned again.
const FASTER: u32 = 6;
const DAY_NS: f64 = 86_400e9;

/// When a window counts as contended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    pub window_ns: u64,
    /// Windows that are learned from.
    pub learned: u32,
    /// The least slowdown that is an event, as a share of the learned mean.
    pub least: f64,
    /// False events a day, at most.
    pub alarms_per_day: f64,
}

/// The requests of a resource in one window.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Requests {
    pub ns: Vec<f64>,
    /// Requests that did not start, because others before them took the time: they count as slow.
    pub missed: usize,
}

/// A window of one resource.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    /// Mean over the learned mean.
    pub slowdown: f64,
    pub is_contended: bool,
}

/// What changed with a window.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// The baseline is known from now on, or again.
    Learned {
        again: bool,
    },
    Contended,
    /// With the mean slowdown of each resource in the contended windows.
    Over(Vec<f64>),
    /// The device is faster than it was: what was learned from was contended.
    Faster,
}

/// What was learned of one resource.
#[derive(Debug, Clone, Default)]
struct Baseline {
    learning: Vec<f64>,
    count: u32,
    mean: f64,
    limit: f64,
    rank: u32,
    /// For a window of the first number of requests, how many above the limit are too many.
    too_many: (u32, u32),
}

impl Baseline {
    /// How many of `count` requests above the limit have at most this probability.
    fn too_many(&mut self, count: u32, probability: f64) -> u32 {
        if self.too_many.0 != count {
            let p = |above| exceedance_p(self.count, self.rank, count, above).unwrap_or(1.0);
            let first = (0..=count).find(|above| p(*above) <= probability);
            self.too_many = (count, first.unwrap_or(u32::MAX));
        }
        self.too_many.1
    }

    fn settle(&mut self) {
        let mut sorted = std::mem::take(&mut self.learning);
        sorted.sort_by(f64::total_cmp);
        self.mean = sorted.iter().sum::<f64>() / sorted.len().max(1) as f64;
        let above = sorted.len() / ABOVE_ONE_IN;
        // The `rank`-th largest.
        self.limit = sorted.len().checked_sub(above.max(1)).map_or(f64::MAX, |at| sorted[at]);
        self.rank = above.max(1) as u32;
        (self.count, self.too_many) = (sorted.len() as u32, (0, u32::MAX));
    }

    fn judge(&mut self, window: &Requests, least: f64, probability: f64) -> Judged {
        let slowdown = window.ns.iter().sum::<f64>() / window.ns.len().max(1) as f64 / self.mean;
        if window.ns.is_empty() || !slowdown.is_finite() {
            return Judged { slowdown: 1.0, is_contended: false };
        }
        let above = window.ns.iter().filter(|ns| **ns > self.limit).count() + window.missed;
        let all = window.ns.len() + window.missed;
        let is_rare = above as u32 >= self.too_many(all as u32, probability);
        Judged { slowdown, is_contended: is_rare && slowdown >= 1.0 + least }
    }
}

/// An event that is not over.
#[derive(Debug, Clone)]
struct Event {
    quiet: u32,
    /// Sums of the logarithms of the slowdowns of the contended windows, by resource, and how many.
    logs: Vec<f64>,
    windows: u32,
}

impl Event {
    fn slowdowns(&self) -> Vec<f64> {
        let windows = f64::from(self.windows.max(1));
        self.logs.iter().map(|sum| (sum / windows).exp()).collect()
    }

    fn add(&mut self, judged: &[Judged]) {
        self.quiet = 0;
        self.windows += 1;
        for (sum, one) in self.logs.iter_mut().zip(judged) {
            *sum += one.slowdown.max(f64::MIN_POSITIVE).ln();
        }
    }
}

/// Judges windows one after the other.
#[derive(Debug, Clone)]
pub struct Detector {
    rule: Rule,
    baselines: Vec<Baseline>,
    left_to_learn: u32,
    faster: u32,
    event: Option<Event>,
    learned_before: bool,
}

impl Detector {
    pub fn new(rule: Rule, resources: usize) -> Self {
        Self {
            rule,
            baselines: vec![Baseline::default(); resources],
            left_to_learn: rule.learned,
            faster: 0,
            event: None,
            learned_before: false,
        }
    }

    pub const fn is_learning(&self) -> bool {
        self.left_to_learn > 0
    }

    /// Takes the next window; its resources are those of all windows, in their order.
    pub fn take(&mut self, window: &[Requests]) -> (Vec<Judged>, Option<Change>) {
        if self.is_learning() {
            return (Vec::new(), self.learn(window));
        }
        let tests_a_day = DAY_NS / self.rule.window_ns as f64 * self.baselines.len() as f64;
        let probability = self.rule.alarms_per_day / tests_a_day;
        let both = self.baselines.iter_mut().zip(window);
        let judge = |(own, one): (&mut Baseline, _)| own.judge(one, self.rule.least, probability);
        let judged: Vec<Judged> = both.map(judge).collect();
        let change = self.follow(&judged).or_else(|| self.compare(&judged));
        (judged, change)
    }

    fn learn(&mut self, window: &[Requests]) -> Option<Change> {
        for (own, one) in self.baselines.iter_mut().zip(window) {
            own.learning.extend(&one.ns);
        }
        self.left_to_learn -= 1;
        if self.is_learning() {
            return None;
        }
        self.baselines.iter_mut().for_each(Baseline::settle);
        Some(Change::Learned { again: std::mem::replace(&mut self.learned_before, true) })
    }

    /// Begins, continues or ends an event.
    fn follow(&mut self, judged: &[Judged]) -> Option<Change> {
        let is_contended = judged.iter().any(|one| one.is_contended);
        let Some(event) = &mut self.event else {
            if !is_contended {
                return None;
            }
            let mut event = Event { quiet: 0, logs: vec![0.0; judged.len()], windows: 0 };
            event.add(judged);
            self.event = Some(event);
            return Some(Change::Contended);
        };
        if is_contended {
            event.add(judged);
            return None;
        }
        event.quiet += 1;
        if event.quiet < QUIET { None } else { self.end() }
    }

    /// Whether the device has become faster than what was learned; then it is learned again.
    fn compare(&mut self, judged: &[Judged]) -> Option<Change> {
        let is_faster = judged.iter().any(|one| one.slowdown < 1.0 / (1.0 + self.rule.least));
        self.faster = if is_faster && self.event.is_none() { self.faster + 1 } else { 0 };
        if self.faster < FASTER {
            return None;
        }
        self.faster = 0;
        self.left_to_learn = self.rule.learned;
        Some(Change::Faster)
    }

    /// Ends an event that is under way, at the end of the watch too.
    pub fn end(&mut self) -> Option<Change> {
        Some(Change::Over(self.event.take()?.slowdowns()))
    }

    /// The learned mean of each resource, in nanoseconds.
    pub fn means(&self) -> Vec<f64> {
        self.baselines.iter().map(|own| own.mean).collect()
    }

    /// The slowdowns of the event under way.
    pub fn contended(&self) -> Option<Vec<f64>> {
        self.event.as_ref().map(Event::slowdowns)
    }
}

#[cfg(test)]
mod tests {
    use gpubench_stats::ScheduleRng;

    use super::{Change, Detector, Requests, Rule};

    const RULE: Rule =
        Rule { window_ns: 5_000_000_000, learned: 24, least: 0.1, alarms_per_day: 1.0 };
    const RESOURCES: usize = 6;
    const REQUESTS: usize = 50;

    /// Requests with a heavy tail, slower by `factor` in one resource.
    fn window(rng: &mut ScheduleRng, slow: usize, factor: f64) -> Vec<Requests> {
        let one = |rng: &mut ScheduleRng| 100.0 + 20.0 / rng.uniform().max(1e-3).sqrt();
        (0..RESOURCES)
            .map(|at| {
                let factor = if at == slow { factor } else { 1.0 };
                let ns = (0..REQUESTS).map(|_| factor * one(rng)).collect();
                Requests { ns, missed: 0 }
            })
            .collect()
    }

    fn learned(rng: &mut ScheduleRng) -> Detector {
        let mut detector = Detector::new(RULE, RESOURCES);
        for at in 0..RULE.learned {
            let (_, change) = detector.take(&window(rng, 0, 1.0));
            let is_last = at + 1 == RULE.learned;
            assert_eq!(change, is_last.then_some(Change::Learned { again: false }));
        }
        detector
    }

    /// Without the least slowdown the rate is that of the test alone.
    #[test]
    fn equal_requests_raise_no_more_false_alarms_than_stated() {
        let mut rng = ScheduleRng::new(7);
        // Far more than by default, so that there are enough to count.
        let rule = Rule { least: -1.0, alarms_per_day: 24.0, ..RULE };
        let days = 3;
        let mut alarms = 0;
        // Each with a baseline of its own: one that is learned by chance counts once.
        for _ in 0..days * 24 {
            let mut detector = Detector { rule, ..learned(&mut rng) };
            for _ in 0..720 {
                let (_, change) = detector.take(&window(&mut rng, 0, 1.0));
                alarms += u32::from(matches!(change, Some(Change::Contended)));
                // Every window is faster than this rule's least slowdown.
                detector.faster = 0;
            }
        }
        let stated = 24 * days;
        assert!((stated / 4..=stated + stated / 2).contains(&alarms), "{alarms} of {stated}");
    }

    #[test]
    fn one_request_that_takes_the_whole_window_is_contention_of_its_resource_alone() {
        let mut rng = ScheduleRng::new(3);
        let mut detector = learned(&mut rng);
        let mut stuck = window(&mut rng, 0, 1.0);
        for one in &mut stuck {
            one.ns.truncate(1);
            one.missed = REQUESTS - 1;
        }
        stuck[3].ns[0] = 5e9;
        let (judged, change) = detector.take(&stuck);
        assert_eq!(change, Some(Change::Contended));
        let contended: Vec<bool> = judged.iter().map(|one| one.is_contended).collect();
        assert_eq!(contended, [false, false, false, true, false, false]);
    }

    #[test]
    fn a_neighbour_is_named_with_its_windows_and_an_early_one_is_learned_anew() {
        let mut rng = ScheduleRng::new(1);
        let mut detector = learned(&mut rng);
        let mut seen = Vec::new();
        for at in 24..60 {
            let factor = if (30..40).contains(&at) { 1.3 } else { 1.0 };
            let (_, change) = detector.take(&window(&mut rng, 2, factor));
            seen.extend(change.map(|change| (at, change)));
        }
        // Two windows without contention end it.
        let [(30, Change::Contended), (41, Change::Over(found))] = &seen[..] else {
            panic!("{seen:?}");
        };
        for (at, slowdown) in found.iter().enumerate() {
            let planted = if at == 2 { 1.3 } else { 1.0 };
            assert!((slowdown - planted).abs() < 0.1, "{found:?}");
        }
        let mut changes = Vec::new();
        for _ in 0..40 {
            changes.extend(detector.take(&window(&mut rng, 4, 0.6)).1);
        }
        assert_eq!(changes, [Change::Faster, Change::Learned { again: true }]);
        assert_eq!(detector.end(), None);
    }
}
