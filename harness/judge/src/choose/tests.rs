//! Outcomes on the records of real GPUs in `reports/examples`, and on planted rows.

use gpubench_record::{Outcome, RunRecord};

use super::page::Answer;
use super::*;
use crate::gate::fixture::example;

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The record as readers score it: lone requests are not in its format, so jitter has no figure.
fn h100() -> Result<RunRecord> {
    let mut run = example("h100_580.159.04_matrix")?;
    for row in run.matrix.iter_mut().filter(|row| row.axis == "jitter") {
        row.jitter = None;
        row.level = None;
        row.outcome = Outcome::inconclusive("no latencies of single requests");
    }
    // These levels follow from the isolation index of an older scoring.
    for row in run.matrix.iter_mut().filter(|row| row.level.as_deref() == Some("L1")) {
        row.level = Some("L0".to_owned());
    }
    Ok(run)
}

fn needs(texts: &[&str]) -> Result<Vec<Need>> {
    Ok(texts.iter().map(|text| Need::parse(text)).collect::<std::result::Result<_, _>>()?)
}

fn of(run: &RunRecord, texts: &[&str], variant: &str) -> Result<(Verdict, Finding)> {
    let found = candidates(&[run], &needs(texts)?);
    let one = found.into_iter().find(|one| one.variant == variant).ok_or("a candidate")?;
    Ok((one.verdict, one.findings.into_iter().next().ok_or("a finding")?))
}

const QUOTA: &str = "mps-quota[pct=50]";

#[test]
fn compute_alone_names_the_quota_first_and_jitter_names_nothing() -> Result {
    let run = h100()?;
    let named = |texts: &[&str], accept| -> Result<Vec<String>> {
        let found = candidates(&[&run], &needs(texts)?);
        Ok(ranked(&found, accept).into_iter().map(|one| one.variant.clone()).collect())
    };
    assert_eq!(named(&["compute>=L2"], false)?, [QUOTA, "green-context"]);
    assert_eq!(named(&["compute>=L2", "processes"], false)?, [QUOTA]);
    assert!(named(&["jitter<=0.5"], false)?.is_empty());
    assert!(named(&["compute>=L2", "jitter>=L2"], false)?.is_empty());
    assert_eq!(named(&["compute>=L2", "jitter<=9"], true)?, [QUOTA, "green-context"]);
    Ok(())
}

#[test]
fn each_outcome_has_its_figure_or_the_command_that_measures_it() -> Result {
    let run = h100()?;
    let (verdict, found) = of(&run, &["compute>=0.9"], "hami[memory=50,sm=50]")?;
    assert_eq!(verdict, Verdict::Fails);
    let figure = found.figure.unwrap_or_default();
    assert!(figure.starts_with("compute/sm retention 0.294 [0.292, 0.296], n=8"), "{figure}");
    for (need, variant, command) in [
        (
            "jitter<=0.5",
            QUOTA,
            Some("--mechanism mps-quota --axis compute,bandwidth,jitter --profile jitter.toml"),
        ),
        ("fault>=L2", "mps", Some("--mechanism mps --axis fault --faults")),
        ("memory-cap", "mps", Some("--mechanism mps --axis memory")),
        ("tenants>=4", "mps", Some("--profile tenants.toml --for-minutes 5")),
        ("dram>=L2", "mig[3g+3g]", Some("--for-minutes 5 --allow-reconfigure")),
        // A newer driver is no flag.
        ("dram>=L2", "mps-static[chunks=even]", None),
    ] {
        let (verdict, found) = of(&run, &[need], variant)?;
        assert_eq!(verdict, Verdict::Unknown, "{need} {variant}");
        let measure = found.measure.map(|(command, _)| command);
        match command {
            None => assert_eq!(measure, None, "{need} {variant}"),
            Some(part) => {
                assert!(measure.is_some_and(|all| all.contains(part)), "{need} {variant}")
            }
        }
        assert!(found.reason.is_some(), "{need} {variant}");
    }
    Ok(())
}

/// Rows planted on one variant: what is left open is unknown, and nothing else is.
#[test]
fn an_outcome_follows_from_both_bounds() -> Result {
    let run = h100()?;
    let with = |level: Option<&str>, measured: bool, ends: [f64; 2]| {
        let mut run = run.clone();
        let row = run.matrix.iter_mut().find(|row| row.variant == QUOTA && row.axis == "compute");
        if let Some(row) = row {
            row.level = level.map(str::to_owned);
            if !measured {
                row.outcome = Outcome::inconclusive("it straddles");
            }
            if let Some(kept) = &mut row.retention {
                [kept.lo, kept.hi] = ends;
            }
        }
        run
    };
    use Verdict::{Fails, Meets, Unknown};
    for (level, measured, ends, need, want) in [
        (Some("L2"), true, [0.8, 0.9], "compute>=L2", Meets),
        (Some("L1"), true, [0.6, 0.7], "compute>=L2", Fails),
        (Some("L1..L2"), false, [0.7, 0.9], "compute>=L2", Unknown),
        (Some("L1..L2"), false, [0.7, 0.9], "compute>=L1", Meets),
        (Some("L1..L2"), false, [0.7, 0.9], "compute>=L3", Fails),
        (Some("L1..L2"), false, [0.7, 0.9], "compute>=0.7", Meets),
        (Some("L1..L2"), false, [0.7, 0.9], "compute>=0.8", Unknown),
        (Some("L1..L2"), false, [0.7, 0.9], "compute>=0.91", Fails),
        (None, false, [0.9, 0.9], "compute>=0.5", Unknown),
    ] {
        let found = of(&with(level, measured, ends), &[need], QUOTA)?.0;
        assert_eq!(found, want, "{level:?} {ends:?} {need}");
    }
    let mut smoke = with(Some("L3"), true, [1.0, 1.0]);
    smoke.plan.decides = false;
    assert_eq!(of(&smoke, &["compute>=L1"], QUOTA)?.0, Unknown);
    Ok(())
}

#[test]
fn one_trial_of_a_fault_meets_nothing() -> Result {
    let mut run = example("h100_580.159.04_faults-mps")?;
    run.plan.decides = true;
    let hang = "fault/hang>=L1";
    assert_eq!(of(&run, &[hang], "mps")?.0, Verdict::Unknown);
    let row = run.matrix.iter_mut().find(|row| row.aggressor.as_deref() == Some("hang"));
    row.ok_or("a row")?.level = Some("L2..L3".to_owned());
    assert_eq!(of(&run, &["fault/hang>=L2"], "mps")?.0, Verdict::Meets);
    assert_eq!(of(&run, &["fault/hang>=L3"], "mps")?.0, Verdict::Unknown);
    Ok(())
}

#[test]
fn records_of_one_device_complete_each_other_and_the_worst_counts() -> Result {
    let (matrix, mut faults) = (h100()?, example("h100_580.159.04_faults-mps")?);
    faults.plan.decides = true;
    let both = |texts: &[&str]| -> Result<Verdict> {
        let found = candidates(&[&matrix, &faults], &needs(texts)?);
        let one = found.iter().find(|one| one.variant == "mps").ok_or("mps")?;
        Ok(one.verdict)
    };
    assert_eq!(both(&["fault/trap>=L2", "dram>=L1"])?, Verdict::Fails);
    // The second record left the row of compute undecided, which the first one measured.
    assert_eq!(both(&["compute>=L1"])?, Verdict::Fails);
    // A sub-axis that no record has leaves its axis unknown.
    let mut without = matrix.clone();
    without.matrix.retain(|row| row.sub_axis.as_deref() != Some("pcie"));
    assert_eq!(of(&without, &["bandwidth>=0.1"], QUOTA)?.0, Verdict::Unknown);
    assert_eq!(of(&matrix, &["bandwidth>=0.1"], QUOTA)?.0, Verdict::Meets);
    // With more tenants than were measured only what fails is known.
    assert_eq!(of(&matrix, &["bandwidth>=0.1", "tenants>=3"], QUOTA)?.0, Verdict::Unknown);
    assert_eq!(of(&matrix, &["bandwidth>=0.9", "tenants>=3"], QUOTA)?.0, Verdict::Fails);
    Ok(())
}

/// Two tenants and eight: each record shows what it has, and neither takes an answer of the other.
#[test]
fn for_each_need_the_record_counts_that_can_show_it() -> Result {
    let two = h100()?;
    let mut eight = two.clone();
    eight.plan.tenants = 8;
    eight.matrix.retain(|row| row.sub_axis.as_deref() == Some("pcie"));
    let of = |records: &[&RunRecord], texts: &[&str]| -> Result<(Verdict, Finding)> {
        let found = candidates(records, &needs(texts)?);
        let one = found.into_iter().find(|one| one.variant == QUOTA).ok_or("a candidate")?;
        Ok((one.verdict, one.findings.into_iter().next().ok_or("a finding")?))
    };
    let (pcie, sm) = (["pcie>=0.1", "tenants>=8"], ["compute>=L2", "tenants>=8"]);
    for records in [vec![&eight], vec![&two, &eight], vec![&eight, &two]] {
        assert_eq!(of(&records, &pcie)?.0, Verdict::Meets);
        let (verdict, found) = of(&records, &["dram>=0.1", "tenants>=8"])?;
        assert_eq!(verdict, Verdict::Unknown, "{found:?}");
    }
    assert_eq!(of(&[&two], &pcie)?.0, Verdict::Unknown);
    // Eight tenants get less; two still get what they got.
    for row in &mut eight.matrix {
        row.retention.iter_mut().for_each(|kept| [kept.lo, kept.hi] = [0.01, 0.02]);
    }
    assert_eq!(of(&[&two, &eight], &["pcie>=0.1"])?.0, Verdict::Meets);
    assert_eq!(of(&[&two, &eight], &pcie)?.0, Verdict::Fails);
    // Every command measures with the tenants that are needed, unless no run can.
    for (variant, need) in [(QUOTA, "memory>=8GiB"), ("mps", "efficiency>=0.9")] {
        let found = candidates(&[&two], &needs(&[need, "tenants>=8"])?);
        let one = found.iter().find(|one| one.variant == variant).ok_or("a candidate")?;
        let (command, minutes) = one.findings[0].measure.clone().ok_or("a command")?;
        assert!(command.starts_with("printf 'version = 1\\ntenants = 8\\n'"), "{command}");
        assert!(command.contains("--profile tenants.toml") && minutes <= 5, "{command}");
    }
    assert_eq!(of(&[&two], &sm)?.0, Verdict::Unknown);
    Ok(())
}

#[test]
fn limits_that_exceed_the_device_together_hold_no_memory_ready() -> Result {
    let mut run = example("h100_580.159.04_probes")?;
    for probe in &mut run.probes {
        if let gpubench_record::ProbeFound::Cap { limit_bytes, calls, .. } = &mut probe.found {
            *limit_bytes = Some(30 << 30);
            calls.iter_mut().for_each(|call| call.bytes.0 = 29 << 30);
        }
    }
    for (tenants, want) in [(2, Verdict::Meets), (8, Verdict::Fails)] {
        run.plan.tenants = tenants;
        let found = of(&run, &["memory>=20GiB"], "time-slicing[slice=default]")?;
        assert_eq!(found.0, want, "{tenants} {found:?}");
    }
    Ok(())
}

#[test]
fn a_form_of_a_mechanism_for_fewer_tenants_fails() -> Result {
    let run = h100()?;
    for (needed, variant, want) in [
        ("tenants>=8", "mig[3g+3g]", Verdict::Fails),
        ("tenants>=2", "mig[3g+3g]", Verdict::Unknown),
        ("tenants>=2", "exclusive-process", Verdict::Fails),
        // Sharing is for two at least.
        ("processes", "exclusive-process", Verdict::Fails),
    ] {
        let (verdict, found) = of(&run, &[needed], variant)?;
        assert_eq!(verdict, want, "{needed} {variant}");
        assert_eq!(found.measure.is_some(), want == Verdict::Unknown, "{needed} {variant}");
    }
    let found = candidates(&[&run], &[]);
    let front: Vec<&str> = front(&found).iter().map(|one| one.variant.as_str()).collect();
    assert!(!front.contains(&"exclusive-process") && !front.contains(&"mig[3g+3g]"), "{front:?}");
    Ok(())
}

/// Jitter beside one of four planned aggressors, and a fault that the device does not have.
#[test]
fn what_was_not_measured_is_named_and_what_cannot_be_is_left_out() -> Result {
    let mut run = example("h100_580.159.04_matrix")?;
    for row in run.matrix.iter_mut().filter(|row| row.axis == "jitter") {
        row.level = Some("L2".to_owned());
        row.outcome = Outcome::measured();
        row.jitter.iter_mut().for_each(|jitter| [jitter.lo, jitter.hi] = [0.2, 0.3]);
    }
    for (need, want) in [
        ("jitter>=L2", Verdict::Unknown),
        ("jitter<=0.5", Verdict::Unknown),
        ("jitter<=0.1", Verdict::Fails),
        ("jitter>=L3", Verdict::Fails),
        ("jitter/fma-hog<=0.5", Verdict::Meets),
        ("jitter/dram-copy<=0.5", Verdict::Unknown),
    ] {
        let (verdict, found) = of(&run, &[need], QUOTA)?;
        assert_eq!(verdict, want, "{need}");
        if need == "jitter>=L2" {
            let (figure, reason) = (found.figure.unwrap_or_default(), found.reason);
            assert!(figure.contains("beside fma-hog"), "{figure}");
            let others = "beside 1 of 4 aggressors, not beside dram-copy, l2-stream and pcie-h2d";
            assert!(reason.is_some_and(|reason| reason.ends_with(others)));
            let (command, _) = found.measure.ok_or("a command")?;
            assert!(command.contains("jitter_pairs = \"all\""), "{command}");
        }
    }
    // The table says what was measured, and what threads leave no trial for.
    let all = candidates(&[&run], &[]);
    let text = |variant: &str, column: &str| {
        let one = all.iter().find(|one| one.variant == variant)?;
        let at = page::columns().iter().position(|(name, _)| *name == column)?;
        Some(one.shown[at].text.clone())
    };
    assert_eq!(text(QUOTA, "jitter").as_deref(), Some("L2 of 1/4"));
    assert_eq!(text("green-context", "fault").as_deref(), Some("-"));
    let mut run = example("h100_580.159.04_faults-mps")?;
    run.plan.decides = true;
    for row in run.matrix.iter_mut().filter(|row| row.axis == "fault") {
        (row.level, row.outcome) = (Some("L2".to_owned()), Outcome::measured());
    }
    assert_eq!(of(&run, &["fault>=L2"], "mps")?.0, Verdict::Meets);
    let wrong = |row: &&mut gpubench_record::MatrixRow| {
        row.aggressor.as_deref() == Some("wrong-address-space")
    };
    let row = run.matrix.iter_mut().find(wrong).ok_or("a row")?;
    (row.level, row.outcome) = (None, Outcome::inconclusive("none of 17 trials counts"));
    let (verdict, found) = of(&run, &["fault>=L2"], "mps")?;
    assert_eq!(verdict, Verdict::Unknown);
    assert!(found.reason.is_some_and(|reason| reason.contains("of wrong-address-space: none of")));
    let row = run.matrix.iter_mut().find(wrong).ok_or("a row")?;
    row.outcome = Outcome::waived("wrong-address-space raises no error on this device");
    assert_eq!(of(&run, &["fault>=L2"], "mps")?.0, Verdict::Meets);
    let (verdict, found) = of(&run, &["fault/wrong-address-space>=L2"], "mps")?;
    assert_eq!((verdict, found.measure), (Verdict::Unknown, None));
    // A part that exists has a command; trials are as many as the level takes.
    for (need, part) in [
        ("fault/hang>=L3", "--axis fault --faults=hang --fault-trials 72"),
        ("fault/service>=L2", "--axis fault/service --faults"),
    ] {
        let mut run = run.clone();
        run.matrix.retain(|row| row.axis != "fault");
        assert_eq!(unknown_parts(&[&run], &needs(&[need])?), None);
        let (command, _) = of(&run, &[need], "mps")?.1.measure.ok_or("a command")?;
        assert!(command.contains(part), "{command}");
    }
    Ok(())
}

/// What a record says beside the levels: faults that end every thread of a process, and victims
/// that faults harmed.
#[test]
fn threads_fail_faults_and_harmed_victims_are_counted() -> Result {
    let run = h100()?;
    for (need, want) in [
        ("fault>=L2", Verdict::Fails),
        ("fault>=0.9", Verdict::Fails),
        ("fault/mmu>=L1", Verdict::Fails),
        ("sigkill>=L1", Verdict::Fails),
        // A call that the driver refuses ends no process.
        ("fault/api>=L2", Verdict::Unknown),
    ] {
        let (verdict, found) = of(&run, &[need], "green-context")?;
        assert_eq!(verdict, want, "{need}");
        let figure = found.figure.unwrap_or_default();
        assert_eq!(figure.contains("threads of one process"), want == Verdict::Fails, "{figure}");
    }
    let mut run = example("h100_580.159.04_faults-mps")?;
    run.plan.decides = true;
    run.matrix.retain(|row| row.axis != "fault" || row.survival.is_some());
    let (mut harmed, mut all) = (0, 0);
    for row in run.matrix.iter_mut().filter(|row| row.axis == "fault" && row.level.is_some()) {
        let Some(survival) = &mut row.survival else { continue };
        row.level = Some(if survival.value < 1.0 { "L0..L3" } else { "L1..L3" }.to_owned());
        row.outcome = Outcome::inconclusive("one trial");
        (harmed, all) = (harmed + u32::from(survival.value < 1.0), all + 1);
    }
    let (verdict, found) = of(&run, &["fault>=L2"], "mps")?;
    assert_eq!(verdict, Verdict::Unknown);
    let against = format!("victims were harmed by {harmed} of {all} faults");
    assert!(harmed > 0 && found.against.as_ref() == Some(&against), "{found:?} {against}");
    assert!(found.reason.is_some_and(|reason| reason.ends_with(&against)));
    assert!(found.figure.is_some_and(|figure| figure.contains(" L0..L3")));
    // The minutes are those of the plan of such a run: 3 s for each of 17 trials of 21 faults.
    let minutes = found.measure.map(|(_, minutes)| minutes);
    assert!(minutes.is_some_and(|minutes| minutes > 7), "{minutes:?}");
    // The table has the levels of the record, and a need of L1 stays unknown.
    run.matrix.retain(|row| row.level.as_deref() != Some("L0..L3"));
    let found = candidates(&[&run], &needs(&["fault>=L1"])?);
    let one = found.iter().find(|one| one.variant == "mps").ok_or("mps")?;
    let fault = one.shown.last().ok_or("a column")?.bounds;
    assert_eq!((page::levels(fault).as_str(), one.verdict), ("L1..L3", Verdict::Unknown));
    Ok(())
}

/// What ran as the reference of another mechanism was not measured itself.
#[test]
fn a_reference_is_not_measured() -> Result {
    let run = h100()?;
    let mut eight = run.clone();
    eight.plan.tenants = 8;
    let of = |eight: &RunRecord| -> Result<Verdict> {
        let found = candidates(&[&run, eight], &needs(&["tenants>=8"])?);
        Ok(found.iter().find(|one| one.variant == "mps").ok_or("mps")?.verdict)
    };
    assert_eq!(of(&eight)?, Verdict::Meets);
    eight.plan.mechanisms.retain(|one| one.variant != "mps");
    assert_eq!(of(&eight)?, Verdict::Unknown);
    Ok(())
}

#[test]
fn a_model_says_so_and_the_front_leaves_out_what_another_beats() -> Result {
    let mut run = h100()?;
    run.device.kind = DeviceKind::Virtual;
    let needs = needs(&["compute>=L2"])?;
    let (records, found) = ([&run], candidates(&[&run], &needs));
    let front = front(&found);
    let names: Vec<&str> = front.iter().map(|one| one.variant.as_str()).collect();
    assert!(names.contains(&QUOTA) && !names.contains(&"stream-priority"), "{names:?}");
    let answer = Answer {
        names: Vec::new(),
        records: &records,
        needs: &needs,
        candidates: &found,
        front,
        accept_unknown: false,
        second: None,
    };
    let page = answer.page();
    for text in [page.text(gpubench_show::Look::PIPED), answer.markdown()] {
        let says = ["VIRTUAL GPU", "meets every need by the model", "outcome by the model"];
        assert!(says.iter().all(|one| text.contains(one)), "{text}");
    }
    assert_eq!(answer.json()["by"], "model");
    Ok(())
}

#[test]
fn costs_follow_from_the_record() -> Result {
    let mut run = h100()?;
    let energy = |run: &RunRecord, milliwatts: f64| {
        let cell = run.cells.iter().find(|cell| {
            let is_plain = cell.cell.closed_only && cell.cell.sparse.is_none();
            cell.cell.variant == QUOTA && cell.cell.aggressor.is_some() && is_plain
        });
        let rows: Vec<gpubench_record::TelemetryRow> = cell
            .into_iter()
            .map(|cell| gpubench_record::TelemetryRow {
                t_ns: 0,
                cell: cell.cell.id.clone(),
                source: "nvml".to_owned(),
                metric: "power".to_owned(),
                value: milliwatts,
                unit: "mW".to_owned(),
            })
            .collect();
        let mut found = candidates(&[run], &[]);
        cost::add_energy(&mut found, run, &rows);
        let one = found.into_iter().find(|one| one.variant == QUOTA);
        one.and_then(|one| one.cost.energy_mj).map(|[least, _]| least)
    };
    // Half a kilowatt for the work of half a device: a request of 1 ms takes a joule.
    run.operator = example("h200_580.159.04_day")?.operator;
    run.operator.iter_mut().for_each(|row| row.stp.value = 0.5);
    assert_eq!((run.plan.service_ns, energy(&run, 500_000.0)), (1_000_000, Some(1_000.0)));
    for (variant, share, ceiling) in [
        ("mps-quota[pct=50]", 0.0, 0.5),
        ("mps-quota[pct=30]", 0.4, 0.3),
        ("mig[3g+3g]", 1.0 / 7.0, 3.0 / 7.0),
        ("mig[1g+2g]", 4.0 / 7.0, 1.0 / 7.0),
        ("time-slicing[slice=default]", 0.0, 1.0),
    ] {
        let mut planned = run.clone();
        let of = planned.mechanisms.iter_mut().find(|row| row.variant == QUOTA);
        of.ok_or("a row")?.variant = variant.to_owned();
        let of = planned.plan.mechanisms.iter_mut().find(|one| one.variant == QUOTA);
        of.ok_or("a plan")?.variant = variant.to_owned();
        let found = candidates(&[&planned], &[]);
        let one = found.iter().rev().find(|one| one.variant == variant).ok_or("a candidate")?;
        let unusable = one.cost.unusable.as_ref().ok_or("compute")?;
        let is_near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(is_near(unusable.share, share), "{variant}: {}", unusable.share);
        assert!(is_near(unusable.ceiling, ceiling), "{variant}: {}", unusable.ceiling);
        if variant == "mig[3g+3g]" {
            let row = planned.mechanisms.iter_mut().find(|row| row.name == "mps-quota");
            let row = row.ok_or("a row")?;
            let sees = |name| format!("{name} Some(60) SMs and Some(9) MiB in 3g (60 SMs, 9 MiB)");
            row.proof[0].holds = true;
            planned.device.sm_count = 132;
            row.proof[0].check =
                "each tenant sees the SMs and the memory of its instance".to_owned();
            row.proof[0].evidence = [sees("victim"), sees("neighbour-1")].join(", ");
            let found = candidates(&[&planned], &[]);
            let one = found.iter().rev().find(|one| one.variant == variant).ok_or("a candidate")?;
            let unusable = one.cost.unusable.as_ref().ok_or("compute")?;
            assert!(is_near(unusable.share, 12.0 / 132.0), "{}", unusable.share);
        }
    }
    Ok(())
}
