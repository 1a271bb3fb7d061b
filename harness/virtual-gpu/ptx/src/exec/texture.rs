//! Fetches from textures (CUDA C++ Programming Guide, "Texture Fetching").

use super::access::{LaneFault, WarpMemory};
use super::float::half;
use super::warp::{Frame, lanes};
use crate::fault::FaultKind;
use crate::operands::{Fetch, NO_ROW};
use crate::texture::{TEXTURE_BYTES, Texture};

impl WarpMemory<'_, '_, '_> {
    /// Fetches a texel for each active lane.
    pub(crate) fn fetch(
        &mut self,
        frame: &mut Frame,
        fetch: &Fetch,
        active: u32,
    ) -> Result<(), LaneFault> {
        for lane in lanes(active) {
            let texel = self.fetched(frame, fetch, lane).map_err(|kind| (lane, kind))?;
            for (row, bits) in fetch.d.iter().zip(texel) {
                frame.set_lane(false, *row, lane, u64::from(bits));
            }
        }
        Ok(())
    }

    fn fetched(
        &mut self,
        frame: &Frame,
        fetch: &Fetch,
        lane: usize,
    ) -> Result<[u32; 4], FaultKind> {
        let object = frame.lane(true, fetch.object, lane);
        let invalid = FaultKind::IllegalAddress { addr: object, write: false };
        let texture = Texture::unpack(self.read(object, TEXTURE_BYTES as u64)?).ok_or(invalid)?;
        let sides = [texture.width, texture.height];
        let mut at = [0.0; 2];
        for axis in 0..2 {
            if fetch.at[axis] == NO_ROW {
                continue;
            }
            let bits = frame.lane(false, fetch.at[axis], lane) as u32;
            let value = match fetch.by_float {
                true => f64::from(f32::from_bits(bits)),
                false => f64::from(bits as i32),
            };
            at[axis] = if texture.normalized { value * f64::from(sides[axis]) } else { value };
        }
        if !texture.linear || !texture.is_float() {
            return self.texel(&texture, at.map(f64::floor));
        }
        // Weights have eight bits of fraction.
        let first = at.map(|x| (x - 0.5).floor());
        let part = |axis: usize| ((at[axis] - 0.5 - first[axis]) * 256.0).round() / 256.0;
        let mut sum = [0.0; 4];
        for corner in 0..if fetch.at[1] == NO_ROW { 2 } else { 4 } {
            let (x, y) = (f64::from(corner & 1), f64::from(corner >> 1));
            let weight = |axis: usize, upper: f64| match axis == 1 && fetch.at[1] == NO_ROW {
                true => 1.0,
                false => upper * part(axis) + (1.0 - upper) * (1.0 - part(axis)),
            };
            let row = if fetch.at[1] == NO_ROW { 0.0 } else { first[1] + y };
            let found = self.texel(&texture, [first[0] + x, row])?;
            for (sum, bits) in sum.iter_mut().zip(found) {
                *sum += weight(0, x) * weight(1, y) * f64::from(f32::from_bits(bits));
            }
        }
        Ok(sum.map(|value| (value as f32).to_bits()))
    }

    /// The texel at whole coordinates; missing channels are 0, and the last one 1.
    fn texel(&mut self, texture: &Texture, at: [f64; 2]) -> Result<[u32; 4], FaultKind> {
        let mut place = [0_u64; 2];
        for (axis, side) in [texture.width, texture.height].into_iter().enumerate() {
            let side = f64::from(side);
            let inside = match texture.modes[axis] {
                0 if texture.normalized => at[axis].rem_euclid(side),
                2 if texture.normalized => {
                    let back = at[axis].rem_euclid(2.0 * side);
                    if back < side { back } else { 2.0 * side - 1.0 - back }
                }
                3 if !(0.0..side).contains(&at[axis]) => {
                    return Ok(texture.border.map(f32::to_bits));
                }
                _ => at[axis].clamp(0.0, side - 1.0),
            };
            place[axis] = inside as u64;
        }
        let bytes = texture.channel_bytes();
        let first = place[1] * texture.pitch + place[0] * bytes * u64::from(texture.channels);
        let one = if texture.is_float() { 1f32.to_bits() } else { 1 };
        let mut out = [0, 0, 0, one];
        for (channel, out) in out.iter_mut().take(texture.channels as usize).enumerate() {
            let raw = self.read(texture.address + first + channel as u64 * bytes, bytes)?;
            let mut word = [0; 4];
            word[..raw.len()].copy_from_slice(raw);
            let bits = u32::from_le_bytes(word);
            let (signed, max) = match texture.format {
                0x01 => (bits as i32, 255.0),
                0x08 => (i32::from(bits as i8), 127.0),
                0x02 => (bits as i32, 65_535.0),
                0x09 => (i32::from(bits as i16), 32_767.0),
                0x10 => {
                    *out = half(bits as u16).to_bits();
                    continue;
                }
                _ => (bits as i32, 1.0),
            };
            *out = match texture.is_float() && bytes < 4 {
                true => (signed as f32 / max).max(-1.0).to_bits(),
                false => signed as u32,
            };
        }
        Ok(out)
    }

    fn read(&mut self, addr: u64, bytes: u64) -> Result<&[u8], FaultKind> {
        let location = self.memory.locate(addr, bytes, false)?;
        self.footprint.mark(location.range, location.offset, bytes, false);
        self.counts.load_sector_bytes += bytes;
        Ok(self.memory.bytes(location, bytes as usize))
    }
}
