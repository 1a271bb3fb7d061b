//! One direction of flow inside a package: a room uses the rooms to its left.

use crate::package::product_tokens;
use crate::scan::{Kind, Token, closing, reads, tokens};
use crate::tidy::Finding;
use crate::tree::{SourceFile, Tree};

/// A package whose rooms (top modules) have an order.
struct House {
    /// Its `src` folder.
    root: &'static str,
    /// Rooms in the order in which data passes them. Each uses only what stands before it. Rooms
    /// in one string, with `|` between them, use each other: a knot that waits to be untied.
    rooms: &'static [&'static str],
    /// Files that see everything: the library's list, the program, the command line.
    sees_all: &'static [&'static str],
    /// Reads the code that counts: with unit tests, or without.
    read: fn(&str) -> Vec<Token<'_>>,
}

/// Rooms that are functions of a record alone. Their package uses `gpubench-plan`, for the ledger
/// of claims, and with it the catalogue.
const OF_A_RECORD: &[&str] =
    &["harness/judge/src/gate", "harness/judge/src/figures", "harness/judge/src/score"];

/// Gates and scores reach no catalogue, so that an old record keeps its scores.
pub fn scores_need_no_catalogue(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    let is_of_a_record = |path: &str| OF_A_RECORD.iter().any(|room| path.starts_with(room));
    for file in tree.rust().filter(|file| is_of_a_record(&file.path)) {
        let scanned = tokens(&file.text);
        for token in scanned.iter().filter(|token| token.text == "gpubench_plan") {
            let message = "what a score needs of the plan belongs in the record";
            found.push(Finding::new(&file.path, token.line, message));
        }
    }
    found
}

/// A room names only rooms to its left, and every room has its place in the order.
pub fn one_direction(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in tree.rust() {
        for house in HOUSES {
            if let Some(inside) = file.path.strip_prefix(house.root) {
                house.check(file, inside, &mut found);
            }
        }
    }
    found
}

impl House {
    fn check(&self, file: &SourceFile, inside: &str, found: &mut Vec<Finding>) {
        let room = room_of(inside);
        if self.sees_all.contains(&room) {
            return;
        }
        let Some(own) = self.place(room) else {
            let message =
                format!("room {room} has no place in the flow: give it one in {}", file!());
            found.push(Finding::new(&file.path, 1, message));
            return;
        };
        for (line, used) in used_rooms(&(self.read)(&file.text), inside) {
            let target = self.place(used);
            let is_knot = self.rooms[own].contains('|');
            let reachable = target.is_some_and(|target| target < own || (is_knot && target == own));
            // A name that is no room is an item that the library re-exports or a macro.
            let is_room = target.is_some() || self.sees_all.contains(&used);
            if used != room && is_room && !reachable {
                let order = self.rooms.join(", ");
                let message = format!("{room} may not use {used}: the order is {order}");
                found.push(Finding::new(&file.path, line, message));
            }
        }
    }

    fn place(&self, room: &str) -> Option<usize> {
        let mut levels = self.rooms.iter();
        levels.position(|level| level.split('|').any(|known| known == room))
    }
}

fn room_of(inside: &str) -> &str {
    let first = inside.split('/').next().unwrap_or(inside);
    first.strip_suffix(".rs").unwrap_or(first)
}

/// Every name that the file takes from the crate's root, with its line.
fn used_rooms<'a>(scanned: &[Token<'a>], inside: &str) -> Vec<(usize, &'a str)> {
    let parts = inside.split('/').count();
    let file_depth = if inside.ends_with("/mod.rs") { parts - 1 } else { parts };
    let mut found = Vec::new();
    let mut inline_ends: Vec<usize> = Vec::new();
    for at in 0..scanned.len() {
        inline_ends.retain(|end| *end > at);
        if reads(scanned, at, "mod") && reads(scanned, at + 2, "{") {
            inline_ends.push(closing(scanned, at + 2));
        }
        let continues = at > 0 && reads(scanned, at - 1, "::");
        if continues {
            continue;
        }
        let depth = file_depth + inline_ends.len();
        if let Some(after) = after_root(scanned, at, depth) {
            found.extend(first_names(scanned, after));
        }
    }
    found
}

/// Index after `crate::`, or after as many `super::` as lead to the crate's root.
fn after_root(scanned: &[Token<'_>], at: usize, depth: usize) -> Option<usize> {
    if reads(scanned, at, "crate ::") {
        return Some(at + 2);
    }
    let mut after = at;
    while reads(scanned, after, "super ::") {
        after += 2;
    }
    (after > at && (after - at) / 2 == depth).then_some(after)
}

/// The names at `at`: one, or the first of each branch of a `{...}` list.
fn first_names<'a>(scanned: &[Token<'a>], at: usize) -> Vec<(usize, &'a str)> {
    let named = |token: &Token<'a>| (token.kind == Kind::Word).then_some((token.line, token.text));
    if !reads(scanned, at, "{") {
        return scanned.get(at).and_then(named).into_iter().collect();
    }
    let mut found = Vec::new();
    let (end, mut index) = (closing(scanned, at), at + 1);
    let mut starts = true;
    while index < end {
        if starts {
            found.extend(named(&scanned[index]));
        }
        starts = scanned[index].text == ",";
        if scanned[index].text == "{" {
            index = closing(scanned, index);
        }
        index += 1;
    }
    found
}

// The order of the rooms of each package.

const HOUSES: &[House] = &[
    House {
        root: "harness/src/",
        rooms: &["error", "verbs"],
        sees_all: &["lib", "main", "cli"],
        read: tokens,
    },
    House {
        root: "harness/host/src/",
        rooms: &["device", "mechanism", "tenant"],
        sees_all: &["lib"],
        read: tokens,
    },
    House {
        root: "harness/judge/src/",
        rooms: &["gate", "figures", "score", "claims", "choose"],
        sees_all: &["lib"],
        read: tokens,
    },
    House {
        root: "harness/virtual-gpu/ptx/src/",
        rooms: &[
            "ops",
            "types",
            "texture",
            "operands",
            "inst",
            "counts",
            "code",
            "analysis",
            "ast",
            "cost",
            "error",
            "module",
            "liveness",
            "decode",
            "footprint",
            "fault",
            "memory",
            "program",
            "exec",
            "lexer",
            "parse",
        ],
        sees_all: &["lib"],
        read: product_tokens,
    },
    House {
        root: "harness/virtual-gpu/model/src/",
        rooms: &[
            "table",
            "compute_mode|state",
            "cgroup|lifecycle|machine|memory|mps|noise|simulation",
            "mig",
            "virtual_time",
        ],
        sees_all: &["lib"],
        read: product_tokens,
    },
    House {
        root: "harness/virtual-gpu/driver/src/",
        rooms: &[
            "addresses",
            "backing_store",
            "code",
            "fill_shape",
            "last_writers",
            "diagnostics",
            "rules",
            "handles",
            "cost",
            "entries",
            "host_process",
            "exports",
            "crash",
            "kernel_log",
            "shm",
            "session",
            "stall",
            "device",
            "copy_shape",
            "stored_word",
            "bytes|deferred|device_memory|graph|ipc|issue|launch|memory_op|operation|\
             pinned|pool|process|stand_in|stream|submit|tables|virtual_memory",
            "device_attributes",
            "placement",
            "planted",
            "stream_memory_ops",
            "event",
            "copy",
            "fill",
            "host_call",
            "execute",
            "deferred_queue",
            "calls",
            "nvml",
        ],
        sees_all: &["lib"],
        read: product_tokens,
    },
    House {
        root: "harness/virtual-gpu/abi/src/",
        rooms: &["arguments", "cuda", "nvml", "stubs", "vt"],
        sees_all: &["lib"],
        read: product_tokens,
    },
    House {
        root: "harness/virtual-gpu/vendor-tools/src/",
        rooms: &["nvidia_cuda_mps", "nvidia_smi"],
        sees_all: &["lib", "main"],
        read: product_tokens,
    },
    House {
        root: "harness/virtual-gpu/hami/src/",
        rooms: &[
            "lookup",
            "clock",
            "settings",
            "management",
            "region",
            "contexts",
            "recording",
            "limiter",
            "accounting",
            "bypass_patches",
            "hooks",
            "dlsym",
        ],
        sees_all: &["lib"],
        read: product_tokens,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        let found = one_direction(&Tree::of(&[(path, text)]));
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rooms_use_what_lies_to_their_left() {
        let good = [
            ("harness/judge/src/score/mod.rs", "use crate::figures::A;"),
            ("harness/judge/src/score/mod.rs", "use crate::{gate::E, figures::{self, claims}};"),
            ("harness/judge/src/score/row.rs", "use super::claims; use crate::score::A;"),
            ("harness/judge/src/score.rs", "use crate::gate::A;"),
            ("harness/host/src/tenant/mod.rs", "use super::device::A;"),
            ("harness/host/src/device/mod.rs", "mod t { use super::tenant; }"),
            ("harness/judge/src/gate/mod.rs", "use gpubench_record::score::A; // crate::score"),
            ("harness/src/cli/matrix.rs", "use crate::verbs::A;"),
            ("harness/src/main.rs", "use crate::cli::A;"),
            ("workloads/src/gate.rs", "use crate::score::A;"),
            ("harness/judge/src/gate.rs", "use crate::Thing;"),
            ("harness/judge/src/claims.rs", "use crate::{gate::A, score::B};"),
        ];
        for (path, text) in good {
            assert!(findings(path, text).is_empty(), "{path}: {text}");
        }
    }

    #[test]
    fn rooms_do_not_use_what_lies_to_their_right() {
        let bad = [
            ("harness/judge/src/gate.rs", "use crate::score::A;"),
            ("harness/judge/src/figures/mod.rs", "use crate::{gate::A, score::B};"),
            ("harness/judge/src/figures/mod.rs", "fn f() { crate::score::g() }"),
            ("harness/judge/src/figures/mod.rs", "use super::score::A;"),
            ("harness/judge/src/figures/rates.rs", "use super::super::claims;"),
            ("harness/judge/src/score.rs", "mod tests { use super::super::claims::A; }"),
            ("harness/host/src/device/mod.rs", "use crate::tenant::A;"),
            ("harness/src/verbs/mod.rs", "use crate::cli::A;"),
            ("harness/src/error.rs", "use crate::verbs::A;"),
            ("harness/src/attic.rs", ""),
        ];
        for (path, text) in bad {
            assert_eq!(findings(path, text).len(), 1, "{path}: {text}");
        }
    }

    #[test]
    fn rooms_of_a_knot_use_each_other_and_tests_use_all() {
        let house = House {
            root: "p/src/",
            rooms: &["a", "b|c", "d"],
            sees_all: &["lib"],
            read: crate::package::product_tokens,
        };
        let count = |room: &str, text: &str| {
            let file = SourceFile { path: format!("p/src/{room}.rs"), text: text.to_owned() };
            let mut found = Vec::new();
            house.check(&file, &format!("{room}.rs"), &mut found);
            found.len()
        };
        for (room, text) in [
            ("b", "use crate::{a::X, c::X};"),
            ("c", "use crate::b::X;"),
            ("a", "#[cfg(test)] mod t { use crate::d::X; }"),
        ] {
            assert_eq!(count(room, text), 0, "{room}: {text}");
        }
        for (room, text) in [("a", "use crate::b::X;"), ("c", "use crate::d::X;"), ("e", "")] {
            assert_eq!(count(room, text), 1, "{room}: {text}");
        }
    }

    #[test]
    fn gates_and_scores_reach_no_catalogue() {
        let findings = |path: &str, text: &str| {
            let found = scores_need_no_catalogue(&Tree::of(&[(path, text)]));
            found.len()
        };
        for (path, text) in [
            ("harness/judge/src/score/cells.rs", "use crate::gate::A; use super::row;"),
            ("harness/judge/src/gate/mod.rs", "use gpubench_record::Plan;"),
            ("harness/judge/src/claims/mod.rs", "use gpubench_plan::ledger;"),
        ] {
            assert_eq!(findings(path, text), 0, "{path}: {text}");
        }
        let text = "fn f() { gpubench_plan::ledger() }";
        assert_eq!(findings("harness/judge/src/gate/samples.rs", text), 1);
        assert_eq!(findings("harness/judge/src/score/tests/lab.rs", text), 1);
    }

    #[test]
    fn a_finding_shows_the_order() {
        let path = "harness/judge/src/gate.rs";
        let found = findings(path, "\nuse crate::score::A;");
        assert!(found[0].starts_with(&format!("{path}:2: gate may not use score: the order")));
    }
}
