//! Texture objects: what a driver writes to device memory, where kernels find it by its address.

/// A texture of one or two dimensions.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Texture {
    /// Device address of the first texel.
    pub address: u64,
    /// Bytes from one row to the next.
    pub pitch: u64,
    pub width: u32,
    /// Rows; 1 in one dimension.
    pub height: u32,
    /// Number of the format of a channel (`CUarray_format`, cuda.h).
    pub format: u32,
    /// Channels of a texel: 1, 2 or 4.
    pub channels: u32,
    /// What lies outside, by dimension (`CUaddress_mode`): 0 wrap, 1 clamp, 2 mirror, 3 border.
    pub modes: [u32; 2],
    /// Whether neighbours are interpolated.
    pub linear: bool,
    /// Whether integers are read as they are, and not as parts of their maximum.
    pub as_integers: bool,
    /// Whether coordinates go from 0 to 1.
    pub normalized: bool,
    pub border: [f32; 4],
}

pub const TEXTURE_BYTES: usize = 96;

/// Distinguishes a texture object from other memory.
const MAGIC: u64 = 0x7465_7874_7572_6531;

impl Texture {
    /// The bytes in device memory.
    pub fn pack(&self) -> [u8; TEXTURE_BYTES] {
        let flags = [self.linear, self.as_integers, self.normalized].map(u64::from);
        let [x, y] = self.modes.map(u64::from);
        let border = self.border.map(|part| u64::from(part.to_bits()));
        let words = [
            MAGIC,
            self.address,
            self.pitch,
            u64::from(self.width) << 32 | u64::from(self.height),
            u64::from(self.format) << 32 | u64::from(self.channels),
            x << 32 | y,
            flags[0] | flags[1] << 1 | flags[2] << 2,
            border[0],
            border[1],
            border[2],
            border[3],
        ];
        let mut out = [0; TEXTURE_BYTES];
        for (place, word) in out.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    /// The texture in such bytes; none if they are no texture object.
    pub(crate) fn unpack(bytes: &[u8]) -> Option<Self> {
        let mut words = [0; TEXTURE_BYTES / 8];
        for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(chunk.try_into().ok()?);
        }
        let [magic, address, pitch, size, texel, modes, flags, border @ ..] = words;
        let both = |word: u64| [(word >> 32) as u32, word as u32];
        let ([width, height], [format, channels]) = (both(size), both(texel));
        let flag = |bit: u64| flags >> bit & 1 == 1;
        (magic == MAGIC).then_some(Self {
            address,
            pitch,
            width,
            height,
            format,
            channels,
            modes: both(modes),
            linear: flag(0),
            as_integers: flag(1),
            normalized: flag(2),
            border: std::array::from_fn(|at| f32::from_bits(border[at] as u32)),
        })
    }

    pub(crate) fn channel_bytes(&self) -> u64 {
        match self.format {
            0x01 | 0x08 => 1,
            0x02 | 0x09 | 0x10 => 2,
            _ => 4,
        }
    }

    /// Whether a channel is a floating-point number, or is read as one.
    pub(crate) fn is_float(&self) -> bool {
        matches!(self.format, 0x10 | 0x20) || !self.as_integers && self.channel_bytes() < 4
    }
}
