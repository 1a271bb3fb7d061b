//! Routes past a limit: by how much of the limit each escaped, or that it was contained.

use gpubench_record::{
    Ends, EscapeOutcome, EscapeRoute, Estimate, ProbeFigure, ProbeFound, ProbeResult, SubmitRoute,
};
use gpubench_stats::{Confidence, ratio, serial};

use super::Out;
use super::share::relative;
use crate::figures::printed;

/// Tolerance of a memory limit, as for the level of a cap.
const MEMORY_OVER: f64 = 0.01;
/// Tolerance of a compute limit: limiters that act on measurements overshoot a little.
const COMPUTE_OVER: f64 = 0.10;
/// This call allocates device memory only when the device touches it.
const MANAGED: &str = "cuMemAllocManaged";

const UNIT: &str = "over the limit";

const ESCAPED: &str = "escaped";
const CONTAINED: &str = "contained";
const UNCLEAR: &str = "unclear";
const NOT_JUDGED: &str = "not judged: untouched, it may take no device memory";

/// A figure for each route that could be tried.
pub(super) fn figures(
    out: &mut Out<'_>,
    limit_bytes: Option<u64>,
    in_use_bytes: u64,
    limit_ppm: Option<u32>,
    routes: &[EscapeRoute],
) {
    for route in routes {
        let judged = match &route.outcome {
            EscapeOutcome::Memory { bytes, rounds } => limit_bytes.map(|limit| {
                let (estimate, verdict) = memory(*bytes, in_use_bytes, limit, *rounds);
                let is_managed = route.route == MANAGED && verdict == ESCAPED;
                let verdict = if is_managed { NOT_JUDGED } else { verdict };
                ("memory/cap", estimate, verdict)
            }),
            EscapeOutcome::Compute { share_ppm, native_ppm } => limit_ppm
                .and_then(|limit| compute(share_ppm, native_ppm, limit))
                .map(|(estimate, verdict)| ("compute/sm", estimate, verdict)),
            EscapeOutcome::Untried => None,
        };
        if let Some((explains, estimate, verdict)) = judged {
            out.figures.push(ProbeFigure {
                variant: out.variant.to_owned(),
                figure: route.route.clone(),
                explains: Some(explains.to_owned()),
                verdict: Some(verdict.to_owned()),
                estimate,
            });
        }
    }
}

fn memory(
    (min, max): (u64, u64),
    in_use: u64,
    limit: u64,
    rounds: u32,
) -> (Estimate, &'static str) {
    let over = |bytes: u64| (bytes + in_use) as f64 / limit.max(1) as f64 - 1.0;
    let estimate = Estimate {
        value: over(max),
        lo: over(min),
        hi: over(max),
        ends: Ends::Range,
        parts: None,
        n: rounds,
        unit: UNIT.to_owned(),
    };
    let verdict = if over(max) > MEMORY_OVER { ESCAPED } else { CONTAINED };
    (estimate, verdict)
}

/// Too few windows for an interval give no figure. The doubt of the denominator is in the interval;
/// records of format 1.0 do not have it.
fn compute(
    share_ppm: &[u32],
    native_ppm: &[u32],
    limit_ppm: u32,
) -> Option<(Estimate, &'static str)> {
    let figures = |ppm: &[u32]| -> Vec<f64> { ppm.iter().map(|&ppm| f64::from(ppm)).collect() };
    let mut found = serial::interval(&figures(share_ppm), 0.5, Confidence::P95).ok()?;
    if !native_ppm.is_empty() {
        found = ratio::ratio(found, relative(&figures(native_ppm))?).ok()?;
    }
    let over = |ppm: f64| ppm / f64::from(limit_ppm.max(1)) - 1.0;
    let found = found.map_increasing(over).ok()?;
    let verdict = if found.lo > COMPUTE_OVER {
        ESCAPED
    } else if found.hi <= COMPUTE_OVER {
        CONTAINED
    } else {
        UNCLEAR
    };
    Some((printed(found, UNIT), verdict))
}

/// Whether a route of an axis escaped under a variant, with a text that names the routes. `None`
/// where no route was tried.
pub(in crate::score) fn bypass(
    probes: &[ProbeResult],
    variant: &str,
    axis: &str,
) -> Option<(bool, String)> {
    let mut figures = Vec::new();
    let (mut untried, is_memory) = (Vec::new(), axis == "memory");
    for probe in probes.iter().filter(|probe| probe.variant == variant) {
        let ProbeFound::Escape { limit_bytes, in_use_bytes, limit_ppm, routes } = &probe.found
        else {
            continue;
        };
        let mut out = Out { variant, figures: &mut figures };
        self::figures(&mut out, *limit_bytes, *in_use_bytes, *limit_ppm, routes);
        let left = routes.iter();
        let left = left.filter(|route| route.outcome == EscapeOutcome::Untried);
        untried.extend(left.filter(|route| submits_work(&route.route) != is_memory));
    }
    let of_axis = |one: &&ProbeFigure| {
        let explains = one.explains.as_deref().unwrap_or_default();
        explains.split('/').next() == Some(axis)
    };
    let tried: Vec<&ProbeFigure> = figures.iter().filter(of_axis).collect();
    if tried.is_empty() {
        return None;
    }
    let escaped: Vec<&str> = tried
        .iter()
        .filter(|one| one.verdict.as_deref() == Some(ESCAPED))
        .map(|one| one.figure.as_str())
        .collect();
    let mut text = if escaped.is_empty() {
        format!("bypass: held against {} routes tried", tried.len())
    } else {
        let (count, names) = (escaped.len(), escaped.join("; "));
        format!("bypass: {count} of {} routes escaped: {names}", tried.len())
    };
    for route in untried {
        let EscapeRoute { route, evidence, .. } = route;
        text.push_str(&format!("; not tried: {route} ({evidence})"));
    }
    Some((!escaped.is_empty(), text))
}

/// Whether a route submits work; every other allocates memory.
fn submits_work(route: &str) -> bool {
    SubmitRoute::ALL.iter().any(|known| route.starts_with(known.as_str()))
}

#[cfg(test)]
mod tests {
    use gpubench_record::{EscapeOutcome, EscapeRoute, ProbeFound, ProbeResult};

    use super::{CONTAINED, ESCAPED, UNCLEAR, bypass, compute, memory};

    const GIB: u64 = 1 << 30;

    #[test]
    fn contains_routes_within_the_limit() {
        for (bytes, in_use, verdict) in [
            (10 * GIB, 0, CONTAINED),
            (9 * GIB, GIB, CONTAINED),
            (10 * GIB, GIB, ESCAPED),
            (0, 0, CONTAINED),
        ] {
            assert_eq!(memory((bytes, bytes), in_use, 10 * GIB, 3).1, verdict, "{bytes}");
        }
        for (share, verdict) in [
            ([500_000; 6], Some(CONTAINED)),
            ([540_000; 6], Some(CONTAINED)),
            ([990_000; 6], Some(ESCAPED)),
            ([400_000, 500_000, 500_000, 600_000, 600_000, 700_000], Some(UNCLEAR)),
        ] {
            assert_eq!(
                compute(&share, &[1_000_000; 6], 500_000).map(|found| found.1),
                verdict,
                "{share:?}"
            );
        }
        // The device alone differs by a tenth between windows: it is unclear what 60 % is over.
        let native = [900_000, 1_100_000, 900_000, 1_100_000, 900_000, 1_100_000];
        for (native, verdict) in [(&native[..], UNCLEAR), (&[][..], ESCAPED)] {
            let found = compute(&[570_000; 6], native, 500_000).map(|found| found.1);
            assert_eq!(found, Some(verdict), "{native:?}");
        }
        assert!(compute(&[990_000; 3], &[], 500_000).is_none(), "too few for an interval");
    }

    #[test]
    fn names_the_routes_that_escaped_and_those_not_tried() {
        let route = |route: &str, outcome| EscapeRoute {
            route: route.to_owned(),
            outcome,
            evidence: "refused with 801".to_owned(),
        };
        let bytes = |bytes| EscapeOutcome::Memory { bytes: (bytes, bytes), rounds: 3 };
        let found = ProbeFound::Escape {
            limit_bytes: Some(10 * GIB),
            in_use_bytes: 0,
            limit_ppm: None,
            routes: vec![
                route("cuMemAlloc", bytes(10 * GIB)),
                route("cuArrayCreate", bytes(20 * GIB)),
                route("cuMemCreate", EscapeOutcome::Untried),
                route("cuGraphAddMemAllocNode", EscapeOutcome::Untried),
                route("cuGraphLaunch", EscapeOutcome::Untried),
            ],
        };
        let probes = [ProbeResult { variant: "hami".to_owned(), took_ns: None, found }];
        let text = "bypass: 1 of 2 routes escaped: cuArrayCreate; not tried: cuMemCreate \
                    (refused with 801); not tried: cuGraphAddMemAllocNode (refused with 801)";
        assert_eq!(bypass(&probes, "hami", "memory"), Some((true, text.to_owned())));
        assert_eq!(bypass(&probes, "hami", "compute"), None);
        assert_eq!(bypass(&probes, "mps", "memory"), None);
    }
}
