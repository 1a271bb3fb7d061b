//! Work that a stream cannot begin yet, because it waits for something outside of the model: a word
//! in memory, a function of the program, or another stream's deferred work.
//!
//! Effects on bytes happen when work is carried out, so such work is deferred, and so is all later
//! work of the stream. A thread of the driver, a participant of the clock, carries it out when it
//! can begin, and ends when the queue is empty. Also deferred are work of the legacy stream and of
//! blocking streams that would wait for deferred work, and waits for events with a deferred record.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::bytes::is_pageable;
use crate::code::{self, Code};
use crate::deferred::{DeferredQueue, Item, Position};
use crate::entries::StreamEntry;
use crate::event;
use crate::execute::run;
use crate::handles::Handle;
use crate::operation::{Action, WaitPolicy};
use crate::process::{Process, process};
use crate::stream::{self, NON_BLOCKING};
use crate::stream_memory_ops::{self, notice};
use crate::submit::{charge, mark};
use crate::tables::Tables;
use gpubench_virtual_gpu_model::state::Order;

/// Carries out an action of a stream now, or defers it until it can begin.
pub fn pass(
    process: &Process,
    stream: &StreamEntry,
    action: Action,
    policy: WaitPolicy,
) -> Result<(), Code> {
    notice(process, None)?;
    let (behind, after) = positions_before(process, stream, &action)?;
    if !behind && after.is_empty() && !waits_for_host(process, &action)? {
        return carry_out(process, stream, &action, policy);
    }
    if !process.device.can_wait() {
        crate::diagnostics::say(
            "work cannot be deferred: the calling thread has not joined the clock",
        );
        return Err(code::NOT_SUPPORTED);
    }
    let waits = policy == WaitPolicy::Now || is_pageable(process, &action);
    charge(process, policy, process.device.machine().host.event_ns)?;
    let number = defer(process, stream, action, after)?;
    if waits {
        process.device.wait_held(stream.slot, number)?;
        stream::wait_for_all(process, stream)?;
        process.check_sticky(stream.context)?;
    }
    Ok(())
}

/// Waits until no stream has deferred work.
pub fn drain(process: &Process) -> Result<(), Code> {
    let positions: Vec<Position> = {
        let tables = process.tables();
        let positions = tables
            .deferred_queues
            .iter()
            .map(|(slot, b)| (*slot, b.last));
        positions.collect()
    };
    for (slot, number) in positions {
        process.device.wait_held(slot, number)?;
    }
    Ok(())
}

fn carry_out(
    process: &Process,
    stream: &StreamEntry,
    action: &Action,
    policy: WaitPolicy,
) -> Result<(), Code> {
    run(process, stream, action, policy)?;
    notice(process, Some(stream.slot))
}

/// Whether the stream has deferred work already, and the deferred work of other streams that the
/// action has to wait for.
fn positions_before(
    process: &Process,
    stream: &StreamEntry,
    action: &Action,
) -> Result<(bool, Vec<Position>), Code> {
    let tables = process.ready()?;
    let mut after = Vec::new();
    if let Action::Wait(event) = action {
        let pending = tables.events.get(*event as Handle)?.pending;
        after.extend(pending.filter(|(slot, _)| *slot != stream.slot));
    }
    if tables.deferred_queues.is_empty() {
        return Ok((false, after));
    }
    let own = order_of(&tables, stream);
    for (slot, queue) in &tables.deferred_queues {
        let ordered = matches!(
            (own, queue.order),
            (Order::Legacy, Order::Blocking) | (Order::Blocking, Order::Legacy)
        );
        if ordered && queue.stream.placement.context == stream.placement.context {
            after.push((*slot, queue.last));
        }
    }
    Ok((tables.deferred_queues.contains_key(&stream.slot), after))
}

fn order_of(tables: &Tables, stream: &StreamEntry) -> Order {
    let mut contexts = tables.contexts.values();
    if contexts.any(|context| context.default_stream == stream.slot) {
        Order::Legacy
    } else if stream.flags & NON_BLOCKING == 0 {
        Order::Blocking
    } else {
        Order::Free
    }
}

/// Whether an action has to wait for the host.
fn waits_for_host(process: &Process, action: &Action) -> Result<bool, Code> {
    Ok(match action {
        Action::Host(_) | Action::Callback(_) => true,
        Action::Await(word) => !stream_memory_ops::passes(process, word)?,
        Action::Launch(graph) => {
            let mut steps = graph.steps.iter();
            steps.any(|step| matches!(step.action, Action::Host(_) | Action::Batch(_)))
        }
        _ => false,
    })
}

/// Defers work, and starts the thread that will carry it out if there is none. Returns the work's
/// number.
fn defer(
    process: &Process,
    stream: &StreamEntry,
    action: Action,
    after: Vec<Position>,
) -> Result<u64, Code> {
    let device = &process.device;
    let stream_wait = match &action {
        Action::Await(word) if !stream_memory_ops::passes(process, word)? => {
            Some(stream_memory_ops::arm(process, stream, word)?)
        }
        _ => None,
    };
    let given = device.shared().transact(|state, _| {
        let row = &mut state.streams.rows[stream.slot as usize];
        row.given += 1;
        row.given
    });
    let number = given?;
    let mut tables = process.tables();
    if let Action::Record(event) = action {
        tables.events.get_mut(event as Handle)?.pending = Some((stream.slot, number));
    }
    let item = Item {
        action,
        number,
        after,
        stream_wait,
    };
    if let Some(queue) = tables.deferred_queues.get_mut(&stream.slot) {
        queue.items.push_back(item);
        queue.last = number;
        return Ok(number);
    }
    let given_up = Arc::new(AtomicBool::new(false));
    let queue = DeferredQueue {
        stream: *stream,
        order: order_of(&tables, stream),
        items: VecDeque::from([item]),
        last: number,
        given_up: Arc::clone(&given_up),
    };
    tables.deferred_queues.insert(stream.slot, queue);
    drop(tables);
    start(process, stream, given_up)?;
    Ok(number)
}

/// Starts the thread of a queue.
fn start(process: &Process, stream: &StreamEntry, given_up: Arc<AtomicBool>) -> Result<(), Code> {
    let stream = *stream;
    let device = &process.device;
    let id = match device.is_virtual_time() {
        true => Some(device.expect_own()?),
        false => None,
    };
    let named = std::thread::Builder::new().name(format!("cuda-stream-{}", stream.slot));
    let started = named.spawn(move || {
        // The failure has been reported to the context.
        let _ = serve(&stream, id, &given_up);
    });
    if started.is_ok() {
        return Ok(());
    }
    if let Some(id) = id {
        device.abandon(id)?;
    }
    process.tables().deferred_queues.remove(&stream.slot);
    Err(code::OUT_OF_MEMORY)
}

/// Body of the thread: carries out the deferred work in order.
fn serve(stream: &StreamEntry, id: Option<u32>, given_up: &Arc<AtomicBool>) -> Result<(), Code> {
    let process = process()?;
    let device = &process.device;
    if let Some(id) = id {
        device.join(id)?;
    }
    while let Some(item) = next(process, stream, given_up) {
        let done = step(process, stream, &item, given_up);
        if given_up.load(Ordering::Acquire) {
            break;
        }
        if let Err(code) = done {
            fail(process, stream, &item.action, code)?;
        }
        settle(process, stream, &item)?;
    }
    device.leave()?;
    Ok(())
}

/// The next deferred work. Without any, the queue is removed.
fn next(process: &Process, stream: &StreamEntry, given_up: &Arc<AtomicBool>) -> Option<Item> {
    let mut tables = process.tables();
    let queue = tables.deferred_queues.get_mut(&stream.slot)?;
    if !Arc::ptr_eq(&queue.given_up, given_up) {
        return None;
    }
    let item = queue.items.pop_front();
    if item.is_none() {
        tables.deferred_queues.remove(&stream.slot);
    }
    item
}

/// Waits until deferred work can begin, and carries it out.
fn step(
    process: &Process,
    stream: &StreamEntry,
    item: &Item,
    given_up: &AtomicBool,
) -> Result<(), Code> {
    for &(slot, number) in &item.after {
        process.device.wait_held(slot, number)?;
    }
    if let Action::Await(word) = &item.action {
        // The device tests the word when the stream has reached this position.
        let seq = mark(process, stream)?;
        process.device.wait_stream(stream.slot, seq)?;
        if item.stream_wait.is_some() || !stream_memory_ops::passes(process, word)? {
            return stream_memory_ops::wait(process, stream, word, item.stream_wait);
        }
    }
    if given_up.load(Ordering::Acquire) {
        return Ok(());
    }
    if !matches!(item.action, Action::Callback(_) | Action::Close) {
        process.check_sticky(stream.context)?;
    }
    carry_out(process, stream, &item.action, WaitPolicy::Graph)
}

/// Counts work as carried out, for the threads that wait for it.
fn settle(process: &Process, stream: &StreamEntry, item: &Item) -> Result<(), Code> {
    if let Action::Record(event) = item.action {
        event::settle(process, event as Handle, (stream.slot, item.number));
    }
    let taken = |row: &mut gpubench_virtual_gpu_model::state::Stream| {
        row.taken = row.taken.max(item.number)
    };
    process
        .device
        .transact(|state, _| taken(&mut state.streams.rows[stream.slot as usize]))?;
    process.device.shared().notify_change();
    Ok(())
}

/// Gives the error of deferred work to its context, as a fault on the device does. An event that
/// was destroyed meanwhile is ignored.
fn fail(process: &Process, stream: &StreamEntry, action: &Action, code: Code) -> Result<(), Code> {
    if matches!(action, Action::Record(_) | Action::Wait(_)) && code == code::INVALID_HANDLE {
        return Ok(());
    }
    process.device.transact(|state, _| {
        let row = &mut state.contexts.rows[stream.context as usize];
        if row.sticky == 0 {
            row.sticky = code.0;
        }
    })?;
    Ok(())
}
