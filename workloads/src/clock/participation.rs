//! Joining the clock for a while, and leaving it however that ends.

use super::{ClockError, Time};

/// Membership of a thread among the clock's participants.
///
/// `leave` ends it. Dropping ends it too, for a thread that unwinds or returns early, so that it
/// never stops the clock for the others.
pub struct Participation<'t> {
    time: &'t dyn Time,
    me: Option<u32>,
}

impl<'t> Participation<'t> {
    /// Joins.
    ///
    /// # Errors
    /// When the clock refuses.
    pub fn join(time: &'t dyn Time, me: u32) -> Result<Self, ClockError> {
        time.join(me)?;
        Ok(Self { time, me: Some(me) })
    }

    /// Leaves.
    ///
    /// # Errors
    /// When the clock refuses.
    pub fn leave(mut self) -> Result<(), ClockError> {
        self.me.take().map_or(Ok(()), |me| self.time.leave(me))
    }
}

impl Drop for Participation<'_> {
    fn drop(&mut self) {
        if let Some(me) = self.me.take() {
            // The thread is already on its way out with a reason of its own; a second one from
            // here would have nowhere to go, and a dead participant is found by the clock itself.
            let _already_failing = self.time.leave(me);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_is_given_up_on_every_way_out() -> Result<(), ClockError> {
        #[derive(Debug, Default)]
        struct Counting(std::sync::atomic::AtomicI32);
        impl Time for Counting {
            fn now_ns(&self) -> u64 {
                0
            }
            fn sleep_until(&self, _t_ns: u64) -> Result<(), ClockError> {
                Ok(())
            }
            fn join(&self, _me: u32) -> Result<(), ClockError> {
                self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                Ok(())
            }
            fn leave(&self, _me: u32) -> Result<(), ClockError> {
                self.0.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                Ok(())
            }
            fn park(&self, _me: u32) -> Result<(), ClockError> {
                Ok(())
            }
            fn unpark(&self, _whom: u32) -> Result<(), ClockError> {
                Ok(())
            }
        }
        let time = Counting::default();
        let joined = || time.0.load(std::sync::atomic::Ordering::SeqCst);
        let participation = Participation::join(&time, 3)?;
        assert_eq!(joined(), 1);
        participation.leave()?;
        assert_eq!(joined(), 0);
        let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _participation = Participation::join(&time, 3);
            std::panic::resume_unwind(Box::new("on purpose"));
        }));
        assert!(unwound.is_err());
        assert_eq!(joined(), 0);
        Ok(())
    }
}
