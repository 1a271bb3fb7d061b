//! Virtual time: the clock advances only while every participant waits, straight to the next event.
//!
//! At most one participant runs at a time. When it waits, [`advance`] advances the device until the
//! condition of a participant holds, and grants the clock to that one. Ties are broken by order:
//! the device first, then waiting participants by ready time and number. Scheduling on the host
//! therefore has no influence.

use crate::simulation::{Queues, Rules, advance_to, next_event_ns, settle};
use crate::state::{Condition, NEVER, Participant, ParticipantStatus, RING, State};

/// Why no participant was granted the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// A participant runs or is announced: the clock stands until it waits.
    Busy,
    /// No participant waits: time does not pass.
    NoWaiter,
    /// Every participant waits for an event that can no longer happen.
    Deadlock,
}

/// Advances the device until a participant can run, and marks it as running.
/// Errors: Why no participant was granted the clock.
pub fn advance(state: &mut State, queues: &dyn Queues, rules: &Rules) -> Result<usize, Held> {
    let mut waiting = false;
    for participant in state.participants.live() {
        match participant.status {
            ParticipantStatus::Running | ParticipantStatus::Expected => return Err(Held::Busy),
            ParticipantStatus::Waiting => waiting = true,
            ParticipantStatus::Free => {}
        }
    }
    if !waiting {
        return Err(Held::NoWaiter);
    }
    loop {
        settle(state, queues, rules);
        let mut chosen: Option<(u64, usize)> = None;
        for (index, participant) in state.participants.live().iter().enumerate() {
            if participant.status == ParticipantStatus::Waiting && holds(state, participant) {
                let key = (participant.ready_ns, index);
                chosen = Some(chosen.map_or(key, |best| best.min(key)));
            }
        }
        let ready_ns = chosen.map_or(NEVER, |(ready_ns, _)| ready_ns);
        if let Some((_, index)) = chosen.filter(|&(ready_ns, _)| ready_ns <= state.now_ns) {
            let now = state.now_ns;
            let participant = &mut state.participants.rows[index];
            participant.status = ParticipantStatus::Running;
            participant.granted_ns = now;
            if participant.condition == Condition::Unpark {
                participant.token = false;
            }
            return Ok(index);
        }
        let next = next_event_ns(state, queues).min(ready_ns);
        if next == NEVER {
            return Err(Held::Deadlock);
        }
        advance_to(state, queues, rules, next);
    }
}

/// Whether the condition of a participant holds.
pub fn holds(state: &State, participant: &Participant) -> bool {
    let target = participant.target as usize;
    match participant.condition {
        Condition::Time => true,
        Condition::Stream => {
            let stream = &state.streams.rows[target];
            !stream.live || stream.completed >= participant.seq
        }
        Condition::Context => state.streams.live().iter().all(|s| {
            let space = state.contexts.rows[s.context as usize].space as usize;
            !s.live || space != target || s.completed == s.submitted
        }),
        Condition::Room => {
            let stream = &state.streams.rows[target];
            !stream.live || stream.submitted - stream.completed + participant.seq <= RING as u64
        }
        Condition::Unpark => participant.token,
    }
}
