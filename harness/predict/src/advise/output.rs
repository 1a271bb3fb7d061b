//! What `advise` prints: text, JSON, and the path drawn in the whole tree as Mermaid.

use super::advice::Advice;
use super::second::Way;
use super::tree::{Leaf, NODES, Next};
use super::walk::Source;
use crate::error::PredictError;
use crate::text::json_text;

/// The advice as JSON.
pub fn json(advice: &Advice) -> Result<String, PredictError> {
    json_text(advice)
}

/// The advice as text.
pub fn text(advice: &Advice) -> String {
    let mut lines = Vec::new();
    for step in &advice.path {
        let source = match step.source {
            Source::User => "",
            Source::Record => " (from the record)",
        };
        lines.push(format!("{}. {}", step.node, step.question));
        lines.push(format!("   {}: {}{source}", step.answer, step.meaning));
        lines.extend(step.measured.iter().map(|line| format!("   {line}")));
        lines.extend(step.traps.iter().map(|trap| format!("   trap: {trap}")));
    }
    lines.push(String::new());
    lines.push(format!("{}: {}", advice.leaf.name(), advice.trade_off));
    lines.extend(
        advice
            .mixed_policy
            .map(|policy| format!("mixed policy: {policy}")),
    );
    for answer in &advice.second {
        let ways: Vec<&str> = answer.ways.iter().map(|way| way_name(*way)).collect();
        let verdict = if answer.agrees { "agrees" } else { "disagrees" };
        let ways = ways.join(" or ");
        lines.push(format!(
            "the second tree {verdict} ({}): {ways}",
            answer.because
        ));
    }
    let contradictions = advice.contradictions.iter();
    lines.extend(contradictions.map(|found| format!("measurement contradicts the tree: {found}")));
    lines.join("\n") + "\n"
}

fn way_name(way: Way) -> &'static str {
    match way {
        Way::Mig => "MIG",
        Way::SeparateGpus => "separate GPUs",
        Way::Mps => "MPS",
        Way::TimeSlicing => "time-slicing",
    }
}

/// The whole tree as a Mermaid flow chart, the walked path in bold.
pub fn mermaid(advice: &Advice) -> String {
    let mut lines = vec!["flowchart TD".to_owned()];
    for node in &NODES {
        lines.push(format!(
            "  n{}[\"{}. {}\"]",
            node.number, node.number, node.question
        ));
    }
    for leaf in Leaf::ALL {
        lines.push(format!("  {}([\"{}\"])", leaf_id(leaf), leaf.name()));
    }
    let mut walked = Vec::new();
    let edges = NODES
        .iter()
        .flat_map(|node| node.choices.iter().map(move |choice| (node, choice)));
    for (place, (node, choice)) in edges.enumerate() {
        let target = match choice.next {
            Next::Node(number) => format!("n{number}"),
            Next::Leaf(leaf) => leaf_id(leaf),
        };
        lines.push(format!("  n{} -->|{}| {target}", node.number, choice.value));
        let is_walked = advice
            .path
            .iter()
            .any(|step| step.node == node.number && step.answer == choice.value);
        if is_walked {
            walked.push(place.to_string());
        }
    }
    lines.push("  classDef walked stroke-width:4px".to_owned());
    let ids = advice.path.iter().map(|step| format!("n{}", step.node));
    let ids: Vec<String> = ids.chain([leaf_id(advice.leaf)]).collect();
    lines.push(format!("  class {} walked", ids.join(",")));
    lines.push(format!("  linkStyle {} stroke-width:4px", walked.join(",")));
    lines.join("\n") + "\n"
}

fn leaf_id(leaf: Leaf) -> String {
    leaf.name().to_lowercase().replace('-', "_")
}
