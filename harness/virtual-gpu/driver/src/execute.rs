//! Carries out the operations of streams, or captures them: one `match` over all of them.
//!
//! The launch of a graph is here too, because its steps are operations.

use crate::code::Code;
use crate::entries::StreamEntry;
use crate::graph::entries::ExecEntry;
use crate::graph::{capture, instantiate};
use crate::issue::Issue;
use crate::launch::{self, Request};
use crate::operation::{Action, WaitPolicy};
use crate::process::Process;
use crate::submit::{mark, submitted, wait_for};
use crate::{copy, event, fill, pool};

/// Carries out an action in a stream, or adds it to the graph that the stream is captured into.
pub fn perform(
    process: &Process,
    stream: &StreamEntry,
    action: Action,
    policy: WaitPolicy,
) -> Result<(), Code> {
    let issue = Issue { process, stream, policy };
    match capture::recorded(issue, action)? {
        None => Ok(()),
        Some(action) => run(issue, &action),
    }
}

pub fn run(issue: Issue<'_>, action: &Action) -> Result<(), Code> {
    let Issue { process, stream, policy } = issue;
    match action {
        Action::Kernel(kernel) => {
            let request = Request {
                function: &kernel.function,
                stream: *stream,
                shape: kernel.shape,
                params: kernel.params.clone(),
            };
            launch::launch(process, &request, policy)
        }
        Action::Copy(copy) => copy::run(issue, copy),
        Action::Fill(fill) => fill::run(issue, fill),
        Action::Record(event) => event::record(issue, *event),
        Action::Wait(event) => event::wait(issue, *event),
        Action::Allocate(reserved) => instantiate::place_reserved(process, stream, *reserved),
        Action::Free(address) => pool::free(issue, *address),
    }
}

/// Queues every step of a graph.
pub fn launch_graph(
    process: &Process,
    entry: &ExecEntry,
    stream: &StreamEntry,
) -> Result<(), Code> {
    let lane_of = |lane: usize| match lane {
        0 => *stream,
        _ => StreamEntry { slot: entry.lanes[lane - 1], ..*stream },
    };
    if !entry.lanes.is_empty() {
        // The lanes wait for a mark in the stream, and so for all that the stream waits for.
        mark(process, stream)?;
    }
    let begin = submitted(stream.slot)?;
    for lane in &entry.lanes {
        wait_for(process, *lane, stream.slot, begin)?;
    }
    let mut done: Vec<u64> = Vec::new();
    for step in &entry.steps {
        let own = lane_of(step.lane);
        for &earlier in &step.after {
            let other = lane_of(entry.steps[earlier].lane).slot;
            if other != own.slot {
                wait_for(process, own.slot, other, done[earlier])?;
            }
        }
        run(Issue { process, stream: &own, policy: WaitPolicy::Graph }, &step.action)?;
        done.push(submitted(own.slot)?);
    }
    for lane in &entry.lanes {
        wait_for(process, stream.slot, *lane, submitted(*lane)?)?;
    }
    Ok(())
}
