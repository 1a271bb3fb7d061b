//! Every built-in profile, shortened, on the virtual GPU: one pair under time-slicing, with the
//! tenants, neighbours, arrivals and latency targets of the profile.

use gpubench_profiles::PROFILES;
use gpubench_record::{
    Cell, Condition, Counter, Gate, GateState, OutcomeKind, Role, RunRecord, ServiceRow,
    TenantResult,
};

use super::support::{HOPPER, matrix};
use crate::support::{Error, Lab, SHORT, TestResult, finish, with_changes};

/// Fewer blocks, shorter cells and one axis; everything else is the profile's.
const CUT: &str = r#"
decides = false
mechanisms = ["exclusive", "time-slicing"]
axes = ["compute/sm"]
service = "1ms"
device_time = "60s"
blocks = { min = 6, max = 6 }
cell = { warmup = "10ms", closed = "CLOSED", gap = "5ms", open = "OPEN" }
cell_min = { warmup = "10ms", closed = "CLOSED", gap = "5ms", open = "OPEN" }
"#;

fn shortened(name: &str) -> Result<String, Error> {
    // Among eight tenants a rate needs a longer loop than among two, and a latency target for 99 %
    // of the requests needs enough of them.
    let (closed, open) =
        if name == "oversubscription" { ("300ms", "1s") } else { ("60ms", "150ms") };
    let found = PROFILES.iter().find(|(known, _)| *known == name);
    let mut profile: toml::Table = found.ok_or("no such profile")?.1.parse()?;
    // Its service times are too long for the short loops.
    profile.remove("rotation");
    for (key, value) in
        CUT.replace("CLOSED", closed).replace("OPEN", open).parse::<toml::Table>()?
    {
        profile.insert(key, value);
    }
    for (key, default) in [("victims", "compute"), ("aggressors", "fma-hog")] {
        let first = profile.get(key).and_then(|names| names.get(0)).cloned();
        let name = first.unwrap_or_else(|| default.into());
        profile.insert(key.to_owned(), vec![name].into());
    }
    Ok(toml::to_string(&profile)?)
}

fn run(name: &str) -> Result<RunRecord, Error> {
    let lab = Lab::on("hopper")?.profile(&shortened(name)?)?;
    let printed = finish(lab.matrix("out", &[]))?.ended_with(0)?.text();
    let record = lab.record("out")?;
    assert!(record.complete && record.cells.len() == record.plan.cells.len());
    for cell in &record.cells {
        assert_ne!(cell.outcome.outcome, OutcomeKind::Failed, "{cell:?}");
        if cell.cell.closed_only {
            continue;
        }
        let schedule = cell.gate(&Gate::Schedule);
        let followed = schedule.is_some_and(|gate| gate.state == GateState::Passed);
        assert!(followed, "{name}: {schedule:?}");
    }
    let shown = printed.contains("Service: ");
    assert_eq!(shown, !record.service.is_empty(), "{printed}");
    let shown = printed.contains("active tenants with 99 % of requests within 20 ms");
    assert_eq!(shown, !record.tenant_limits.is_empty(), "{printed}");
    Ok(record)
}

fn contended(record: &RunRecord) -> Result<(&Cell, &[TenantResult]), Error> {
    let all = record.plan.tenants as usize;
    let of_all = |cell: &&Cell| cell.condition == Condition::C && cell.tenants.len() == all;
    let cell = record.plan.cells.iter().find(of_all).ok_or("none")?;
    let result = record.cells.iter().find(|result| result.cell.id == cell.id);
    Ok((cell, &result.ok_or("no result")?.tenant_results))
}

fn service(record: &RunRecord, condition: Condition) -> Vec<&ServiceRow> {
    let rows = record.service.iter();
    rows.filter(|row| row.condition == condition).collect()
}

#[test]
fn nightly_weekly_and_batch_training() -> TestResult {
    for name in ["nightly", "weekly", "batch-training"] {
        assert!(run(name)?.service.is_empty(), "{name}");
    }
    Ok(())
}

#[test]
fn online_inference_meets_its_latency_target_without_a_neighbour() -> TestResult {
    let record = run("online-inference")?;
    let native = service(&record, Condition::N);
    let [native] = native[..] else { return Err(format!("{native:?}").into()) };
    let kept = native.within_slo.as_ref().ok_or("no share")?;
    assert!(kept.value > 0.99 && kept.lo > 0.9 && kept.n == 6, "{kept:?}");
    assert!(native.requests > 100, "{native:?}");
    Ok(())
}

#[test]
fn notebooks_have_bursts_and_peers_with_bursts() -> TestResult {
    let record = run("notebooks")?;
    let (cell, results) = contended(&record)?;
    let roles: Vec<Role> = cell.tenants.iter().map(|tenant| tenant.role).collect();
    assert_eq!(roles, [Role::Victim, Role::Aggressor, Role::Peer, Role::Peer]);
    // Each peer has its own bursts, so it has requests in some cell, not in every one.
    let busy = |slot: usize| {
        record.cells.iter().any(|cell| {
            let tenant = cell.tenant_results.get(slot);
            tenant.is_some_and(|tenant| tenant.rows > 0 && tenant.planned.role == Role::Peer)
        })
    };
    assert!(busy(2) && busy(3), "{results:?}");
    assert!(record.plan.bursts.is_some_and(|bursts| bursts.peak > 1.0));
    Ok(())
}

#[test]
fn a_student_lab_has_one_allocating_tenant() -> TestResult {
    let record = run("student-lab")?;
    let (cell, results) = contended(&record)?;
    assert_eq!(cell.tenants.len(), 6);
    assert_eq!(cell.tenants[2].workload.as_deref(), Some("alloc-storm"));
    assert!(results[1].rows > 0 && results[2].rows > 0, "{results:?}");
    Ok(())
}

#[test]
fn saas_has_two_aggressors_at_the_same_time() -> TestResult {
    let record = run("saas-hostile")?;
    let (cell, results) = contended(&record)?;
    let workloads: Vec<_> =
        cell.tenants[1..].iter().map(|tenant| tenant.workload.as_deref()).collect();
    assert_eq!(workloads, [Some("fma-hog"), Some("dram-copy"), Some("compute")]);
    assert!(results.iter().all(|tenant| tenant.rows > 0), "{results:?}");
    let names_neighbours = |row: &gpubench_record::MatrixRow| {
        let wanted = "neighbours: aggressor, dram-copy, peer";
        row.aggressor.is_none() || row.warnings.iter().any(|text| text == wanted)
    };
    assert!(record.matrix.iter().all(names_neighbours));
    Ok(())
}

#[test]
fn retention_falls_with_the_number_of_tenants() -> TestResult {
    let record = run("oversubscription")?;
    let rows = service(&record, Condition::C);
    let retentions: Vec<(u32, f64)> =
        rows.iter().filter_map(|row| Some((row.tenants, row.retention.as_ref()?.value))).collect();
    let counts: Vec<u32> = retentions.iter().map(|(tenants, _)| *tenants).collect();
    assert_eq!(counts, [2, 4, 8]);
    // One request of about 1 ms, then a time slice of 2 ms (profiles/machines/hopper.toml) for each
    // other tenant, which always has work. The switches add a little.
    let request_ms = record.calibration.entries["compute"].service_ns as f64 / 1e6;
    for (tenants, retention) in &retentions {
        let share = request_ms / (request_ms + f64::from(2 * (tenants - 1)));
        assert!((0.93..1.0).contains(&(retention / share)), "{retentions:?}");
    }
    // The matrix has the retention beside all tenants.
    let row = record.matrix.iter().find(|row| row.retention.is_some() && row.aggressor.is_some());
    let in_matrix = row.and_then(|row| row.retention.as_ref()).ok_or("no row")?;
    assert!((in_matrix.value - retentions[2].1).abs() < 1e-9, "{in_matrix:?}");
    // A request at a random time waits for a time slice of each other tenant: 14 ms with eight
    // tenants, during which two more requests arrive. Too few of them end within 20 ms. Among four
    // tenants a few in a thousand are late, so that 99 % may lie in the interval of their share.
    let limit = record.tenant_limits.first().ok_or("no limit")?;
    let tenants = limit.tenants.as_ref().ok_or("no number")?;
    assert!(tenants.hi == 4.0 && tenants.lo >= 2.0, "{limit:?} {:?}", record.service);
    Ok(())
}

// The five axes: each alone, all by default on the virtual GPU, and what was not asked for.

/// Runs the shortest profile with these axes.
fn on(axes: &str, arguments: &[&str]) -> Result<RunRecord, Error> {
    let dir = tempfile::tempdir()?;
    let changes = format!("axes = [{axes}]");
    matrix(dir.path(), "out", HOPPER, &changes, arguments, &[0])
}

/// The axes of the rows, each with its sub-axes, and the levels of `mps-quota`.
fn axes_of(record: &RunRecord) -> Vec<String> {
    let mut axes: Vec<String> = Vec::new();
    for row in record.matrix.iter().filter(|row| row.mechanism != "exclusive") {
        let sub_axis = row.sub_axis.iter().map(|sub| format!("/{sub}"));
        let name = row.axis.clone() + &sub_axis.collect::<String>();
        if !axes.contains(&name) {
            axes.push(name);
        }
    }
    axes
}

#[test]
fn each_axis_and_sub_axis_is_measured_alone() -> TestResult {
    let quota = ["--mechanism", "mps-quota"];
    for (axes, expected) in [
        (
            "\"memory\"",
            &["memory/capacity", "memory/cap", "memory/residue", "memory/visibility"][..],
        ),
        ("\"memory/residue\"", &["memory/residue"]),
        ("\"jitter\"", &["jitter/sm"]),
        ("\"fault/mmu\"", &["fault/mmu"]),
        ("\"power\", \"compute/sm\"", &["compute/sm", "power/power"]),
    ] {
        let record = on(axes, &quota)?;
        assert_eq!(axes_of(&record), expected, "{axes}");
        let overall = record.overall.first().ok_or("no overall level")?;
        let named: Vec<&str> = overall.axes.iter().map(String::as_str).collect();
        let first = expected[0].split('/').next().ok_or("no axis")?;
        assert_eq!(named, [first], "{axes}: {overall:?}");
        let proof = &record.mechanisms.iter().find(|row| row.name == "mps-quota");
        assert!(proof.is_some_and(|row| !row.proof.is_empty()), "{axes}: no proof");
        assert!(record.cells.iter().all(|cell| cell.outcome.is_measured()), "{axes}");
    }
    Ok(())
}

#[test]
fn all_five_axes_are_the_default_of_a_virtual_gpu() -> TestResult {
    let dir = tempfile::tempdir()?;
    let named = ["--mechanism", "time-slicing,mps-quota,mig"];
    let record = matrix(dir.path(), "out", HOPPER, "axes = \"all\"", &named, &[0])?;
    let rows = axes_of(&record);
    for axis in ["memory/cap", "compute/sm", "bandwidth/l2", "fault/sm", "jitter/sm"] {
        assert!(rows.iter().any(|row| row == axis), "{axis}: {rows:?}");
    }
    assert!(record.plan.fault_trials.iter().all(|trial| trial.trial == 1));
    let mig = record.mechanisms.iter().find(|row| row.name == "mig");
    let outcome = mig.map(|row| row.outcome.outcome);
    assert_eq!(outcome, Some(OutcomeKind::Measured), "the MIG mode was not changed");
    // One trial decides nothing.
    let mut faults = record.matrix.iter().filter(|row| row.axis == "fault");
    assert!(faults.all(|row| !row.outcome.is_measured()));
    let took_ns: u64 = record.probes.iter().filter_map(|probe| probe.took_ns).sum();
    assert!(took_ns > 0 && took_ns < 3 * 15_000_000_000, "{took_ns}");
    Ok(())
}

#[test]
fn what_was_not_asked_for_is_said_with_its_flag() -> TestResult {
    let lab = Lab::on("hopper")?;
    lab.write("short.toml", &SHORT.replace("[\"compute/sm\"]", "[\"memory/cap\", \"fault\"]"))?;
    let named = ["--mechanism", "exclusive-process,mps"];
    let off = ["--no-faults", "--no-reconfigure"];
    // A named mechanism is waived: status 3.
    let run = finish(lab.matrix("out", &[&named[..], &off].concat()))?.ended_with(3)?;
    for text in [
        "NOT ASKED FOR: the fault axis; --faults injects faults",
        "NOT ASKED FOR: exclusive-process; --allow-reconfigure lets the run change device",
    ] {
        assert!(run.stdout.contains(text), "{}", run.stdout);
    }
    let run = finish(lab.matrix("all", &named))?.ended_with(0)?;
    assert!(!run.stdout.contains("NOT ASKED FOR"), "{}", run.stdout);
    assert!(run.stdout.contains(" held, 1 trial each"), "{}", run.stdout);
    let only = ["--axis", "fault", "--no-faults"];
    let run = finish(lab.matrix("none", &only))?.ended_with(2)?;
    assert!(run.stderr.contains("no axis but fault"), "{}", run.stderr);
    Ok(())
}

/// A device on which memory is slow to allocate.
#[test]
fn memory_probes_end_in_time_and_count_their_trials() -> TestResult {
    let dir = tempfile::tempdir()?;
    let slow = with_changes(HOPPER, &[("alloc_ns = 60000", "alloc_ns = 6000000")])?;
    let named = ["--mechanism", "time-slicing,mps-quota"];
    let changes = "axes = [\"memory\"]\n[mps-quota]\nmemory_pct = 50\n";
    let record = matrix(dir.path(), "out", &slow, changes, &named, &[0])?;
    for variant in ["time-slicing", "mps-quota"] {
        let own = record.probes.iter();
        let own = own.filter(|probe| probe.variant.starts_with(variant));
        let took_ns: u64 = own.filter_map(|probe| probe.took_ns).sum();
        assert!(took_ns > 5_000_000_000, "{variant}: {took_ns} ns, not slow");
        assert!(took_ns <= 15_000_000_000, "{variant}: {took_ns} ns");
    }
    let mut rows = record.matrix.iter();
    let row = rows
        .find(|row| row.mechanism == "mps-quota" && row.sub_axis.as_deref() == Some("capacity"));
    let n = row.and_then(|row| Some(row.survival.as_ref()?.n));
    assert!(n.is_some_and(|n| (10..72).contains(&n)), "{row:?}");
    Ok(())
}

/// A limiter that acts is scored by how well; one that does not act is not in force.
#[test]
fn a_small_overshoot_of_a_limit_is_scored() -> TestResult {
    let dir = tempfile::tempdir()?;
    let changes = "axes = [\"memory/cap\"]\n[mps-quota]\nmemory_pct = 50\n";
    let named = ["--mechanism", "mps-quota,hami"];
    // The stand-in's patch of one call holds to the limit, so at 15 % HAMi has L1.
    for (name, overshoot, levels, code) in [
        ("a", "0.0", [Some("L3"), Some("L3")], 0),
        ("b", "0.05", [Some("L2"), Some("L2")], 0),
        ("c", "0.08", [Some("L2"), Some("L2")], 0),
        ("d", "0.15", [Some("L0"), Some("L1")], 0),
        ("e", "0.6", [None, None], 4),
    ] {
        let machine = format!(
            "{HOPPER}\n[defects]\nmps_memory_overshoot = {overshoot}\n\
             hami_memory_overshoot = {overshoot}\n\
             hami_closed = [\"arrays\", \"pools\", \"per-thread\", \"globals\", \"graph-memory\"]\n"
        );
        let record = matrix(dir.path(), name, &machine, changes, &named, &[code])?;
        for (mechanism, level) in ["mps-quota", "hami"].into_iter().zip(levels) {
            let rows = &mut record.matrix.iter().filter(|row| row.mechanism == mechanism);
            let row = rows.next().ok_or("no row")?;
            assert_eq!(row.level.as_deref(), level, "{mechanism} {overshoot}: {row:?}");
        }
    }
    Ok(())
}

/// Six short blocks of one experiment on a planted machine.
fn planted(name: &str, machine: &str, keys: &str) -> Result<RunRecord, Error> {
    let found = PROFILES.iter().find(|(known, _)| *known == name);
    let mut profile: toml::Table = found.ok_or("no such profile")?.1.parse()?;
    let more = format!(
        "decides = false\nblocks = {{ min = 6, max = 6, top_up = false, half_width = 0.0 }}\n{keys}"
    );
    profile.extend(more.parse::<toml::Table>()?);
    let lab = Lab::of_machine(machine)?.profile(&toml::to_string(&profile)?)?;
    finish(lab.matrix("out", &[]))?.ended_with(0)?;
    lab.record("out")
}

/// Turns leave a victim its part as long as the neighbour works, MPS servers take as long as is
/// planted, and instances keep events apart.
#[test]
fn events_have_planted_effects() -> TestResult {
    let mut servers = Vec::new();
    for recovery_ms in [40, 300] {
        let mut machine: toml::Table = HOPPER.parse()?;
        let mps = machine.get_mut("mps").and_then(|mps| mps.as_table_mut()).ok_or("no MPS")?;
        mps.insert("recovery_ms".to_owned(), recovery_ms.into());
        let keys = "mechanisms = [\"exclusive\", \"time-slicing\", \"mps\", \"mig\"]\n";
        let record = planted("transients", &machine.to_string(), keys)?;
        let of = |mechanism: &str, event: &str| {
            let mut rows = record.transients.iter();
            let row = rows.find(|row| row.mechanism == mechanism && row.event == event).cloned();
            row.ok_or_else(|| Error::from(format!("{mechanism} {event}: {:?}", record.transients)))
        };
        let value =
            |of: &Option<gpubench_record::Estimate>| of.as_ref().map_or(f64::NAN, |one| one.value);
        let start = of("time-slicing", "start")?;
        assert!(start.not_back == 6 && (value(&start.rate_ratio) - 0.29).abs() < 0.06, "{start:?}");
        for event in ["start", "stop", "kill", "restart"] {
            let apart = of("mig", event)?;
            assert!(apart.outcome.is_measured() && apart.not_back == 0, "{apart:?}");
            assert!((value(&apart.rate_ratio) - 1.0).abs() < 0.03, "{apart:?}");
            assert_eq!(value(&of("mps", event)?.lost), 0.0);
        }
        assert!(value(&of("time-slicing", "kill")?.rate_ratio) > 3.0);
        servers.push(value(&of("mps", "sm-fault")?.back));
    }
    // A new client also opens a context, in a time of its own.
    let [short, long] = servers[..] else { return Err("two servers".into()) };
    assert!(short > 40.0 && (200.0..320.0).contains(&(long - short)), "{servers:?}");
    Ok(())
}

/// Joules follow from the planted idle power; tenants that take turns split what one would use.
#[test]
fn planted_power_is_the_energy_of_its_row() -> TestResult {
    let mut machine: toml::Table = HOPPER.parse()?;
    let power = machine.get_mut("power").and_then(|of| of.as_table_mut()).ok_or("no power")?;
    power.insert("idle_w".to_owned(), 123.0.into());
    let keys = "mechanisms = [\"exclusive\", \"time-slicing\"]\n";
    let record = planted("energy", &machine.to_string(), keys)?;
    let rows: Vec<_> = record.energy.iter().filter(|row| row.joules.is_some()).collect();
    assert_eq!(rows.len(), 3, "{rows:?}");
    for row in rows {
        let [joules, idle, watts] = [&row.joules, &row.idle_joules, &row.watts]
            .map(|one| one.as_ref().map_or(0.0, |one| one.value));
        // Joules over watts are the seconds of a request.
        let idle_w = idle / (joules / watts);
        assert!((idle_w - 123.0).abs() < 1.0 && watts > idle_w, "{idle_w}: {row:?}");
        let parts: f64 = row.by_work.iter().map(|one| one.share.value).sum();
        assert!(row.by_work.is_empty() || (parts / watts - 1.0).abs() < 0.01, "{row:?}");
    }
    Ok(())
}

/// Without a planted error the reported share of turns is the known one; with one the error of the
/// row is what it makes of the share. Accounting is not there, and says so.
#[test]
fn a_planted_misreport_of_nvml_is_the_error_of_its_row() -> TestResult {
    for share_error in [0.0, 0.5] {
        let machine = format!("{HOPPER}\n[defects]\nnvml_share_error = {share_error:?}\n");
        let keys = "mechanisms = [\"exclusive\", \"time-slicing\", \"mps-quota\"]\n\
                    shares = [[25, 75]]\n";
        let record = planted("attribution", &machine, keys)?;
        let of = |mechanism: &str, counter: Counter| {
            let mut rows = record.attribution.iter();
            let is = |row: &&gpubench_record::AttributionRow| {
                row.mechanism == mechanism && row.counter == counter && row.tenant == "victim"
            };
            rows.find(is).cloned().ok_or_else(|| Error::from(format!("{mechanism} {counter:?}")))
        };
        let turns = of("time-slicing", Counter::Process)?;
        let [reported, error] =
            [&turns.reported, &turns.error].map(|one| one.as_ref().map_or(9.0, |one| one.value));
        // The first process on the device is misreported: the victim, or its neighbour.
        let off = |truth: f64| (reported - truth).abs().max((error - (truth - 0.5)).abs());
        let [first, second] = [1.0 + share_error, 1.0].map(|own| own / (2.0 + share_error));
        assert!(off(first).min(off(second)) < 0.02, "{turns:?}");
        let quota = of("mps-quota", Counter::Process)?;
        let known = quota.known.as_ref().map_or(9.0, |one| one.value);
        assert!((known - 0.25).abs() < 0.05, "{quota:?}");
        let engine = of("mps-quota", Counter::Engine)?;
        assert!(engine.error.is_some() && engine.reason.is_none(), "{engine:?}");
        let accounting = of("mps-quota", Counter::Accounting)?;
        assert!(accounting.error.is_none() && accounting.reason.is_some(), "{accounting:?}");
    }
    Ok(())
}
