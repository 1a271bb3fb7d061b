//! The decision tree: every combination of answers against a table written by hand, and the second
//! tree.

use gpubench_predict::advise::advice::{Kind, SecondAnswers};
use gpubench_predict::advise::output::{mermaid, page};
use gpubench_predict::advise::tree::{End, NODES};
use gpubench_predict::advise::{Advice, Answers, Leaf, advise, walk};
use gpubench_show::{Look, json};
use std::collections::HashSet;

/// Answers in the order isolation, mig, workload, memory, driver, sm-bound, soft compute, fault;
/// a dot stands for any answer. Written from the published tree, not from the code.
const TABLE: [(&str, &str); 16] = [
    ("single . . . . . . .", "NO-SHARING"),
    ("hard yes . . . . . .", "MIG"),
    ("hard no . . . . . .", "NO-SHARING-NO-MIG"),
    ("shared . latency yes . . yes .", "HAMI"),
    ("shared yes latency yes . . no .", "MIG"),
    ("shared no latency yes . . no .", "NO-SHARING-NO-MIG"),
    ("shared . latency no cloud . . .", "TIME-SLICING-DIRECT"),
    ("shared . latency no platform no . .", "TIME-SLICING-OPERATOR"),
    ("shared . latency no platform yes . yes", "MPS"),
    ("shared . latency no platform yes . no", "TIME-SLICING-OPERATOR"),
    ("shared . throughput . cloud . . .", "TIME-SLICING-DIRECT"),
    ("shared . throughput . platform no . .", "TIME-SLICING-OPERATOR"),
    ("shared . throughput yes platform yes . yes", "MPS"),
    ("shared . throughput no platform yes . yes", "MPS"),
    ("shared . throughput yes platform yes . no", "TIME-SLICING-OPERATOR"),
    ("shared . throughput no platform yes . no", "TIME-SLICING-OPERATOR"),
];

fn answers(values: &[&str]) -> Answers {
    let mut answers = Answers::default();
    for (node, value) in NODES.iter().zip(values).filter(|(_, value)| **value != ".") {
        answers.answer(node.flag, value).expect("an answer");
    }
    answers
}

fn combinations() -> Vec<Vec<&'static str>> {
    NODES.iter().fold(vec![Vec::new()], |combinations, node| {
        let extend = |answers: Vec<&'static str>| {
            node.choices.iter().map(move |choice| [answers.clone(), vec![choice.value]].concat())
        };
        combinations.into_iter().flat_map(extend).collect()
    })
}

#[test]
fn every_combination_agrees_with_the_table() {
    let all = combinations();
    assert_eq!(all.len(), 3 * 2_usize.pow(7));
    let mut reached = HashSet::new();
    for values in all {
        let fits = |pattern: &str| {
            pattern.split(' ').zip(&values).all(|(wanted, value)| wanted == "." || wanted == *value)
        };
        let expected: Vec<&str> =
            TABLE.iter().filter(|(pattern, _)| fits(pattern)).map(|(_, leaf)| *leaf).collect();
        assert_eq!(expected.len(), 1, "{values:?}");
        let End::Leaf(leaf) = walk(&answers(&values)).end else {
            panic!("{values:?} does not reach a leaf")
        };
        assert_eq!(leaf.name(), expected[0], "{values:?}");
        reached.insert(leaf);
    }
    assert_eq!(reached.len(), Leaf::ALL.len());
}

fn advice(values: &str, second: SecondAnswers) -> Advice {
    let values: Vec<&str> = values.split(' ').collect();
    advise(&answers(&values), second).expect("advice")
}

#[test]
fn a_missing_answer_is_an_error_that_names_every_flag_still_needed() {
    let missing = |values: &[&str]| {
        let found = advise(&answers(values), SecondAnswers::default());
        found.expect_err("an open question").to_string()
    };
    assert_eq!(
        missing(&["shared", ".", ".", "yes", "cloud"]),
        "an answer is missing: give --workload <throughput|latency>; depending on the answers also \
         --mig <yes|no>, --soft-compute <yes|no>"
    );
    assert_eq!(missing(&["hard"]), "an answer is missing: give --mig <yes|no>");
    let all = missing(&[]);
    assert!(NODES.iter().all(|node| all.contains(&node.usage())), "{all}");
}

#[test]
fn a_wrong_answer_is_refused_with_the_accepted_ones() {
    let mut wrong = Answers::default();
    let refused =
        |found: Result<(), gpubench_predict::PredictError>| found.expect_err("refused").to_string();
    assert_eq!(
        refused(wrong.answer("driver", "me")),
        "driver is \"me\": accepted is one of platform, cloud"
    );
    assert!(refused(wrong.answer("colour", "red")).contains("unknown question"));
}

#[test]
fn the_second_tree_is_printed_where_it_differs() {
    let plain = SecondAnswers::default();
    let agrees = |values: &str, second: SecondAnswers| {
        let advice = advice(values, second);
        assert_eq!(advice.second_disagrees, advice.second.iter().any(|answer| !answer.agrees));
        !advice.second_disagrees
    };
    assert!(agrees("hard yes . . . . . .", plain));
    assert!(agrees("hard no . . . . . .", plain));
    assert!(agrees("single . . . . . . .", plain));
    // Real-time work: MPS or MIG in the second tree, HAMi or time-slicing in the first.
    assert!(!agrees("shared . latency yes . . yes .", plain));
    assert!(!agrees("shared . latency no cloud . . .", plain));
    assert!(agrees("shared . latency no platform yes . yes", plain));
    let training = SecondAnswers { kind: Some(Kind::Training), is_memory_bound: None };
    assert!(!agrees("shared . throughput . platform no . .", training));
    let batch = SecondAnswers { kind: Some(Kind::Batch), is_memory_bound: None };
    assert!(agrees("shared . throughput . platform no . .", batch));
    assert!(!agrees("shared . throughput . platform yes . yes", batch));
    // Its questions about workload and memory are independent and can disagree.
    let bound = SecondAnswers { kind: None, is_memory_bound: Some(true) };
    let found = advice("shared . latency no platform yes . yes", bound);
    assert_eq!(found.second.iter().map(|answer| answer.agrees).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn each_trap_is_printed_at_its_question() {
    let traps = |values: &str| {
        let advice = advice(values, SecondAnswers::default());
        let all: Vec<&str> = advice.path.iter().flat_map(|step| step.traps.clone()).collect();
        all.join("\n")
    };
    assert!(traps("hard yes . . . . . .").contains("time-slicing for regulated"));
    assert!(traps("shared . throughput . platform yes . yes").contains("MPS for fault-sensitive"));
    assert!(traps("shared . throughput . cloud . . .").contains("driver.enabled"));
    assert!(traps("shared . latency yes . . yes .").contains("HAMi's compute limit"));
    assert_eq!(traps("single . . . . . . ."), "");
}

#[test]
fn text_json_and_mermaid_show_the_same_path() {
    let advice = advice("shared yes latency yes . . no .", SecondAnswers::default());
    let printed = page(&advice).text(Look::PIPED);
    for part in ["\n7. ", "MIG: profile sizes are fixed", "mixed policy", "the second tree agrees"]
    {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    let value: serde_json::Value =
        serde_json::from_str(&json(&advice).expect("json")).expect("json");
    assert_eq!(value["leaf"], "MIG");
    let path = value["path"].as_array().expect("a path");
    let numbers: Vec<u64> = path.iter().filter_map(|step| step["node"].as_u64()).collect();
    assert_eq!(numbers, [1, 3, 4, 7, 2]);
    let chart = mermaid(&advice);
    assert!(chart.starts_with("flowchart TD\n"));
    assert!(chart.contains("class n1,n3,n4,n7,n2,mig walked"), "{chart}");
    // Each choice is an edge; each walked one is numbered in the style line.
    assert_eq!(chart.matches("-->").count(), NODES.iter().map(|n| n.choices.len()).sum::<usize>());
    let styled = chart.lines().find(|line| line.trim_start().starts_with("linkStyle"));
    let numbers = styled.and_then(|line| line.split(' ').nth(3)).expect("a style line");
    let edges: Vec<&str> = chart.lines().filter(|line| line.contains("-->")).collect();
    let walked: Vec<&str> = numbers
        .split(',')
        .map(|number| edges[number.parse::<usize>().expect("a number")].trim())
        .collect();
    assert_eq!(
        walked,
        [
            "n1 -->|shared| n3",
            "n2 -->|yes| mig",
            "n3 -->|latency| n4",
            "n4 -->|yes| n7",
            "n7 -->|no| n2"
        ]
    );
}
