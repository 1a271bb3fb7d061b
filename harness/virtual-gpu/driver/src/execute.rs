//! Carries out the operations of streams: one `match` over all of them.
//!
//! The launch of a graph is here too, because its steps are operations.

use crate::code::Code;
use crate::entries::StreamEntry;
use crate::graph::entries::ExecEntry;
use crate::graph::instantiate;
use crate::launch::{self, Request};
use crate::operation::{Action, WaitPolicy};
use crate::process::Process;
use crate::submit::{mark, submitted, wait_for};
use crate::{copy, event, fill, pool};

/// Carries out an action in a stream.
pub fn run(
    process: &Process,
    stream: &StreamEntry,
    action: &Action,
    policy: WaitPolicy,
) -> Result<(), Code> {
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
        Action::Copy(copy) => copy::run(process, stream, copy, policy),
        Action::Fill(fill) => fill::run(process, stream, fill, policy),
        Action::Record(event) => event::record(process, stream, *event, policy),
        Action::Wait(event) => event::wait(process, stream, *event, policy),
        Action::Allocate(reserved) => instantiate::place_reserved(process, stream, *reserved),
        Action::Free(address) => pool::free(process, stream, *address, policy),
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
        run(process, &own, &step.action, WaitPolicy::Graph)?;
        done.push(submitted(own.slot)?);
    }
    for lane in &entry.lanes {
        wait_for(process, stream.slot, *lane, submitted(*lane)?)?;
    }
    Ok(())
}
