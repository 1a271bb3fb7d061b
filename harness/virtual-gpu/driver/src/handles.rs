//! Opaque handles: a slot number and a generation, so that a freed handle is refused.

use std::ffi::c_void;

use crate::code::{self, Code, refuse};
use crate::rules::Rule;

/// What a program holds for a context, module, function, stream or event.
pub type Handle = *mut c_void;

/// A table of objects. Its handles carry `KIND`, and handles of other kinds are refused.
#[derive(Debug)]
pub struct Slab<T, const KIND: u8>(Vec<(u32, Option<T>)>);

impl<T, const KIND: u8> Default for Slab<T, KIND> {
    fn default() -> Self {
        Self::EMPTY
    }
}

const INDEX_BITS: u32 = 20;
const GENERATION_BITS: u32 = 20;

impl<T, const KIND: u8> Slab<T, KIND> {
    /// A table without objects.
    pub const EMPTY: Self = Self(Vec::new());

    /// Keeps an object and returns its handle.
    pub fn insert(&mut self, value: T) -> Result<Handle, Code> {
        let free = self.0.iter().position(|(_, slot)| slot.is_none());
        let index = free.unwrap_or(self.0.len());
        refuse(index >= 1 << INDEX_BITS, code::OUT_OF_MEMORY)?;
        if index == self.0.len() {
            self.0.push((1, None));
        }
        self.0[index].1 = Some(value);
        Ok(self.handle(index))
    }

    fn handle(&self, index: usize) -> Handle {
        let generation = u64::from(self.0[index].0);
        let value = (u64::from(KIND) << (INDEX_BITS + GENERATION_BITS))
            | (generation << INDEX_BITS)
            | index as u64;
        // Shifted, so that a handle is no small number that a program could have meant otherwise
        // (streams 1 and 2 are names of default streams).
        (value << 4) as Handle
    }

    /// The slot that a handle of this kind names, and whether its object is alive.
    fn slot(&self, handle: Handle) -> Option<(usize, bool)> {
        let value = handle as u64;
        if value & 15 != 0 {
            return None;
        }
        let value = value >> 4;
        let index = (value & ((1 << INDEX_BITS) - 1)) as usize;
        let generation = (value >> INDEX_BITS) & ((1 << GENERATION_BITS) - 1);
        let kind = value >> (INDEX_BITS + GENERATION_BITS);
        let (now, slot) = self.0.get(index)?;
        let alive = generation == u64::from(*now) && slot.is_some();
        (kind == u64::from(KIND)).then_some((index, alive))
    }

    fn index(&self, handle: Handle) -> Option<usize> {
        let (index, alive) = self.slot(handle)?;
        if !alive {
            let _ = Rule::DeadHandle.broken();
        }
        alive.then_some(index)
    }

    /// Whether its object is alive, which breaks no rule if it is not.
    pub fn holds(&self, handle: Handle) -> bool {
        self.slot(handle).is_some_and(|(_, alive)| alive)
    }

    pub fn get(&self, handle: Handle) -> Result<&T, Code> {
        let index = self.index(handle).ok_or(code::INVALID_HANDLE)?;
        self.0[index].1.as_ref().ok_or(code::INVALID_HANDLE)
    }

    /// The object behind a handle, to change it.
    pub fn get_mut(&mut self, handle: Handle) -> Result<&mut T, Code> {
        let index = self.index(handle).ok_or(code::INVALID_HANDLE)?;
        self.0[index].1.as_mut().ok_or(code::INVALID_HANDLE)
    }

    /// Removes the object, which invalidates its handle.
    pub fn remove(&mut self, handle: Handle) -> Result<T, Code> {
        let index = self.index(handle).ok_or(code::INVALID_HANDLE)?;
        let slot = &mut self.0[index];
        slot.0 = (slot.0 + 1) & ((1 << GENERATION_BITS) - 1);
        slot.1.take().ok_or(code::INVALID_HANDLE)
    }

    /// Handles of all objects for which `keep` is false, which are taken out.
    pub fn remove_where(&mut self, gone: impl Fn(&T) -> bool) -> Vec<T> {
        let mut out = Vec::new();
        for slot in &mut self.0 {
            if slot.1.as_ref().is_some_and(&gone) {
                slot.0 = (slot.0 + 1) & ((1 << GENERATION_BITS) - 1);
                out.extend(slot.1.take());
            }
        }
        out
    }

    /// The handle of the first object for which `wanted` holds.
    pub fn find(&self, wanted: impl Fn(&T) -> bool) -> Option<Handle> {
        let found = |(_, slot): &(u32, Option<T>)| slot.as_ref().is_some_and(&wanted);
        self.0.iter().position(found).map(|index| self.handle(index))
    }

    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().filter_map(|(_, slot)| slot.as_mut())
    }

    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.0.iter().filter_map(|(_, slot)| slot.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::Slab;

    #[test]
    fn a_freed_handle_and_one_of_another_kind_are_refused() {
        let mut slab = Slab::<_, 3>::EMPTY;
        let first = slab.insert('a').unwrap_or(std::ptr::null_mut());
        assert_eq!(slab.get(first), Ok(&'a'));
        assert_eq!(slab.remove(first), Ok('a'));
        assert!(slab.get(first).is_err() && slab.remove(first).is_err());
        let second = slab.insert('b').unwrap_or(std::ptr::null_mut());
        assert_ne!(first, second, "the slot is reused, the handle is not");
        assert!(Slab::<char, 4>::EMPTY.get(second).is_err());
        for wild in [0usize, 1, 2, 0x10, usize::MAX] {
            assert!(slab.get(wild as *mut _).is_err(), "{wild:#x}");
        }
    }
}
