//! What ways past a limit came to: by how much of it each escaped, or that it was contained.

use gpubench_record::{
    BypassWay, EscapeGot, EscapeWay, Estimate, ProbeFigure, ProbeFound, ProbeResult,
};
use gpubench_stats::{Confidence, serial};

use super::super::figures::printed;
use super::Out;

/// What a limit of memory lets through without being none: as for the level of a cap.
const MEMORY_OVER: f64 = 0.01;
/// What a limiter of compute may be off by: those that act by measuring overshoot a little.
const COMPUTE_OVER: f64 = 0.10;
/// Memory that takes place on the device only once the device touches it.
const MANAGED: &str = "cuMemAllocManaged";

const UNIT: &str = "over the limit";

/// Verdicts on a way.
const ESCAPED: &str = "escaped";
const CONTAINED: &str = "contained";
const UNCLEAR: &str = "unclear";
const NOT_JUDGED: &str = "not judged: untouched, it may take no device memory";

/// A figure for each way that could be tried.
pub(super) fn figures(
    out: &mut Out<'_>,
    limit_bytes: Option<u64>,
    in_use_bytes: u64,
    limit_ppm: Option<u32>,
    ways: &[EscapeWay],
) {
    for way in ways {
        let judged = match &way.got {
            EscapeGot::Memory { bytes, rounds } => limit_bytes.map(|limit| {
                let (estimate, verdict) = memory(*bytes, in_use_bytes, limit, *rounds);
                let is_managed = way.way == MANAGED && verdict == ESCAPED;
                let verdict = if is_managed { NOT_JUDGED } else { verdict };
                ("memory/cap", estimate, verdict)
            }),
            EscapeGot::Compute { share_ppm } => limit_ppm
                .and_then(|limit| compute(share_ppm, limit))
                .map(|(estimate, verdict)| ("compute/sm", estimate, verdict)),
            EscapeGot::Untried => None,
        };
        if let Some((explains, estimate, verdict)) = judged {
            out.figures.push(ProbeFigure {
                variant: out.variant.to_owned(),
                figure: way.way.clone(),
                explains: Some(explains.to_owned()),
                verdict: Some(verdict.to_owned()),
                estimate,
            });
        }
    }
}

fn memory(
    (least, most): (u64, u64),
    in_use: u64,
    limit: u64,
    rounds: u32,
) -> (Estimate, &'static str) {
    let over = |bytes: u64| (bytes + in_use) as f64 / limit.max(1) as f64 - 1.0;
    let estimate = Estimate {
        value: over(most),
        lo: over(least),
        hi: over(most),
        n: rounds,
        unit: UNIT.to_owned(),
    };
    let verdict = if over(most) > MEMORY_OVER {
        ESCAPED
    } else {
        CONTAINED
    };
    (estimate, verdict)
}

/// Too few windows for an interval are no figure.
fn compute(share_ppm: &[u32], limit_ppm: u32) -> Option<(Estimate, &'static str)> {
    let over = |&ppm: &u32| f64::from(ppm) / f64::from(limit_ppm.max(1)) - 1.0;
    let shares: Vec<f64> = share_ppm.iter().map(over).collect();
    let found = serial::interval(&shares, 0.5, Confidence::P95).ok()?;
    let verdict = if found.lo > COMPUTE_OVER {
        ESCAPED
    } else if found.hi <= COMPUTE_OVER {
        CONTAINED
    } else {
        UNCLEAR
    };
    Some((printed(found, UNIT), verdict))
}

/// What is said of a word that rests on no bypass: which ways of an axis escaped under a variant.
/// Nothing where none was tried.
pub(in crate::score) fn bypass(
    probes: &[ProbeResult],
    variant: &str,
    axis: &str,
) -> Option<(bool, String)> {
    let mut figures = Vec::new();
    let (mut untried, is_memory) = (Vec::new(), axis == "memory");
    for probe in probes.iter().filter(|probe| probe.variant == variant) {
        let ProbeFound::Escape {
            limit_bytes,
            in_use_bytes,
            limit_ppm,
            ways,
        } = &probe.found
        else {
            continue;
        };
        let mut out = Out {
            variant,
            figures: &mut figures,
        };
        self::figures(&mut out, *limit_bytes, *in_use_bytes, *limit_ppm, ways);
        let left = ways.iter().filter(|way| way.got == EscapeGot::Untried);
        untried.extend(left.filter(|way| submits_work(&way.way) != is_memory));
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
        format!("bypass: 0 of {} ways escaped", tried.len())
    } else {
        let (count, names) = (escaped.len(), escaped.join("; "));
        format!("bypass: {count} of {} ways escaped: {names}", tried.len())
    };
    for way in untried {
        text.push_str(&format!("; not tried: {} ({})", way.way, way.evidence));
    }
    Some((!escaped.is_empty(), text))
}

/// Whether a way is one to submit work; every other takes memory.
fn submits_work(way: &str) -> bool {
    BypassWay::ALL
        .iter()
        .any(|known| way.starts_with(known.as_str()))
}

#[cfg(test)]
mod tests {
    use gpubench_record::{EscapeGot, EscapeWay, ProbeFound, ProbeResult};

    use super::{CONTAINED, ESCAPED, UNCLEAR, bypass, compute, memory};

    const GIB: u64 = 1 << 30;

    #[test]
    fn what_is_within_the_limit_is_contained() {
        for (most, in_use, verdict) in [
            (10 * GIB, 0, CONTAINED),
            (9 * GIB, GIB, CONTAINED),
            (10 * GIB, GIB, ESCAPED),
            (0, 0, CONTAINED),
        ] {
            assert_eq!(
                memory((most, most), in_use, 10 * GIB, 3).1,
                verdict,
                "{most}"
            );
        }
        for (share, verdict) in [
            ([500_000; 6], Some(CONTAINED)),
            ([540_000; 6], Some(CONTAINED)),
            ([990_000; 6], Some(ESCAPED)),
            (
                [400_000, 500_000, 500_000, 600_000, 600_000, 700_000],
                Some(UNCLEAR),
            ),
        ] {
            assert_eq!(
                compute(&share, 500_000).map(|found| found.1),
                verdict,
                "{share:?}"
            );
        }
        assert!(
            compute(&[990_000; 3], 500_000).is_none(),
            "too few for an interval"
        );
    }

    #[test]
    fn a_bypass_says_who_escaped_and_what_was_not_tried() {
        let way = |way: &str, got| EscapeWay {
            way: way.to_owned(),
            got,
            evidence: "refused with 801".to_owned(),
        };
        let bytes = |bytes| EscapeGot::Memory {
            bytes: (bytes, bytes),
            rounds: 3,
        };
        let found = ProbeFound::Escape {
            limit_bytes: Some(10 * GIB),
            in_use_bytes: 0,
            limit_ppm: None,
            ways: vec![
                way("cuMemAlloc", bytes(10 * GIB)),
                way("cuArrayCreate", bytes(20 * GIB)),
                way("cuMemCreate", EscapeGot::Untried),
                way("cuGraphAddMemAllocNode", EscapeGot::Untried),
                way("cuGraphLaunch", EscapeGot::Untried),
            ],
        };
        let probes = [ProbeResult {
            variant: "hami".to_owned(),
            found,
        }];
        let text = "bypass: 1 of 2 ways escaped: cuArrayCreate; not tried: cuMemCreate \
                    (refused with 801); not tried: cuGraphAddMemAllocNode (refused with 801)";
        assert_eq!(
            bypass(&probes, "hami", "memory"),
            Some((true, text.to_owned()))
        );
        assert_eq!(bypass(&probes, "hami", "compute"), None);
        assert_eq!(bypass(&probes, "mps", "memory"), None);
    }
}
