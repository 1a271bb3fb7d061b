//! The victim protocol: messages between gpubench and a user's program that is the victim. One JSON
//! object a line, both ways, on one descriptor.
//!
//! All times are nanoseconds of `CLOCK_MONOTONIC`. The book has the protocol.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The variable that names the descriptor.
pub const DESCRIPTOR_ENV: &str = "GPUBENCH_VICTIM_FD";

/// The workload name of a user victim in records.
pub const USER_VICTIM: &str = "user-victim";

/// The messages that a program may send, for error texts.
pub const ACCEPTED: &str = "{\"ready\":true}, {\"start_ns\":N,\"end_ns\":N}, {\"done\":true}, \
                            {\"error\":\"TEXT\"}";

named! {
    /// How the program reports its work.
    pub enum Reports {
        /// It reports each request on the descriptor.
        Requests = "requests",
        /// Each line on its standard output is one completed request.
        Lines = "lines",
    }
}

impl Reports {
    /// The variant of that word.
    pub fn find(word: &str) -> Option<Self> {
        [Self::Requests, Self::Lines].into_iter().find(|known| known.as_str() == word)
    }
}

/// A user's program as the victim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UserVictim {
    /// The command, as a shell reads it.
    pub command: String,
    /// How it reports its work.
    pub reports: Reports,
    /// Longest wait until it is ready. Old records lack it: it was 300 s.
    #[serde(default = "ready_ns_of_old_records")]
    pub ready_ns: u64,
}

const fn ready_ns_of_old_records() -> u64 {
    300_000_000_000
}

/// From gpubench to the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToProgram {
    /// Work.
    Run(RunOrder),
    /// End.
    Quit(bool),
}

/// A run of requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOrder {
    /// Begin of the closed loop: one request after the other.
    pub from_ns: u64,
    /// End of the closed loop: no request begins later.
    pub closed_until_ns: u64,
    /// Then one request at each of these instants. Empty for a program that does not follow
    /// instants: it continues one request after the other.
    pub arrivals_ns: Vec<u64>,
    /// No request begins later.
    pub until_ns: u64,
}

/// From the program to gpubench.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromProgram {
    /// Its context is open and one-time work is done.
    Ready {
        /// Whether it begins requests at the instants of a run order.
        arrivals: bool,
    },
    /// One request ended.
    Request(Request),
    /// It has completed the last order.
    Done,
    /// It cannot go on.
    Error(String),
}

/// One request of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The arrival instant of the run order that it follows, if any.
    pub due_ns: Option<u64>,
    /// When it began.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// Whether it failed.
    pub failed: bool,
}

/// All keys of all lines.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Line {
    ready: Option<bool>,
    arrivals: Option<bool>,
    due_ns: Option<u64>,
    start_ns: Option<u64>,
    end_ns: Option<u64>,
    failed: Option<bool>,
    done: Option<bool>,
    error: Option<String>,
}

impl FromProgram {
    /// Reads one line.
    /// Fails with a text, when the line is not one of [`ACCEPTED`].
    pub fn read(line: &str) -> Result<Self, String> {
        let line: Line = serde_json::from_str(line.trim()).map_err(|error| {
            if error.is_syntax() || error.is_eof() {
                return "it is no JSON object".to_owned();
            }
            // The error is shown beside the line, so its position is left out.
            let text = error.to_string();
            let end = text.find(" at line ").unwrap_or(text.len());
            text[..end].replace(", expected one of", ", known are")
        })?;
        let Line { ready, arrivals, due_ns, start_ns, end_ns, failed, done, error } = line;
        match (ready, start_ns, end_ns, done, error) {
            (Some(true), None, None, None, None) => {
                Ok(Self::Ready { arrivals: arrivals == Some(true) })
            }
            (None, Some(start_ns), Some(end_ns), None, None) if start_ns <= end_ns => {
                Ok(Self::Request(Request {
                    due_ns,
                    start_ns,
                    end_ns,
                    failed: failed == Some(true),
                }))
            }
            (None, Some(start_ns), Some(end_ns), None, None) => {
                Err(format!("end_ns {end_ns} is before start_ns {start_ns}"))
            }
            (None, None, None, Some(true), None) => Ok(Self::Done),
            (None, None, None, None, Some(error)) => Ok(Self::Error(error)),
            _ => Err("these keys do not go together".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FromProgram, Reports, Request, RunOrder, ToProgram};
    use crate::wire::to_line;

    #[test]
    fn reads_every_message_of_a_program() {
        let request = |due_ns, failed| Request { due_ns, start_ns: 5, end_ns: 9, failed };
        for (line, expected) in [
            ("{\"ready\":true}", FromProgram::Ready { arrivals: false }),
            ("{\"ready\": true, \"arrivals\": true}\n", FromProgram::Ready { arrivals: true }),
            ("{\"start_ns\":5,\"end_ns\":9}", FromProgram::Request(request(None, false))),
            (
                "{\"due_ns\":4,\"start_ns\":5,\"end_ns\":9,\"failed\":true}",
                FromProgram::Request(request(Some(4), true)),
            ),
            (
                "{\"due_ns\":null,\"start_ns\":5,\"end_ns\":9}",
                FromProgram::Request(request(None, false)),
            ),
            ("{\"done\":true}", FromProgram::Done),
            ("{\"error\":\"no\"}", FromProgram::Error("no".to_owned())),
        ] {
            assert_eq!(FromProgram::read(line), Ok(expected), "{line}");
        }
    }

    #[test]
    fn names_what_is_wrong_with_other_lines() {
        for (line, problem) in [
            ("hello", "it is no JSON object"),
            ("took 3 ms", "it is no JSON object"),
            ("{\"ready\":tr", "it is no JSON object"),
            ("3", "invalid type"),
            ("{\"begin_ns\":5}", "unknown field `begin_ns`"),
            ("{\"start_ns\":9,\"end_ns\":5}", "end_ns 5 is before start_ns 9"),
            ("{\"start_ns\":9}", "do not go together"),
            ("{\"start_ns\":-1,\"end_ns\":5}", "invalid value"),
            ("{\"ready\":true,\"done\":true}", "do not go together"),
            ("{\"ready\":false}", "do not go together"),
        ] {
            let read = FromProgram::read(line);
            assert!(read.as_ref().is_err_and(|why| why.contains(problem)), "{line}: {read:?}");
        }
    }

    #[test]
    fn writes_each_order_as_one_line() -> Result<(), serde_json::Error> {
        let order =
            RunOrder { from_ns: 1, closed_until_ns: 2, arrivals_ns: vec![3, 4], until_ns: 5 };
        assert_eq!(
            to_line(&ToProgram::Run(order))?,
            "{\"run\":{\"from_ns\":1,\"closed_until_ns\":2,\"arrivals_ns\":[3,4],\"until_ns\":5}}\n"
        );
        assert_eq!(to_line(&ToProgram::Quit(true))?, "{\"quit\":true}\n");
        Ok(())
    }

    #[test]
    fn words_are_those_of_profiles() {
        for reports in [Reports::Requests, Reports::Lines] {
            assert_eq!(serde_json::json!(reports), reports.as_str());
            assert_eq!(Reports::find(reports.as_str()), Some(reports));
        }
        assert_eq!(Reports::find("utilisation"), None);
    }
}
