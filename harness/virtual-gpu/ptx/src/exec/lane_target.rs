//! Resolves the address of one lane: its space, bounds, alignment and bytes.

use super::access::WarpMemory;
use crate::fault::FaultKind;
use crate::types::Space;
use crate::types::window;

/// The resolved target of one lane's access.
pub(super) enum LaneTarget {
    Global(u64),
    Shared(usize),
    Local(usize),
    Param(usize),
}

impl WarpMemory<'_, '_, '_> {
    /// Resolves one lane's address; alignment comes first, as on the device.
    #[inline]
    pub(super) fn resolve(
        &mut self,
        space: Space,
        lane: usize,
        addr: u64,
        size: u64,
        write: bool,
    ) -> Result<LaneTarget, FaultKind> {
        if !addr.is_multiple_of(size) {
            return Err(FaultKind::Misaligned { addr, bytes: size as u32 });
        }
        let in_window = |base: u64| {
            let offset = addr.wrapping_sub(base);
            (offset < window::WINDOW_BYTES).then_some(offset)
        };
        match space {
            Space::Global | Space::Const if addr >= window::CODE_BASE => {
                Err(FaultKind::InvalidAddressSpace { addr })
            }
            Space::Global | Space::Const => Ok(LaneTarget::Global(addr)),
            Space::Generic => match (in_window(window::SHARED_BASE), in_window(window::LOCAL_BASE))
            {
                (Some(offset), _) => self.resolve_shared(offset, size),
                (_, Some(offset)) => self.resolve_local(lane, offset, size, write),
                _ => Ok(LaneTarget::Global(addr)),
            },
            Space::Shared => self.resolve_shared(addr, size),
            Space::Local => self.resolve_local(lane, addr, size, write),
            Space::Param => match addr.checked_add(size) {
                Some(end) if end <= self.params.len() as u64 => {
                    Ok(LaneTarget::Param(addr as usize))
                }
                _ => Err(FaultKind::IllegalAddress { addr, write }),
            },
        }
    }

    pub(super) fn resolve_shared(&self, offset: u64, size: u64) -> Result<LaneTarget, FaultKind> {
        let bytes = self.shared.len() as u64;
        match offset.checked_add(size) {
            Some(end) if end <= bytes => Ok(LaneTarget::Shared(offset as usize)),
            _ => Err(FaultKind::SharedOutOfRange { offset, bytes: bytes as u32 }),
        }
    }

    pub(super) fn resolve_local(
        &self,
        lane: usize,
        offset: u64,
        size: u64,
        write: bool,
    ) -> Result<LaneTarget, FaultKind> {
        let stride = u64::from(self.local_stride);
        match offset.checked_add(size) {
            Some(end) if end <= stride => {
                Ok(LaneTarget::Local(lane * self.local_stride as usize + offset as usize))
            }
            _ => {
                let addr = window::LOCAL_BASE.wrapping_add(offset);
                Err(FaultKind::IllegalAddress { addr, write })
            }
        }
    }

    #[inline]
    pub(super) fn bytes(&mut self, target: LaneTarget, size: u64) -> Result<&[u8], FaultKind> {
        let len = size as usize;
        match target {
            LaneTarget::Global(addr) => {
                let location = self.memory.locate(addr, size, false)?;
                self.footprint.mark(location.range, location.offset, size, false);
                Ok(self.memory.bytes(location, len))
            }
            LaneTarget::Shared(at) => Ok(&self.shared[at..at + len]),
            LaneTarget::Local(at) => Ok(&self.local[at..at + len]),
            LaneTarget::Param(at) => Ok(&self.params[at..at + len]),
        }
    }

    #[inline]
    pub(super) fn bytes_mut(
        &mut self,
        target: LaneTarget,
        size: u64,
    ) -> Result<&mut [u8], FaultKind> {
        let len = size as usize;
        match target {
            LaneTarget::Global(addr) => {
                let location = self.memory.locate(addr, size, true)?;
                self.footprint.mark(location.range, location.offset, size, true);
                Ok(self.memory.bytes_mut(location, len))
            }
            LaneTarget::Shared(at) => Ok(&mut self.shared[at..at + len]),
            LaneTarget::Local(at) => Ok(&mut self.local[at..at + len]),
            // The decoder refuses stores to parameters.
            LaneTarget::Param(at) => Err(FaultKind::InvalidAddressSpace { addr: at as u64 }),
        }
    }

    /// The bytes of an atomic; local memory has none.
    pub(crate) fn atomic_bytes(
        &mut self,
        space: Space,
        lane: usize,
        addr: u64,
        size: u64,
    ) -> Result<&mut [u8], FaultKind> {
        match self.resolve(space, lane, addr, size, true)? {
            LaneTarget::Local(_) => Err(FaultKind::InvalidAddressSpace { addr }),
            target => self.bytes_mut(target, size),
        }
    }

    /// Reads bytes at a generic address, as the built-in functions do.
    pub(crate) fn read_generic(
        &mut self,
        lane: usize,
        addr: u64,
        size: u64,
    ) -> Result<u64, FaultKind> {
        let target = self.resolve(Space::Generic, lane, addr, size, false)?;
        let bytes = self.bytes(target, size)?;
        let mut raw = [0u8; 8];
        raw[..size as usize].copy_from_slice(bytes);
        Ok(u64::from_le_bytes(raw))
    }
}
