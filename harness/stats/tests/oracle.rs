//! SciPy as the reference: t, Welch, Fieller, Clopper-Pearson, ranks of order statistics and
//! quantiles on random inputs.

mod reference;

use gpubench_stats::ratio;
use gpubench_stats::ratio::RatioSet;
use gpubench_stats::{
    Confidence, Estimate, NoEstimate, ScheduleRng, Sorted, proportion, quantile, student_t,
    two_sample,
};

const EACH: usize = 200;

/// Largest difference, relative to the figure where it is above 1.
const CLOSE: f64 = 1e-9;

/// A question to SciPy, and what this package answers; `None` where there is no bound.
struct Job {
    line: String,
    answer: Vec<Option<f64>>,
}

fn job(name: &str, series: &[&[f64]], answer: Vec<Option<f64>>) -> Job {
    let text = |one: &&[f64]| {
        let numbers: Vec<String> = one.iter().map(|value| format!("{value:e}")).collect();
        numbers.join(" ")
    };
    let series: Vec<String> = series.iter().map(text).collect();
    let line = format!("{name} {}\n", series.join(" | "));
    Job { line, answer }
}

struct Random(ScheduleRng);

impl Random {
    fn between(&mut self, lo: f64, hi: f64) -> f64 {
        lo + (hi - lo) * self.0.uniform()
    }

    fn whole(&mut self, lo: u32, hi: u32) -> u32 {
        // The range is far below 2^53.
        self.between(f64::from(lo), f64::from(hi) + 1.0).floor() as u32
    }

    fn series(&mut self, n: u32, centre: f64, spread: f64) -> Vec<f64> {
        let mut normal = || (0..12).map(|_| self.0.uniform()).sum::<f64>() - 6.0;
        (0..n).map(|_| centre + spread * normal()).collect()
    }
}

fn ends(found: &Estimate) -> [Option<f64>; 2] {
    [Some(found.lo), Some(found.hi)]
}

fn jobs() -> Result<Vec<Job>, NoEstimate> {
    let mut random = Random(ScheduleRng::new(17));
    let mut all = Vec::new();
    for _ in 0..EACH {
        let (p, df) = (random.between(1e-6, 1.0 - 1e-6), random.between(1.0, 300.0));
        let found = student_t::quantile(p, df)?;
        all.push(job("t-quantile", &[&[p, df]], vec![Some(found)]));
        let t = random.between(-30.0, 30.0);
        let found = student_t::two_sided_p(t, df)?;
        all.push(job("t-p", &[&[t, df]], vec![Some(found)]));

        let (m, n) = (random.whole(2, 20), random.whole(2, 20));
        let (spread, other) = (random.between(0.01, 2.0), random.between(0.01, 2.0));
        let (a, b) = (random.series(m, 0.0, spread), random.series(n, 1.0, other));
        let found = two_sample::welch(&a, &b)?;
        let interval = found.interval(Confidence::P95)?;
        let mut answer = vec![Some(found.value), Some(found.df), Some(found.two_sided_p()?)];
        answer.extend(ends(&interval));
        all.push(job("welch", &[&a, &b], answer));

        let n = random.whole(3, 20);
        // The denominator is far from zero, so that the set is an interval.
        let (x, y) = (random.series(n, -0.3, 0.05), random.series(n, -1.0, 0.02));
        for (name, found) in [
            ("fieller-paired", ratio::paired(&x, &y, Confidence::P95)?),
            ("fieller-independent", ratio::independent(&x, &y, Confidence::P95)?),
        ] {
            let RatioSet::Bounded(found) = found else { continue };
            let mut answer = vec![Some(found.value)];
            answer.extend(ends(&found));
            all.push(job(name, &[&x, &y], answer));
        }

        let trials = random.whole(1, 400);
        let good = random.whole(0, trials);
        let two = proportion::clopper_pearson(good, trials, Confidence::P95)?;
        let counts = [f64::from(good), f64::from(trials)];
        all.push(job("clopper-pearson", &[&counts], ends(&two).into()));

        let (n, p) = (random.whole(1, 2_000), random.between(0.01, 0.999));
        let found = quantile::ranks(n, p, Confidence::P95)?;
        let answer = [found.lower, found.upper].map(|rank| rank.map(f64::from));
        all.push(job("ranks", &[&[f64::from(n), p]], answer.into()));

        let n = random.whole(1, 60);
        let (values, p) = (random.series(n, 5.0, 3.0), random.between(0.0, 1.0));
        let sorted = Sorted::new(values.clone())?;
        let found = [sorted.linear(p)?, sorted.median_unbiased(p)?];
        all.push(job("quantile", &[&values, &[p]], found.map(Some).into()));
    }
    Ok(all)
}

#[test]
fn figures_on_random_inputs_equal_those_of_scipy() -> Result<(), Box<dyn std::error::Error>> {
    let Some(python) = reference::interpreter("not compared") else { return Ok(()) };
    let jobs = jobs()?;
    let lines: String = jobs.iter().map(|job| job.line.as_str()).collect();
    let text = reference::run(&python, "oracle_scipy.py", &[], lines)?;
    let answers: Vec<&str> = text.lines().collect();
    assert_eq!(answers.len(), jobs.len());
    for (job, line) in jobs.iter().zip(answers) {
        let expected = line.split(' ').map(|text| text.parse::<f64>().ok());
        let expected: Vec<Option<f64>> = expected.collect();
        assert_eq!(expected.len(), job.answer.len(), "{}", job.line);
        for (found, expected) in job.answer.iter().zip(&expected) {
            let is_close = match (found, expected) {
                (Some(found), Some(expected)) => {
                    (found - expected).abs() <= CLOSE * expected.abs().max(1.0)
                }
                (found, expected) => found == expected,
            };
            assert!(is_close, "{found:?} is not {expected:?}: {}", job.line);
        }
    }
    Ok(())
}
