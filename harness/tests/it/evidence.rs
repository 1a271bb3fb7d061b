//! Proofs belong to one cell: taken from the events of a run, through gates to the rows.

use crate::support::{Lab, TestResult, finish};
use gpubench_record::{Gate, GateState, Json, OutcomeKind, ProofTime, RunEvent, RunRecord};

/// State and detail of the gate of a cell.
fn in_force(record: &RunRecord, cell: &str) -> Option<(GateState, String, OutcomeKind)> {
    let cell = record.cells.iter().find(|known| known.cell.id == cell)?;
    let mut gates = cell.gates.iter();
    let gate = gates.find(|gate| gate.gate == Gate::MechanismInForce)?;
    Some((gate.state, gate.detail.clone(), cell.outcome.outcome))
}

#[test]
fn a_cell_that_was_not_observed_is_excluded_and_no_other() -> TestResult {
    let lab = Lab::on("hopper")?;
    finish(lab.matrix("out", &["--mechanism", "exclusive,mps"]))?.ended_with(0)?;
    let whole = lab.record("out")?;
    let cells = || whole.plan.cells.iter().filter(|cell| cell.variant == "mps");
    let victim = cells().nth(3).ok_or("there are cells of mps")?.id.clone();
    let path = lab.path("out").join("events.jsonl");
    let events = std::fs::read_to_string(&path)?;

    // Each cell has all required proofs, and those of its samples lie in it.
    let required = whole.plan.required_proofs.as_ref();
    let required = required.and_then(|all| all.get("mps")).ok_or("the plan lists proofs")?;
    let proofs_of = |id: &str| -> Vec<gpubench_record::Proof> {
        let parsed = events.lines().filter_map(|line| RunEvent::from_json(line.as_bytes()).ok());
        let of_cell = parsed.filter_map(|event| match event {
            RunEvent::Proved { cell: Some(cell), proof, .. } if cell == id => Some(proof),
            _ => None,
        });
        of_cell.collect()
    };
    assert!(cells().count() > 6);
    for cell in cells() {
        let proofs = proofs_of(&cell.id);
        for one in required {
            assert!(proofs.iter().any(|proof| proof.is(one)), "{}: {one:?}", cell.id);
        }
        let length_ns = i64::try_from(whole.plan.durations_of(cell).cell_ns())?;
        for proof in &proofs {
            let inside = proof.t_ns.is_some_and(|t_ns| (0..=length_ns).contains(&t_ns));
            assert_eq!(inside, proof.when == ProofTime::During, "{}: {proof:?}", cell.id);
        }
    }

    // The run lost the observation of one cell.
    let is_lost = |line: &&str| line.contains("\"proved\"") && line.contains(&victim);
    assert!(events.lines().any(|line| is_lost(&line)));
    let kept: Vec<&str> = events.lines().filter(|line| !is_lost(line)).collect();
    std::fs::write(&path, kept.join("\n") + "\n")?;
    std::fs::remove_file(lab.path("out").join("record.json"))?;
    let shown = lab.gpubench(["report", &lab.arg("out"), "--format", "json"]);
    let shown = finish(shown)?.ended_with(0)?;
    let judged = RunRecord::from_json(shown.stdout.as_bytes())?;
    let (state, detail, outcome) = in_force(&judged, &victim).ok_or("the cell is judged")?;
    assert_eq!((state, outcome), (GateState::Failed, OutcomeKind::Inconclusive), "{detail}");
    assert!(detail.starts_with("not observed: "), "{detail}");
    for cell in whole.plan.cells.iter().filter(|cell| cell.id != victim) {
        let judged = in_force(&judged, &cell.id).map(|found| found.0);
        assert_eq!(judged, Some(GateState::Passed), "{}", cell.id);
    }
    Ok(())
}
