//! The token with which one thread wakes another on the wall clock.

use std::sync::{Condvar, Mutex, PoisonError};

/// At most one token; putting a second one has no effect.
#[derive(Debug, Default)]
pub(super) struct Token {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    left: bool,
    waiting: bool,
}

impl Token {
    /// Waits for the token and takes it.
    pub(super) fn take(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while !state.left {
            state.waiting = true;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        *state = State::default();
    }

    /// Puts the token. It makes a system call only when a thread waits for it.
    pub(super) fn put(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.left = true;
        if state.waiting {
            self.changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn an_early_token_is_not_lost_and_two_count_as_one() {
        let token = Arc::new(Token::default());
        token.put();
        token.put();
        token.take();
        let taken = Arc::new(AtomicU32::new(0));
        let waiter = {
            let (token, taken) = (Arc::clone(&token), Arc::clone(&taken));
            std::thread::spawn(move || {
                token.take();
                taken.store(1, Ordering::SeqCst);
            })
        };
        // Only this second token can wake the waiter: the first two count as one.
        while !token.state.lock().is_ok_and(|state| state.waiting) {
            std::thread::yield_now();
        }
        assert_eq!(taken.load(Ordering::SeqCst), 0);
        token.put();
        assert!(waiter.join().is_ok());
        assert_eq!(taken.load(Ordering::SeqCst), 1);
    }
}
