//! Output of `advise`: text, JSON, and the path through the tree as a Mermaid flow chart.

use super::advice::Advice;
use super::advice::Recommendation;
use super::tree::Source;
use super::tree::{Leaf, NODES, Next};
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
    lines.extend(advice.mixed_policy.map(|policy| format!("mixed policy: {policy}")));
    for answer in &advice.second {
        let names: Vec<&str> = answer.recommendations.iter().map(|one| name(*one)).collect();
        let verdict = if answer.agrees { "agrees" } else { "disagrees" };
        lines.push(format!(
            "the second tree {verdict} ({}): {}",
            answer.because,
            names.join(" or ")
        ));
    }
    let contradictions = advice.contradictions.iter();
    lines.extend(contradictions.map(|one| format!("measurement contradicts the tree: {one}")));
    lines.join("\n") + "\n"
}

fn name(recommendation: Recommendation) -> &'static str {
    match recommendation {
        Recommendation::Mig => "MIG",
        Recommendation::SeparateGpus => "separate GPUs",
        Recommendation::Mps => "MPS",
        Recommendation::TimeSlicing => "time-slicing",
    }
}

/// The whole tree as a Mermaid flow chart, the walked path in bold.
pub fn mermaid(advice: &Advice) -> String {
    let mut lines = vec!["flowchart TD".to_owned()];
    for node in &NODES {
        lines.push(format!("  n{}[\"{}. {}\"]", node.number, node.number, node.question));
    }
    for leaf in Leaf::ALL {
        lines.push(format!("  {}([\"{}\"])", leaf_id(leaf), leaf.name()));
    }
    let mut walked = Vec::new();
    let edges = NODES.iter().flat_map(|node| node.choices.iter().map(move |choice| (node, choice)));
    for (edge, (node, choice)) in edges.enumerate() {
        let target = match choice.next {
            Next::Node(number) => format!("n{number}"),
            Next::Leaf(leaf) => leaf_id(leaf),
        };
        lines.push(format!("  n{} -->|{}| {target}", node.number, choice.value));
        let is_walked =
            advice.path.iter().any(|step| step.node == node.number && step.answer == choice.value);
        if is_walked {
            walked.push(edge.to_string());
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
