//! Small shell programs as victims, over the same pipes that the coordinator uses.

use std::io::{BufReader, Read};

use gpubench_record::wire::{Participants, from_line, to_line};

use super::*;

const OPEN: ToTenant = ToTenant::Open {
    ordinal: 0,
    spin: true,
    participants: Participants { issuer: 2, reaper: 3 },
    inside: None,
};

/// The replies to these messages after the hello, with a bash script as the program. Other shells
/// may support descriptors of one digit only.
fn answers(script: &str, reports: Reports, messages: &[ToTenant]) -> Vec<FromTenant> {
    let limits = Limits { ready_ns: 60_000_000_000, late_ns: LATE_NS_MAX };
    answers_within(limits, script, reports, messages)
}

/// As `answers`, with other limits.
fn answers_within(
    limits: Limits,
    script: &str,
    reports: Reports,
    messages: &[ToTenant],
) -> Vec<FromTenant> {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(&file, script).expect("room for a script");
    let command = &format!("exec bash {}", file.path().display());
    let mut written = Vec::new();
    let input = BufReader::new(OneByOne(messages.iter()));
    let code = serve_within(limits, command, reports, input, &mut written);
    assert_eq!(code, 0);
    let text = String::from_utf8(written).expect("messages are text");
    let replies = text.lines().map(|line| from_line(line).expect("a message"));
    replies.skip(1).collect()
}

/// Delivers each message after the reply to the one before, as the coordinator does. The start of a
/// cell is chosen only then, because a busy host may take any time to start the program.
struct OneByOne<'m>(std::slice::Iter<'m, ToTenant>);

impl Read for OneByOne<'_> {
    fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
        let Some(message) = self.0.next() else { return Ok(0) };
        let line = match message {
            ToTenant::Go { t0_ns } => {
                to_line(&ToTenant::Go { t0_ns: Clock::wall().now_ns() + t0_ns })
            }
            other => to_line(other),
        };
        let line = line.map_err(std::io::Error::other)?;
        room[..line.len()].copy_from_slice(line.as_bytes());
        Ok(line.len())
    }
}

fn once_ready(rest: &str) -> String {
    format!("eval \"exec 8>&$GPUBENCH_VICTIM_FD\"\necho '{{\"ready\":true}}' >&8\n{rest}\n")
}

fn error(answer: &FromTenant) -> &str {
    match answer {
        FromTenant::Refused { text, .. } => text,
        other => panic!("expected an error, got {other:?}"),
    }
}

/// A cell of 60 ms and its log.
fn cell(log: &Path) -> [ToTenant; 2] {
    cell_of(60, log)
}

/// A cell of `ms` milliseconds: a closed loop in the first half, an open loop in the second.
fn cell_of(ms: u64, log: &Path) -> [ToTenant; 2] {
    let end_ns = ms * 1_000_000;
    let prepare = ToTenant::Prepare {
        id: "0".to_owned(),
        workload: None,
        load: LoadSpec::Victim {
            warmup_end_ns: 10_000_000,
            closed_end_ns: end_ns / 2,
            depth: 1,
            sparse: None,
            open_start_ns: end_ns / 2,
            open_end_ns: end_ns,
            rate_per_s: 100.0,
            bursts: None,
            seed: 1,
            outstanding_max: 10,
        },
        log: log.display().to_string(),
        capacity_rows: 1_000,
        cpu: None,
        reaper_cpu: None,
    };
    // Later than the moment of the message.
    let t0_ns = 5_000_000;
    [prepare, ToTenant::Go { t0_ns }]
}

#[test]
fn a_program_reports_its_requests() {
    // Reads the start of the run from the order and reports two requests after it.
    let program = r#"
        d=$GPUBENCH_VICTIM_FD
        eval "exec 7<&$d 8>&$d"
        echo '{"ready":true}' >&8
        read line <&7
        from=${line#*from_ns\":}; from=${from%%,*}
        echo "{\"start_ns\":$from,\"end_ns\":$((from + 7))}" >&8
        echo "{\"start_ns\":$((from + 12000000)),\"end_ns\":$((from + 12000009))}" >&8
        echo '{"done":true}' >&8
        read line <&7
    "#;
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let [prepare, go] = cell(&log);
    let replies = answers(program, Reports::Requests, &[OPEN, prepare, go, ToTenant::Close]);
    let [
        FromTenant::Opened { facts },
        FromTenant::Ready { schedule_hash: None, .. },
        FromTenant::Done { rows: 2, .. },
        FromTenant::Closed,
    ] = &replies[..]
    else {
        panic!("{replies:?}");
    };
    let pid: i32 = facts[PROGRAM_PID].parse().expect("a number");
    let gone = !Path::new(&format!("/proc/{pid}")).exists();
    assert!(gone, "closing ends the program");
    let rows = crate::log::read_log(&log).expect("a log").rows;
    let built: Vec<_> = rows.iter().map(|row| (row.phase, row.t_done_ns)).collect();
    use gpubench_record::Phase::{Closed, Warmup};
    assert_eq!(built, [(Warmup, 7), (Closed, 12_000_009)]);
}

#[test]
fn a_program_that_ends_or_violates_the_protocol_is_reported() {
    for (program, expected) in [
        ("exit 3", "the program ended: exit status 3"),
        ("no-such-program-here 2>/dev/null", "command not found"),
        ("kill -9 $$", "killed by signal 9"),
        (
            "eval \"exec $GPUBENCH_VICTIM_FD>&-\"; exec sleep 60",
            "the program closed its descriptor and runs on",
        ),
        ("echo '{\"done\":true}' >&$GPUBENCH_VICTIM_FD", "line 1 of the program"),
        ("echo '{\"error\":\"no device\"}' >&$GPUBENCH_VICTIM_FD", "the program says: no device"),
    ] {
        let replies = answers(program, Reports::Requests, &[OPEN]);
        assert!(error(&replies[0]).contains(expected), "{program}: {replies:?}");
    }
    let replies = answers("true", Reports::Requests, &[ToTenant::FindSms]);
    assert!(error(&replies[0]).contains("does not support"), "{replies:?}");
}

#[test]
fn printed_lines_count_as_requests() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    // Long enough for some steps on a busy host.
    let [prepare, go] = cell_of(1_000, &log);
    // It ignores SIGTERM, and so do its children.
    let program = "trap '' TERM; while true; do echo step; sleep 0.002; done";
    let replies = answers(program, Reports::Lines, &[OPEN, prepare, go, ToTenant::Close]);
    let [
        FromTenant::Opened { .. },
        FromTenant::Ready { schedule_hash: None, .. },
        FromTenant::Done { rows, .. },
        FromTenant::Closed,
    ] = &replies[..]
    else {
        panic!("{replies:?}");
    };
    let logged = crate::log::read_log(&log).expect("a log").rows;
    assert!(*rows > 1 && logged.len() as u64 == *rows, "{rows}");
    // Each starts at the end of the one before.
    assert!(logged.windows(2).all(|pair| pair[0].t_done_ns == pair[1].t_issue_ns));
}

// Time and rate limits of programs.

#[test]
fn a_silent_program_times_out() {
    let limits = Limits { ready_ns: 300_000_000, late_ns: 200_000_000 };
    let replies = answers_within(limits, "sleep 60", Reports::Requests, &[OPEN]);
    let what = error(&replies[0]);
    assert!(
        what.starts_with(
            "it was not ready within 0.3 s, which --victim-ready sets: no {\"ready\":true} came"
        ),
        "{what}"
    );
    let replies = answers_within(limits, "sleep 60", Reports::Lines, &[OPEN]);
    assert!(error(&replies[0]).ends_with("it printed no line"), "{replies:?}");
    let folder = tempfile::tempdir().expect("a folder");
    let [prepare, go] = cell(&folder.path().join("log"));
    let program = once_ready("sleep 60");
    let replies = answers_within(limits, &program, Reports::Requests, &[OPEN, prepare, go]);
    let what = error(&replies[2]);
    assert_eq!(what, "the program did not report {\"done\":true} within 0.2 s of until_ns");
}

#[test]
fn an_unread_order_times_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let [mut prepare, go] = cell(&folder.path().join("log"));
    if let ToTenant::Prepare { load: LoadSpec::Victim { rate_per_s, .. }, capacity_rows, .. } =
        &mut prepare
    {
        // More arrivals than a socket buffers.
        (*rate_per_s, *capacity_rows) = (1e6, 1);
    }
    let program = r#"
        eval "exec 8>&$GPUBENCH_VICTIM_FD"
        echo '{"ready":true,"arrivals":true}' >&8
        sleep 60
    "#;
    let replies = answers(program, Reports::Requests, &[OPEN, prepare, go]);
    assert!(error(&replies[2]).starts_with("the program left an order unread for"), "{replies:?}");
}

#[test]
fn a_program_that_reports_too_fast_is_stopped() {
    let folder = tempfile::tempdir().expect("a folder");
    let requests = r#"
        d=$GPUBENCH_VICTIM_FD
        eval "exec 7<&$d 8>&$d"
        echo '{"ready":true}' >&8
        read line <&7
        from=${line#*from_ns\":}; from=${from%%,*}
        yes "{\"start_ns\":$from,\"end_ns\":$((from + 7))}" >&8
    "#;
    // It writes too much before the first order.
    let early = once_ready("yes 'step' >&8");
    let endless = once_ready(r"yes | tr -d '\n' >&8");
    let cases = [
        (requests, Reports::Requests, "more than 100000 requests a second"),
        (
            early.as_str(),
            Reports::Requests,
            "\"step\": it is no JSON object (accepted: {\"ready\":true}",
        ),
        (endless.as_str(), Reports::Requests, "line 2 of the program, \"yyyyyyyyyyyyy"),
        ("yes", Reports::Lines, "more than 100000 requests a second"),
    ];
    for (number, (program, reports, expected)) in cases.into_iter().enumerate() {
        let [prepare, go] = cell(&folder.path().join(number.to_string()));
        let replies = answers(program, reports, &[OPEN, prepare, go, ToTenant::Close]);
        assert!(error(&replies[2]).contains(expected), "{program}: {replies:?}");
        assert_eq!(replies[3], FromTenant::Closed);
    }
}
