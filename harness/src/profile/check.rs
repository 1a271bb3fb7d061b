//! Rules that no type can express: bounds, orders between keys, names that catalogues know.

use super::error::Fault;
use super::units::Span;
use super::{CellParts, Profile, Wanted};
use crate::{axis, catalogue};

/// Blocks below which nothing may be decided: rank and sign-flip tests cannot reach p < 0.01, and
/// a stopping rule with fewer undercovers.
const BLOCKS_MIN_DECIDING: u32 = 8;
/// Blocks below which not even a smoke run has an interval worth printing.
const BLOCKS_MIN: u32 = 6;
const BLOCKS_MAX: u32 = 1_000;
const TENANTS_MAX: u32 = 48;
/// More would tell a proportion to better than a thousandth, and last for weeks.
pub const TRIALS_MAX: u32 = 10_000;
const CELL_PART_MAX: Span = Span::from_s(3_600);
/// A closed loop must hold at least this many native requests for a rate.
const CLOSED_REQUESTS_MIN: u64 = 20;

/// The first rule that the profile breaks.
pub(super) fn check(profile: &Profile) -> Result<(), Fault> {
    names(
        "mechanisms",
        "mechanism",
        &profile.mechanisms,
        catalogue::names(),
    )?;
    names("axes", "axis", &profile.axes, &axis::known_names())?;
    names("victims", "victim", &profile.victims, &axis::victims())?;
    names(
        "aggressors",
        "aggressor",
        &profile.aggressors,
        &axis::aggressors(),
    )?;
    numbers(profile)?;
    neighbours(profile)?;
    sweep(profile)?;
    bursts(profile)?;
    within("faults.trials", profile.faults.trials, 1, TRIALS_MAX)?;
    doses(&profile.doses)?;
    blocks(profile)?;
    cells(profile)?;
    options(profile)?;
    thresholds(profile)
}

fn options(profile: &Profile) -> Result<(), Fault> {
    let command = &profile.foreign.command;
    if command.contains('\0') || (!command.is_empty() && command.trim().is_empty()) {
        let accepted = "a shell command; \"\" for no program of one's own";
        return Err(Fault::at("foreign.command", "no command", accepted));
    }
    let (least, most) = (Span::from_s(1), Span::from_s(3_600));
    within("foreign.ready", profile.foreign.ready, least, most)?;
    for (key, pct) in [
        ("mps-quota.pct", profile.mps_quota.pct),
        ("mps-quota.memory_pct", profile.mps_quota.memory_pct),
        ("mps-memory.memory_pct", profile.mps_memory.memory_pct),
        ("hami.memory_pct", profile.hami.memory_pct),
        ("hami.sm_pct", profile.hami.sm_pct),
    ] {
        within(key, pct, 1, 100)?;
    }
    within("mps-static.chunks", profile.mps_static.chunks, 0, 64)?;
    for (key, layout) in [
        ("mig.layout", &profile.mig.layout),
        ("mig-mps.layout", &profile.mig_mps.layout),
    ] {
        let size = |name: &str| {
            let digits = name.split('g').next().unwrap_or_default();
            name.contains('g') && !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
        };
        // Profile names have a plus sign of their own: 1g.10gb+me.
        let sizes = layout.split('+').filter(|part| !part.starts_with("me"));
        if layout != "auto" && !sizes.clone().all(size) {
            let accepted = "auto, or sizes such as 3g+3g, 3g.40gb+4g.40gb";
            return Err(Fault::at(
                key,
                format!("\"{layout}\" is no layout"),
                accepted,
            ));
        }
    }
    Ok(())
}

fn names(key: &str, kind: &str, wanted: &Wanted, known: &[&str]) -> Result<(), Fault> {
    let Wanted::Names(names) = wanted else {
        return Ok(());
    };
    if names.is_empty() {
        return Err(Fault::at(
            key,
            "an empty list",
            format!("\"all\", {}", known.join(", ")),
        ));
    }
    for (index, name) in names.iter().enumerate() {
        let problem = if !known.contains(&name.as_str()) {
            format!("unknown {kind} \"{name}\"")
        } else if names[..index].contains(name) {
            format!("{kind} \"{name}\" stands there twice")
        } else {
            continue;
        };
        return Err(Fault::at(key, problem, known.join(", ")).element(index));
    }
    Ok(())
}

fn numbers(profile: &Profile) -> Result<(), Fault> {
    within("tenants", profile.tenants, 2, TENANTS_MAX)?;
    within(
        "service",
        profile.service,
        Span::from_ns(10_000),
        Span::from_s(1),
    )?;
    within("slo", profile.slo, Span::from_ns(0), Span::from_s(60))?;
    if !(profile.slo_share > 0.0 && profile.slo_share < 1.0) {
        let problem = format!("{} is no share", profile.slo_share);
        return Err(Fault::at("slo_share", problem, "above 0 and below 1"));
    }
    within(
        "device_time",
        profile.device_time,
        Span::from_s(1),
        Span::from_s(7 * 24 * 3_600),
    )?;
    within(
        "telemetry_period",
        profile.telemetry_period,
        Span::from_ms(10),
        Span::from_s(60),
    )?;
    windows(&profile.probe_windows)?;
    if profile.load > 0.0 && profile.load <= 1.0 {
        return Ok(());
    }
    Err(Fault::at(
        "load",
        format!("{} is no load", profile.load),
        "above 0 and at most 1",
    ))
}

/// Longer windows are made of the shortest.
fn windows(windows: &[Span]) -> Result<(), Fault> {
    const KEY: &str = "probe_windows";
    const ACCEPTED: &str = "\"5ms\" to \"10s\", each once, all multiples of the shortest";
    let Some(shortest) = windows.iter().min() else {
        return Err(Fault::at(KEY, "an empty list", ACCEPTED));
    };
    for (index, window) in windows.iter().enumerate() {
        let fits = (Span::from_ms(5)..=Span::from_s(10)).contains(window);
        let whole = fits && window.ns.is_multiple_of(shortest.ns);
        if !whole || windows[..index].contains(window) {
            let fault = Fault::at(KEY, format!("{window} is no window here"), ACCEPTED);
            return Err(fault.element(index));
        }
    }
    Ok(())
}

/// What a neighbour does that is none of the catalogue's.
const AGGRESSOR: &str = "aggressor";
const PEER: &str = "peer";

fn neighbours(profile: &Profile) -> Result<(), Fault> {
    const KEY: &str = "neighbours";
    let words = &profile.neighbours;
    if words.first().is_none_or(|first| first != AGGRESSOR) {
        let problem = "the first neighbour runs the aggressor that a cell is about";
        let accepted = "a list that begins with \"aggressor\"";
        return Err(Fault::at(KEY, problem, accepted));
    }
    let others = profile.tenants.saturating_sub(1) as usize;
    if words.len() > others {
        let problem = format!("{} words for {others} neighbours", words.len());
        return Err(Fault::at(KEY, problem, format!("at most {others}")).bound_by("tenants"));
    }
    let aggressors = axis::aggressors();
    for (index, word) in words.iter().enumerate() {
        let foreign = word == PEER && profile.foreign.victim().is_some();
        let problem = if foreign {
            "a program of one's own has no peers".to_owned()
        } else if [AGGRESSOR, PEER].contains(&word.as_str()) || aggressors.contains(&word.as_str())
        {
            continue;
        } else {
            format!("no neighbour does \"{word}\"")
        };
        let accepted = format!("{AGGRESSOR}, {PEER}, {}", aggressors.join(", "));
        let fault = Fault::at(KEY, problem, accepted).element(index);
        return Err(if foreign {
            fault.bound_by("foreign.command")
        } else {
            fault
        });
    }
    Ok(())
}

fn sweep(profile: &Profile) -> Result<(), Fault> {
    let most = profile.tenants.saturating_sub(1);
    let mut before = 1;
    for (index, &tenants) in profile.sweep.iter().enumerate() {
        if tenants <= before || tenants > most {
            let problem = format!("{tenants} tenants");
            let accepted = format!("rising numbers from 2 to {most}, below tenants");
            let fault = Fault::at("sweep", problem, accepted).element(index);
            return Err(fault.bound_by("tenants"));
        }
        before = tenants;
    }
    Ok(())
}

fn bursts(profile: &Profile) -> Result<(), Fault> {
    let bursts = profile.bursts;
    if !(0.0..=10_000.0).contains(&bursts.requests) {
        let problem = format!("{} is no size of a burst", bursts.requests);
        return Err(Fault::at("bursts.requests", problem, "0 to 10000"));
    }
    if bursts.requests > 0.0 && !(bursts.peak > 1.0 && bursts.peak <= 1_000.0) {
        let problem = format!("{} is no peak", bursts.peak);
        let fault = Fault::at("bursts.peak", problem, "above 1 and at most 1000");
        return Err(fault.bound_by("bursts.requests"));
    }
    Ok(())
}

fn doses(doses: &[f64]) -> Result<(), Fault> {
    for (index, &dose) in doses.iter().enumerate() {
        if !(dose > 0.0 && dose <= 1.0) {
            let fault = Fault::at(
                "doses",
                format!("{dose} is no dose"),
                "above 0 and at most 1",
            );
            return Err(fault.element(index));
        }
        if index > 0 && doses[index - 1] >= dose {
            let fault = Fault::at(
                "doses",
                "not in rising order",
                "each dose once, smallest first",
            );
            return Err(fault.element(index));
        }
    }
    // Scores are taken at full dose; being the greatest possible it is the last.
    if doses.last() == Some(&1.0) {
        return Ok(());
    }
    Err(Fault::at(
        "doses",
        "1.0 is missing",
        "a list that ends in 1.0, where scores are taken",
    ))
}

fn blocks(profile: &Profile) -> Result<(), Fault> {
    let (floor, why) = if profile.decides {
        (BLOCKS_MIN_DECIDING, "or 6 and more with decides = false")
    } else {
        (BLOCKS_MIN, "in a profile that decides nothing")
    };
    let bounds = profile.blocks;
    if bounds.min < floor || bounds.min > BLOCKS_MAX {
        let accepted = format!("{floor} to {BLOCKS_MAX}, {why}");
        let fault = Fault::at("blocks.min", format!("{} blocks", bounds.min), accepted);
        return Err(fault.bound_by("decides"));
    }
    if bounds.max < bounds.min || bounds.max > BLOCKS_MAX {
        let accepted = format!("{} (blocks.min) to {BLOCKS_MAX}", bounds.min);
        let fault = Fault::at("blocks.max", format!("{} blocks", bounds.max), accepted);
        return Err(fault.bound_by("blocks.min"));
    }
    Ok(())
}

fn cells(profile: &Profile) -> Result<(), Fault> {
    let parts = |parts: &CellParts| [parts.warmup, parts.closed, parts.gap, parts.open];
    let names = ["warmup", "closed", "gap", "open"];
    let closed_min = Span::from_ns(profile.service.ns.saturating_mul(CLOSED_REQUESTS_MIN));
    let tables = names.iter().zip(
        parts(&profile.cell_min)
            .into_iter()
            .zip(parts(&profile.cell)),
    );
    for (name, (least, full)) in tables {
        let floor = match *name {
            "closed" => closed_min,
            "open" => profile.service,
            _ => Span::from_ns(0),
        };
        let (least_key, full_key) = (format!("cell_min.{name}"), format!("cell.{name}"));
        within(&least_key, least, floor, CELL_PART_MAX).map_err(|f| f.bound_by("service"))?;
        within(&full_key, full, least, CELL_PART_MAX).map_err(|f| f.bound_by(&least_key))?;
    }
    Ok(())
}

fn thresholds(profile: &Profile) -> Result<(), Fault> {
    let t = &profile.thresholds;
    for (name, value) in [
        ("retention_l3", t.retention_l3),
        ("retention_l2", t.retention_l2),
        ("guarantee_l3", t.guarantee_l3),
        ("index_l1", t.index_l1),
        ("effectiveness_max", t.effectiveness_max),
        ("overlap_min", t.overlap_min),
    ] {
        if !(value > 0.0 && value < 1.0) {
            let key = format!("thresholds.{name}");
            return Err(Fault::at(
                &key,
                format!("{value} is no bound"),
                "above 0 and below 1",
            ));
        }
    }
    for (name, value) in [
        ("jitter_negligible", t.jitter_negligible),
        ("drift_max", t.drift_max),
    ] {
        if !(value > 0.0 && value.is_finite()) {
            let key = format!("thresholds.{name}");
            return Err(Fault::at(
                &key,
                format!("{value} is no bound"),
                "a number above 0",
            ));
        }
    }
    rising(
        "retention_l3",
        t.retention_l3,
        "retention_l2",
        t.retention_l2,
    )?;
    rising(
        "jitter_low_medium",
        t.jitter_low_medium,
        "jitter_negligible",
        t.jitter_negligible,
    )?;
    within(
        "thresholds.blocks_min",
        t.blocks_min,
        BLOCKS_MIN_DECIDING,
        BLOCKS_MAX,
    )?;
    // The smallest sample with a finite two-sided 95 % upper bound of its p99.
    within(
        "thresholds.jitter_requests_min",
        t.jitter_requests_min,
        368,
        1_000_000,
    )
}

fn rising(upper: &str, above: f64, lower: &str, below: f64) -> Result<(), Fault> {
    if above > below && above.is_finite() {
        return Ok(());
    }
    let accepted = format!("a number above thresholds.{lower}, which is {below}");
    let key = format!("thresholds.{upper}");
    let fault = Fault::at(&key, format!("{above} is too low"), accepted);
    Err(fault.bound_by(&format!("thresholds.{lower}")))
}

fn within<T: PartialOrd + std::fmt::Display>(
    key: &str,
    value: T,
    least: T,
    most: T,
) -> Result<(), Fault> {
    let problem = if value < least {
        format!("{value} is too little")
    } else if value > most {
        format!("{value} is too much")
    } else {
        return Ok(());
    };
    Err(Fault::at(key, problem, format!("{least} to {most}")))
}
