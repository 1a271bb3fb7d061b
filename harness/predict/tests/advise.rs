//! The decision tree: every combination of answers against a table written by hand, every leaf, the
//! scenarios with known answers, the second tree, and records.

use gpubench_predict::advise::output::{json, mermaid, text};
use gpubench_predict::advise::second::{Kind, SecondAnswers};
use gpubench_predict::advise::tree::{NODES, Next};
use gpubench_predict::advise::walk::{End, Source};
use gpubench_predict::advise::{Advice, Answers, Leaf, advise, walk};
use std::collections::HashSet;

/// Answers in the order isolation, mig, workload, memory, driver, sm-bound, soft compute, fault;
/// a dot stands for any answer. Written from the article, not from the code.
const TABLE: [(&str, &str); 16] = [
    ("single . . . . . . .", "NO-SHARING"),
    ("hard yes . . . . . .", "MIG"),
    ("hard no . . . . . .", "NO-SHARING-NO-MIG"),
    ("shared . latency yes . . yes .", "HAMI"),
    ("shared yes latency yes . . no .", "MIG"),
    ("shared no latency yes . . no .", "NO-SHARING-NO-MIG"),
    ("shared . latency no cloud . . .", "TIME-SLICING-DIRECT"),
    (
        "shared . latency no platform no . .",
        "TIME-SLICING-OPERATOR",
    ),
    ("shared . latency no platform yes . yes", "MPS"),
    (
        "shared . latency no platform yes . no",
        "TIME-SLICING-OPERATOR",
    ),
    ("shared . throughput . cloud . . .", "TIME-SLICING-DIRECT"),
    (
        "shared . throughput . platform no . .",
        "TIME-SLICING-OPERATOR",
    ),
    ("shared . throughput yes platform yes . yes", "MPS"),
    ("shared . throughput no platform yes . yes", "MPS"),
    (
        "shared . throughput yes platform yes . no",
        "TIME-SLICING-OPERATOR",
    ),
    (
        "shared . throughput no platform yes . no",
        "TIME-SLICING-OPERATOR",
    ),
];

fn answers(values: &[&str]) -> Answers {
    let mut answers = Answers::default();
    for (node, value) in NODES.iter().zip(values).filter(|(_, value)| **value != ".") {
        answers
            .answer(node.flag, value, Source::User)
            .expect("an answer");
    }
    answers
}

fn combinations() -> Vec<Vec<&'static str>> {
    NODES.iter().fold(vec![Vec::new()], |combinations, node| {
        let extend = |given: Vec<&'static str>| {
            node.choices
                .iter()
                .map(move |choice| [given.clone(), vec![choice.value]].concat())
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
            pattern
                .split(' ')
                .zip(&values)
                .all(|(wanted, value)| wanted == "." || wanted == *value)
        };
        let expected: Vec<&str> = TABLE
            .iter()
            .filter(|(pattern, _)| fits(pattern))
            .map(|(_, leaf)| *leaf)
            .collect();
        assert_eq!(expected.len(), 1, "{values:?}");
        let End::Leaf(leaf) = walk(&answers(&values)).end else {
            panic!("{values:?} ends open")
        };
        assert_eq!(leaf.name(), expected[0], "{values:?}");
        reached.insert(leaf);
    }
    assert_eq!(reached.len(), Leaf::ALL.len());
}

#[test]
fn no_dead_end_and_no_circle() {
    for node in &NODES {
        assert_eq!(NODES[usize::from(node.number) - 1], *node);
        let others = node.choices.iter().filter_map(|choice| match choice.next {
            Next::Node(number) => Some(number),
            Next::Leaf(_) => None,
        });
        for number in others {
            assert!((1..=8).contains(&number), "{node:?}");
        }
    }
    // A path visits no question twice, so eight steps are the most there can be.
    for values in combinations() {
        let path = walk(&answers(&values)).path;
        let visited: HashSet<u8> = path.iter().map(|step| step.node.number).collect();
        assert_eq!(visited.len(), path.len(), "{values:?}");
    }
}

#[test]
fn scenarios_with_known_answers() {
    let cases = [
        (
            "paying customers, untrusted models, a p99 by contract",
            "hard yes . . . . . .",
            Leaf::Mig,
        ),
        (
            "twelve replicas of one model, for throughput",
            "shared . throughput . platform yes . yes",
            Leaf::Mps,
        ),
        (
            "a lab's V100s, oversubscribed, jitter is fine",
            "shared no throughput . platform no . .",
            Leaf::TimeSlicingOperator,
        ),
    ];
    for (scenario, values, leaf) in cases {
        let values: Vec<&str> = values.split(' ').collect();
        assert_eq!(walk(&answers(&values)).end, End::Leaf(leaf), "{scenario}");
    }
}

fn advice(values: &str, second: SecondAnswers) -> Advice {
    let values: Vec<&str> = values.split(' ').collect();
    advise(&answers(&values), second, None).expect("advice")
}

#[test]
fn missing_and_wrong_answers_name_their_flag() {
    let missing = advise(&answers(&["shared"]), SecondAnswers::default(), None);
    assert_eq!(
        missing.expect_err("no workload").to_string(),
        "the answer to question 3, \"what do the tenants run?\" is missing: give --workload with \
         one of throughput, latency"
    );
    let mut wrong = Answers::default();
    let refused =
        |found: Result<(), gpubench_predict::PredictError>| found.expect_err("refused").to_string();
    assert_eq!(
        refused(wrong.answer("driver", "me", Source::User)),
        "driver is \"me\": accepted is one of platform, cloud"
    );
    assert!(refused(wrong.answer("colour", "red", Source::User)).contains("unknown question"));
    assert!(Kind::parse("games").is_err_and(|error| error.to_string().contains("real-time")));
}

#[test]
fn the_second_tree_is_heard_where_it_differs() {
    let plain = SecondAnswers::default();
    let agrees = |values: &str, second: SecondAnswers| {
        let advice = advice(values, second);
        assert_eq!(
            advice.second_disagrees,
            advice.second.iter().any(|answer| !answer.agrees)
        );
        !advice.second_disagrees
    };
    assert!(agrees("hard yes . . . . . .", plain));
    assert!(agrees("hard no . . . . . .", plain));
    assert!(agrees("single . . . . . . .", plain));
    // Real-time work: MPS or MIG there, HAMi or time-slicing here.
    assert!(!agrees("shared . latency yes . . yes .", plain));
    assert!(!agrees("shared . latency no cloud . . .", plain));
    assert!(agrees("shared . latency no platform yes . yes", plain));
    let training = SecondAnswers {
        kind: Some(Kind::Training),
        is_memory_bound: None,
    };
    assert!(!agrees("shared . throughput . platform no . .", training));
    let batch = SecondAnswers {
        kind: Some(Kind::Batch),
        is_memory_bound: None,
    };
    assert!(agrees("shared . throughput . platform no . .", batch));
    assert!(!agrees("shared . throughput . platform yes . yes", batch));
    // Its questions about work and memory stand side by side, and may part.
    let bound = SecondAnswers {
        kind: None,
        is_memory_bound: Some(true),
    };
    let found = advice("shared . latency no platform yes . yes", bound);
    assert_eq!(
        found
            .second
            .iter()
            .map(|answer| answer.agrees)
            .collect::<Vec<_>>(),
        [true, false]
    );
}

#[test]
fn traps_lie_where_they_belong() {
    let traps = |values: &str| {
        let advice = advice(values, SecondAnswers::default());
        let all: Vec<&str> = advice
            .path
            .iter()
            .flat_map(|step| step.traps.clone())
            .collect();
        all.join("\n")
    };
    assert!(traps("hard yes . . . . . .").contains("time-slicing for regulated"));
    assert!(traps("shared . throughput . platform yes . yes").contains("MPS for fault-sensitive"));
    assert!(traps("shared . throughput . cloud . . .").contains("driver.enabled"));
    assert!(traps("shared . latency yes . . yes .").contains("HAMi's compute cap"));
    assert_eq!(traps("single . . . . . . ."), "");
}

#[test]
fn text_json_and_drawing_say_the_same_path() {
    let advice = advice("shared yes latency yes . . no .", SecondAnswers::default());
    let said = text(&advice);
    for part in [
        "\n7. ",
        "MIG: profile sizes are fixed",
        "mixed policy",
        "the second tree agrees",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let value: serde_json::Value =
        serde_json::from_str(&json(&advice).expect("json")).expect("json");
    assert_eq!(value["leaf"], "MIG");
    let path = value["path"].as_array().expect("a path");
    let numbers: Vec<u64> = path
        .iter()
        .filter_map(|step| step["node"].as_u64())
        .collect();
    assert_eq!(numbers, [1, 3, 4, 7, 2]);
    let drawn = mermaid(&advice);
    assert!(drawn.starts_with("flowchart TD\n"));
    assert!(drawn.contains("class n1,n3,n4,n7,n2,mig walked"), "{drawn}");
    // Each choice is an edge; each walked one is numbered in the style line.
    assert_eq!(
        drawn.matches("-->").count(),
        NODES.iter().map(|n| n.choices.len()).sum::<usize>()
    );
    let styled = drawn
        .lines()
        .find(|line| line.trim_start().starts_with("linkStyle"));
    let numbers = styled
        .and_then(|line| line.split(' ').nth(3))
        .expect("a style line");
    let edges: Vec<&str> = drawn.lines().filter(|line| line.contains("-->")).collect();
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
