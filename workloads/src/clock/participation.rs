//! Joins the clock for a scope and always leaves it at the end.

use super::{ClockError, Time};

/// Participation of a thread in the clock.
///
/// `leave` ends it. Dropping ends it too, for a thread that unwinds or returns early, so that it
/// does not stop the clock for the others.
pub struct Participation<'t> {
    time: &'t dyn Time,
    me: Option<u32>,
}

impl<'t> Participation<'t> {
    pub fn join(time: &'t dyn Time, me: u32) -> Result<Self, ClockError> {
        time.join(me)?;
        Ok(Self { time, me: Some(me) })
    }

    pub fn leave(mut self) -> Result<(), ClockError> {
        self.me.take().map_or(Ok(()), |me| self.time.leave(me))
    }
}

impl Drop for Participation<'_> {
    fn drop(&mut self) {
        if let Some(me) = self.me.take() {
            // The thread already ends with an error of its own, and a second one cannot be
            // returned. The clock detects a dead participant by itself.
            let _already_failing = self.time.leave(me);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_participant_leaves_however_its_scope_ends() -> Result<(), ClockError> {
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
