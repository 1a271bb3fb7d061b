//! The tenant over its pipes, on a machine without a GPU: everything that needs no device.

use std::io::Cursor;

use gpubench_record::LoadSpec;
use gpubench_record::wire::Participants;

use super::*;

fn serve_lines(lines: &str) -> (Vec<FromTenant>, ExitCode) {
    let mut written = Vec::new();
    let code = serve_device(Clock::wall(), Cursor::new(lines.to_owned()), &mut written);
    let text = String::from_utf8(written).expect("messages are text");
    let replies = text.lines().map(|line| from_line(line).expect("a message")).collect();
    (replies, code)
}

fn serve_messages(messages: &[ToTenant]) -> (Vec<FromTenant>, ExitCode) {
    let lines: String =
        messages.iter().map(|message| to_line(message).expect("finite figures")).collect();
    serve_lines(&lines)
}

fn error(reply: &FromTenant) -> (&str, &str) {
    match reply {
        FromTenant::Refused { doing, text, .. } => (doing, text),
        other => panic!("expected an error, got {other:?}"),
    }
}

#[test]
fn it_sends_a_hello_and_ends_with_the_coordinator() {
    for lines in ["", &to_line(&ToTenant::Quit).expect("a line")] {
        let (replies, code) = serve_lines(lines);
        assert_eq!(code, ExitCode::Done);
        let [FromTenant::Hello { protocol, pid, clock, time_namespace }] = &replies[..] else {
            panic!("expected a hello alone, got {replies:?}");
        };
        assert_eq!((*protocol, *pid, clock.as_str()), (PROTOCOL, std::process::id(), "wall"));
        assert_ne!(*time_namespace, 0);
    }
}

#[test]
fn every_message_has_one_reply_and_quit_has_none() {
    let load = LoadSpec::Idle { end_ns: 1 };
    let prepare = ToTenant::Prepare {
        id: "c".to_owned(),
        workload: None,
        load,
        log: "unused".to_owned(),
        capacity_rows: 1,
        cpu: None,
        reaper_cpu: None,
    };
    let calibrate =
        ToTenant::Calibrate { workload: "compute".to_owned(), share: 0.5, service_ns: 1 };
    let verify = ToTenant::Verify { workloads: vec!["compute".to_owned()] };
    let (go, close) = (ToTenant::Go { t0_ns: 0 }, ToTenant::Close);
    let messages = [prepare, calibrate, verify, go, close, ToTenant::Quit, ToTenant::Close];
    let (replies, code) = serve_messages(&messages);
    assert_eq!(code, ExitCode::Done);
    let answers: Vec<_> = replies[1..].iter().map(error).collect();
    let not_open = "the device is not open";
    assert_eq!(
        answers,
        [
            ("preparing a cell", not_open),
            ("calibrating", not_open),
            ("verifying", not_open),
            ("running a cell", not_open),
            ("closing the device", not_open),
        ]
    );
}

#[test]
fn an_unreadable_message_is_refused_and_the_next_one_answered() {
    let good = to_line(&ToTenant::Close).expect("a line");
    let (replies, code) = serve_lines(&format!("{{\"to\":\"dance\"}}\nnonsense\n{good}"));
    assert_eq!(code, ExitCode::Done);
    assert_eq!(error(&replies[1]).0, "reading a message");
    assert_eq!(error(&replies[2]).0, "reading a message");
    assert_eq!(error(&replies[3]).1, "the device is not open");
}

#[test]
fn one_number_for_both_threads_is_refused_before_a_driver_call() {
    let participants = Participants { issuer: 4, reaper: 4 };
    let open = ToTenant::Open { ordinal: 0, spin: false, participants, inside: None };
    let (replies, _) = serve_messages(&[open]);
    assert_eq!(error(&replies[1]).1, "issuer and reaper have the same number");
}

#[test]
fn a_closed_pipe_ends_the_tenant() {
    struct Gone;
    impl Write for Gone {
        fn write(&mut self, _bytes: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    assert_eq!(serve_device(Clock::wall(), Cursor::new(""), Gone), ExitCode::Internal);
}

#[test]
fn a_panic_is_reported_with_its_text() {
    let text = |panic: Box<dyn std::any::Any + Send>| panic_text(&*panic).to_owned();
    assert_eq!(text(Box::new("a literal")), "a literal");
    assert_eq!(text(Box::new("formatted".to_owned())), "formatted");
    assert_eq!(text(Box::new(7)), "of an unknown kind");
}
