//! Rules that types cannot express: bounds, order between keys, names from catalogues.

use gpubench_catalogue::{axis, mechanism};
use gpubench_profiles::PROFILES;

use super::error::{Fault, steps};
use super::load::{Overrides, built_in, parse};
use super::options::OptionTable;
use super::units::{Span, within};
use super::{CellParts, Profile, Wanted, tables};

/// Fewest blocks that a profile that decides plans. Three have an interval; eight have one half as
/// wide, and some are lost on a real host.
const BLOCKS_MIN_DECIDING: u32 = 8;
/// Fewest blocks of a profile that decides nothing.
const BLOCKS_MIN: u32 = 6;
const BLOCKS_MAX: u32 = 1_000;
const TENANTS_MAX: u32 = 48;
/// Most trials of each fault. More would resolve a proportion beyond a thousandth and take weeks.
pub const TRIALS_MAX: u32 = 10_000;
const CELL_PART_MAX: Span = Span::from_s(3_600);
/// A closed loop must hold at least this many native requests for a rate.
const CLOSED_REQUESTS_MIN: u64 = 20;

/// Reports the first rule that the profile breaks.
pub(super) fn check(profile: &Profile) -> Result<(), Fault> {
    names("mechanisms", "mechanism", &profile.mechanisms, &mechanism::all_names())?;
    names("axes", "axis", &profile.axes, &axis::known_names())?;
    names("victims", "victim", &profile.victims, &axis::victims())?;
    names("aggressors", "aggressor", &profile.aggressors, &axis::aggressors())?;
    names("jitter_pairs", "sub-axis", &profile.jitter_pairs, &jitter_sub_axes())?;
    numbers(profile)?;
    neighbours(profile)?;
    sweep(profile)?;
    bursts(profile)?;
    within("faults.trials", profile.faults.trials, 1, TRIALS_MAX)?;
    doses(&profile.doses)?;
    blocks(profile)?;
    cells(profile)?;
    tables::check_rotation(profile)?;
    tables::check_dimensions(profile)?;
    services(profile)?;
    options(profile)?;
    tables::check_thresholds(&profile.thresholds)?;
    tables::check_margins(&profile.margins)
}

/// The sub-axes whose victims have latencies.
fn jitter_sub_axes() -> Vec<&'static str> {
    let known = axis::known_names().into_iter();
    known.filter(|name| name.starts_with("compute/") || name.starts_with("bandwidth/")).collect()
}

/// Every table of options checks itself. A new field of the profile must be named here, or this
/// does not compile.
fn options(profile: &Profile) -> Result<(), Fault> {
    let Profile {
        name: _,
        run: _,
        version: _,
        summary: _,
        decides: _,
        mechanisms: _,
        axes: _,
        victims: _,
        aggressors: _,
        tenants: _,
        neighbours: _,
        sweep: _,
        pairs: _,
        depths: _,
        loads: _,
        events: _,
        shares: _,
        asked: _,
        share: _,
        seed: _,
        service: _,
        load: _,
        slo: _,
        slo_share: _,
        bursts: _,
        doses: _,
        rotation: _,
        open_loops: _,
        jitter_pairs: _,
        device_time: _,
        telemetry_period: _,
        meters: _,
        probe_windows: _,
        soak,
        blocks: _,
        cell: _,
        cell_min: _,
        faults: _,
        thresholds: _,
        margins: _,
        user_victim,
        time_slicing,
        time_slicing_capped,
        mps,
        mps_quota,
        mps_static,
        mps_memory,
        mig,
        mig_mps,
        hami,
    } = profile;
    time_slicing_capped.check("time-slicing-capped")?;
    mps_memory.check("mps-memory")?;
    let tables: [&dyn OptionTable; 9] =
        [soak, user_victim, time_slicing, mps, mps_quota, mps_static, mig, mig_mps, hami];
    tables.into_iter().try_for_each(OptionTable::check)
}

fn names(key: &str, kind: &str, wanted: &Wanted, known: &[&str]) -> Result<(), Fault> {
    let Wanted::Names(names) = wanted else {
        return Ok(());
    };
    if names.is_empty() {
        return Err(Fault::at(key, "an empty list", format!("\"all\", {}", known.join(", "))));
    }
    for (index, name) in names.iter().enumerate() {
        let of_known = name.split_once('[').filter(|(base, _)| known.contains(base));
        let problem = if let Some((base, options)) = of_known {
            let fault = match with_options(base, options.trim_end_matches(']')) {
                Ok(text) => {
                    let accepted = format!(
                        "{base}, with the options of [{base}] in the profile; others in a file, \
                         `printf '{text}' > options.toml`, with --profile options.toml"
                    );
                    Fault::at(key, format!("the profile has no {name}"), accepted)
                }
                Err(fault) => Fault { path: steps(key), ..fault },
            };
            return Err(fault.element(index));
        } else if !known.contains(&name.as_str()) {
            format!("unknown {kind} \"{name}\"")
        } else if names[..index].contains(name) {
            format!("{kind} \"{name}\" is listed twice")
        } else {
            continue;
        };
        return Err(Fault::at(key, problem, known.join(", ")).element(index));
    }
    Ok(())
}

/// The text of a profile with these options of a mechanism, which is read here. Its ends of lines
/// are written as `printf` reads them.
/// Fails where no profile can have them, with what is accepted.
fn with_options(base: &str, options: &str) -> Result<String, Fault> {
    let default = built_in(PROFILES[0].0, &Overrides::default());
    let tables = default.ok().and_then(|profile| serde_json::to_value(profile).ok());
    let table = tables.as_ref().and_then(|tables| tables.get(base)?.as_object());
    let keys: Vec<&String> = table.into_iter().flat_map(|table| table.keys()).collect();
    let mut lines = vec!["version = 1".to_owned(), format!("[{base}]")];
    for option in options.split(',') {
        let (short, value) = option.split_once('=').unwrap_or(("", option.trim_end_matches('%')));
        // A value alone is that of the one option with such a name, or a percentage of each.
        let alone = keys.iter().find(|key| ["pct", "layout"].contains(&key.as_str()));
        let is_meant = |key: &&&String| match short {
            "" => alone.map_or_else(|| key.ends_with("_pct"), |alone| *key == alone),
            short => key.trim_end_matches("_pct") == short || **key == short,
        };
        let own: Vec<&&String> = keys.iter().filter(is_meant).collect();
        if own.is_empty() {
            let known: Vec<&str> = keys.iter().map(|key| key.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let problem = format!("{base}[{options}] has no option \"{option}\"");
            return Err(Fault::at("", problem, format!("{base}, and as options {known}")));
        }
        let value = match value.parse::<i64>() {
            Ok(number) => number.to_string(),
            Err(_) => format!("{value:?}"),
        };
        lines.extend(own.iter().map(|key| format!("{key} = {value}")));
    }
    match parse("", &(lines.join("\n") + "\n"), &Overrides::default()) {
        Ok(_) => Ok(lines.join("\\n") + "\\n"),
        Err(error) => {
            let problem = format!("{base}: option {}: {}", error.key, error.problem);
            Err(Fault::at("", problem, error.accepted))
        }
    }
}

fn numbers(profile: &Profile) -> Result<(), Fault> {
    within("tenants", profile.tenants, 2, TENANTS_MAX)?;
    within("service", profile.service, Span::from_ns(10_000), Span::from_s(1))?;
    within("slo", profile.slo, Span::from_ns(0), Span::from_s(60))?;
    if !(profile.slo_share > 0.0 && profile.slo_share < 1.0) {
        let problem = format!("{} is out of range", profile.slo_share);
        return Err(Fault::at("slo_share", problem, "above 0 and below 1"));
    }
    within("device_time", profile.device_time, Span::from_s(1), Span::from_s(7 * 24 * 3_600))?;
    within("telemetry_period", profile.telemetry_period, Span::from_ms(10), Span::from_s(60))?;
    windows(&profile.probe_windows)?;
    if profile.load > 0.0 && profile.load <= 1.0 {
        return Ok(());
    }
    Err(Fault::at("load", format!("{} is out of range", profile.load), "above 0 and at most 1"))
}

/// Checks the windows of probes: longer ones are multiples of the shortest.
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
            let fault = Fault::at(KEY, format!("{window} is not accepted"), ACCEPTED);
            return Err(fault.element(index));
        }
    }
    Ok(())
}

fn bursts(profile: &Profile) -> Result<(), Fault> {
    let bursts = profile.bursts;
    if !(0.0..=10_000.0).contains(&bursts.requests) {
        let problem = format!("{} is out of range", bursts.requests);
        return Err(Fault::at("bursts.requests", problem, "0 to 10000"));
    }
    if bursts.requests > 0.0 && !(bursts.peak > 1.0 && bursts.peak <= 1_000.0) {
        let problem = format!("{} is out of range", bursts.peak);
        let fault = Fault::at("bursts.peak", problem, "above 1 and at most 1000");
        return Err(fault.bound_by("bursts.requests"));
    }
    Ok(())
}

fn doses(doses: &[f64]) -> Result<(), Fault> {
    for (index, &dose) in doses.iter().enumerate() {
        if !(dose > 0.0 && dose <= 1.0) {
            let fault =
                Fault::at("doses", format!("{dose} is out of range"), "above 0 and at most 1");
            return Err(fault.element(index));
        }
        if index > 0 && doses[index - 1] >= dose {
            let fault = Fault::at("doses", "not in rising order", "each dose once, smallest first");
            return Err(fault.element(index));
        }
    }
    // Scores use full dose, which is the largest and so the last.
    if doses.last() == Some(&1.0) {
        return Ok(());
    }
    Err(Fault::at("doses", "1.0 is missing", "a list that ends in 1.0, which scores use"))
}

/// Checks every service time of the rotation as `service` is checked.
fn services(profile: &Profile) -> Result<(), Fault> {
    for (index, of_run) in tables::services(profile) {
        let checked = numbers(&of_run).and_then(|()| cells(&of_run));
        checked.map_err(|fault| tables::conflict(of_run.service, &fault).element(index))?;
    }
    Ok(())
}

fn blocks(profile: &Profile) -> Result<(), Fault> {
    let (floor, why) = if profile.decides {
        (BLOCKS_MIN_DECIDING, "or 6 and more with decides = false")
    } else {
        (BLOCKS_MIN, "in a profile that decides nothing")
    };
    let bounds = profile.blocks;
    if !(0.0..=0.5).contains(&bounds.half_width) {
        let problem = format!("{} is out of range", bounds.half_width);
        return Err(Fault::at("blocks.half_width", problem, "0 to 0.5"));
    }
    if bounds.half_width > 0.0 && !bounds.top_up {
        let fault = Fault::at("blocks.half_width", "no block is added", "0, or top_up = true");
        return Err(fault.bound_by("blocks.top_up"));
    }
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
    let tables = names.iter().zip(parts(&profile.cell_min).into_iter().zip(parts(&profile.cell)));
    for (name, (shortest, full)) in tables {
        let floor = match *name {
            "closed" => closed_min,
            "open" => profile.service,
            _ => Span::from_ns(0),
        };
        let (shortest_key, full_key) = (format!("cell_min.{name}"), format!("cell.{name}"));
        within(&shortest_key, shortest, floor, CELL_PART_MAX).map_err(|f| f.bound_by("service"))?;
        within(&full_key, full, shortest, CELL_PART_MAX).map_err(|f| f.bound_by(&shortest_key))?;
    }
    Ok(())
}

// Rules for the tenants of a contended cell.

/// A neighbour that runs the aggressor of the cell.
pub const AGGRESSOR: &str = "aggressor";
/// A neighbour that runs the victim's workload at its load.
pub const PEER: &str = "peer";

/// Checks the roles of the neighbours.
pub(super) fn neighbours(profile: &Profile) -> Result<(), Fault> {
    const KEY: &str = "neighbours";
    let roles = &profile.neighbours;
    if roles.first().is_none_or(|first| first != AGGRESSOR) {
        let problem = "the first neighbour must run the aggressor of the cell";
        let accepted = "a list that begins with \"aggressor\"";
        return Err(Fault::at(KEY, problem, accepted));
    }
    let others = profile.tenants.saturating_sub(1) as usize;
    if roles.len() > others {
        let problem = format!("{} roles for {others} neighbours", roles.len());
        return Err(Fault::at(KEY, problem, format!("at most {others}")).bound_by("tenants"));
    }
    let aggressors = axis::aggressors();
    for (index, role) in roles.iter().enumerate() {
        let peer_of_program = role == PEER && profile.user_victim.victim().is_some();
        let problem = if peer_of_program {
            "the user's own program has no peers".to_owned()
        } else if [AGGRESSOR, PEER].contains(&role.as_str()) || aggressors.contains(&role.as_str())
        {
            continue;
        } else {
            format!("unknown role \"{role}\"")
        };
        let accepted = format!("{AGGRESSOR}, {PEER}, {}", aggressors.join(", "));
        let fault = Fault::at(KEY, problem, accepted).element(index);
        return Err(if peer_of_program { fault.bound_by("user-victim.command") } else { fault });
    }
    Ok(())
}

/// Checks that the smaller numbers of tenants rise and stay below `tenants`.
pub(super) fn sweep(profile: &Profile) -> Result<(), Fault> {
    let max = profile.tenants.saturating_sub(1);
    let mut before = 1;
    for (index, &tenants) in profile.sweep.iter().enumerate() {
        if tenants <= before || tenants > max {
            let problem = format!("{tenants} tenants");
            let accepted = format!("rising numbers from 2 to {max}, below tenants");
            let fault = Fault::at("sweep", problem, accepted).element(index);
            return Err(fault.bound_by("tenants"));
        }
        before = tenants;
    }
    Ok(())
}
