//! Output of `advise`: a document, and the path through the tree as a Mermaid flow chart.

use gpubench_show::{Block, Line, Page, Paint, list};

use super::advice::Advice;
use super::advice::Recommendation;
use super::tree::{Leaf, NODES, Next};

pub fn page(advice: &Advice) -> Page {
    let mut page = Page::default();
    for step in &advice.path {
        let below = |text: String| Line::new(text).indented(3, 5);
        page.push(Line::new(format!("{}. {}", step.node, step.question)).indented(0, 3));
        page.push(below(format!("{}: {}", step.answer, step.meaning)));
        for trap in &step.traps {
            page.push(below((*trap).to_owned()).marked("trap:", Paint::Weak));
        }
    }
    page.push(Block::Gap);
    page.notice(format!("{}: {}", advice.leaf.name(), advice.trade_off));
    if let Some(policy) = advice.mixed_policy {
        page.say(format!("mixed policy: {policy}"));
    }
    for answer in &advice.second {
        let names: Vec<&str> = answer.recommendations.iter().map(|one| name(*one)).collect();
        let (verdict, paint) =
            if answer.agrees { ("agrees", Paint::Good) } else { ("disagrees", Paint::Weak) };
        let text = format!("({}): {}", answer.because, list(&names, "or"));
        page.push(Line::new(text).marked(format!("the second tree {verdict}"), paint));
    }
    page
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
