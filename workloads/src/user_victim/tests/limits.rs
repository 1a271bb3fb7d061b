//! Time and rate limits of programs.

use super::*;

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
    let program = r#"
        eval "exec 8>&$GPUBENCH_VICTIM_FD"
        echo '{"ready":true}' >&8
        sleep 60
    "#;
    let replies = answers_within(limits, program, Reports::Requests, &[OPEN, prepare, go]);
    let what = error(&replies[2]);
    assert_eq!(what, "the program did not report {\"done\":true} within 0.2 s of until_ns");
}

#[test]
fn an_unread_order_times_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let [prepare, go] = cell(&folder.path().join("log"));
    let ToTenant::Prepare { mut load, .. } = prepare.clone() else {
        panic!("a cell is prepared");
    };
    // More arrivals than a socket buffers.
    if let LoadSpec::Victim { rate_per_s, .. } = &mut load {
        *rate_per_s = 1e6;
    }
    let prepare = match prepare {
        ToTenant::Prepare { id, log, .. } => ToTenant::Prepare {
            id,
            workload: None,
            load,
            log,
            capacity_rows: 1,
            cpu: None,
            reaper_cpu: None,
        },
        other => other,
    };
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
    let early = r#"
        eval "exec 8>&$GPUBENCH_VICTIM_FD"
        echo '{"ready":true}' >&8
        yes 'step' >&8
    "#;
    let endless = r#"
        eval "exec 8>&$GPUBENCH_VICTIM_FD"
        echo '{"ready":true}' >&8
        yes | tr -d '\n' >&8
    "#;
    let cases = [
        (requests, Reports::Requests, "more than 100000 requests a second"),
        (early, Reports::Requests, "line 2 of the program, \"step\": it is no JSON object"),
        (endless, Reports::Requests, "line 2 of the program, \"yyyyyyyyyyyyy"),
        ("yes", Reports::Lines, "more than 100000 requests a second"),
    ];
    for (number, (program, reports, expected)) in cases.into_iter().enumerate() {
        let [prepare, go] = cell(&folder.path().join(number.to_string()));
        let replies = answers(program, reports, &[OPEN, prepare, go, ToTenant::Close]);
        assert!(error(&replies[2]).contains(expected), "{program}: {replies:?}");
        assert_eq!(replies[3], FromTenant::Closed);
    }
}
