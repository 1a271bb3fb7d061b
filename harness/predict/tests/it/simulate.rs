//! Output of `simulate`, sweeps, and refused input.

use gpubench_predict::simulate::event::EventOptions;
use gpubench_predict::simulate::output::{csv, page};
use gpubench_predict::simulate::report::{Report, Request, report};
use gpubench_predict::simulate::scenario::Scenario;
use gpubench_predict::simulate::{Mode, event};
use gpubench_show::Look;
use std::num::NonZeroUsize;

fn request() -> Request {
    Request {
        scenario: Scenario { duration_s: 40.0, ..Scenario::default() },
        replications: 4,
        coverage: 0.95,
        loads: vec![1.3, 0.1, 0.3, 0.5, 0.7, 0.9],
        threads: NonZeroUsize::new(2).expect("not zero"),
    }
}

fn text(report: &Report) -> String {
    page(report, Vec::new()).text(Look::PIPED)
}

#[test]
fn the_table_says_of_what_each_load_is() {
    let one = Request { loads: Vec::new(), ..request() };
    let text = text(&report(&one).expect("a report"));
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("load: of the busiest queue, its busy time per second"), "{text}");
    assert!(words.contains("time-slice has one for all"), "{text}");
}

fn swept() -> Report {
    report(&request()).expect("a report")
}

#[test]
fn replications_are_counted_if_a_mode_is_overloaded() {
    let mut request = request();
    // MIG, the first mode, has no interval at this rate.
    (request.scenario.rate_per_s, request.loads) = (15.0, Vec::new());
    let text = text(&report(&request).expect("a report"));
    assert!(text.contains("mean over 4 replications"), "{text}");
    assert!(text.contains("overloaded"), "{text}");
}

#[test]
fn a_sweep_rises_and_reports_overload() {
    let report = swept();
    let sweep = report.sweep.as_ref().expect("a sweep");
    assert!(sweep.points.is_sorted_by(|a, b| a.device_load < b.device_load));
    let slice = |place: usize| &sweep.points[place].modes[2];
    let p99_ms = |place: usize| slice(place).p99_ms.expect("stable").value;
    assert!(p99_ms(0) < p99_ms(2) && p99_ms(2) < p99_ms(4));
    // A load of 1.3: no latency, only growth.
    let last = slice(5);
    assert_eq!((last.p99_ms, last.mean_ms, last.overloaded), (None, None, 4));
    assert!(last.growth_per_s.is_some_and(|growth| growth > 25.0), "{last:?}");
    let knee = sweep.knees.iter().find(|knee| knee.mode == Mode::TimeSlice).expect("a knee");
    assert!((0.2..0.8).contains(&knee.device_load), "{knee:?}");
}

#[test]
fn csv_has_a_row_for_each_load_and_mode() {
    let text = csv(&swept());
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().expect("a header").split(',').collect();
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 6 * 3);
    assert!(rows.iter().all(|row| row.len() == header.len()), "{text}");
    let overloaded = rows.iter().filter(|row| row.contains(&"overloaded"));
    assert!(overloaded.count() >= 2, "{text}");
    let plain = Request { loads: Vec::new(), replications: 1, ..request() };
    let text = csv(&report(&plain).expect("a report"));
    assert_eq!(text.lines().count(), 4, "{text}");
}

#[test]
fn wrong_values_are_refused_on_one_line() {
    let refused = |toml: &str| {
        let read = Scenario::from_toml(toml).and_then(|scenario| scenario.check());
        let text = read.expect_err(toml).to_string();
        assert!(!text.contains('\n'), "{text}");
        text
    };
    let cases = [
        ("tenants = 0", "tenants is 0: accepted is a whole number from 1 to 1024"),
        ("rate_per_s = -3", "rate_per_s is -3: accepted is a number above 0"),
        ("service_ms = nan", "service_ms is NaN"),
        ("duration_s = inf", "duration_s is inf"),
        ("tenants = 7\nservce_ms = 3", "scenario, line 2: unknown field `servce_ms`"),
        ("tenants = \"many\"", "scenario, line 1: invalid type"),
        ("rng = \"dice\"", "line 1: unknown variant `dice`"),
        ("rate_per_s = 1e9", "at most 200000000 requests"),
        ("[[tenant]]\nindex = 7", "tenant.index is 7: accepted is a tenant from 0 to 6"),
        ("[[tenant]]\nindex = 1\n[[tenant]]\nindex = 1", "accepted is each tenant once"),
        ("[hostile]\nservice_factor = 0", "hostile.service_factor is 0"),
        ("[event]\nmps_percent = 120", "event.mps_percent is 120"),
        ("[event]\nwarmup_s = 60", "event.warmup_s is 60: accepted is less than"),
        ("[event]\nservice = { kind = \"hyper-exponential\", cv = 0.5 }", "service.cv is 0.5"),
        ("[event]\nmig = [\"1g.5gb\"]", "event.mig is 1g.5gb: accepted is one profile for each"),
        ("tenants = 1\n[event]\nmig = [\"1g.5gb\"]", "event.gpu is missing"),
        (
            "tenants = 1\n[event]\ngpu = \"A100-80\"\nmig = [\"1g.5gb\"]",
            "unknown MIG profile \"1g.5gb\" (known: on A100-80: 1g.10gb",
        ),
        (
            "tenants = 2\n[event]\ngpu = \"V100\"\nmig = [\"4g.71gb\", \"3g.71gb\"]",
            "unknown MIG-capable GPU \"V100\"",
        ),
        (
            "tenants = 2\n[event]\ngpu = \"H200-141\"\nmig = [\"4g.71gb\", \"4g.71gb\"]",
            "accepted is a mix that fits on H200-141",
        ),
        (
            "tenants = 1\n[event]\ngpu = \"H100-94\"\nmig = [\"1g.12gb\"]",
            "the SM count of 1g.12gb on H100-94 is missing",
        ),
    ];
    for (toml, expected) in cases {
        let text = refused(toml);
        assert!(text.contains(expected), "{toml}: {text}");
    }
}

#[test]
fn wrong_requests_are_refused() {
    let with = |change: fn(&mut Request)| {
        let mut request = request();
        change(&mut request);
        report(&request).expect_err("refused").to_string()
    };
    assert!(with(|request| request.replications = 0).contains("replications is 0"));
    let one_run = with(|request| {
        (request.replications, request.coverage) = (1, 1.5);
        request.loads.clear();
    });
    assert!(one_run.contains("confidence is 1.5"), "{one_run}");
    assert!(with(|request| request.coverage = 1.0).contains("confidence is 1"));
    assert!(with(|request| request.loads = vec![-0.5]).contains("loads is -0.5"));
}

#[test]
fn a_scenario_is_equal_after_json() {
    let scenario = Scenario { event: Some(EventOptions::default()), ..Scenario::default() };
    let text = serde_json::to_string(&scenario).expect("json");
    assert_eq!(serde_json::from_str::<Scenario>(&text).expect("a scenario"), scenario);
    let names = event::MODES.map(Mode::name);
    assert_eq!(names, ["MIG", "MPS", "time-slice", "HAMi"]);
}
