//! Formatted output of kernels.

/// Reads of the lane's memory that formatting needs.
pub(crate) trait Source {
    type Error;
    /// `bytes` (at most 8) at a generic address.
    fn read(&mut self, addr: u64, bytes: u64) -> Result<u64, Self::Error>;
}

/// Longest text read from device memory, in case its terminator is missing.
const MAX_TEXT_BYTES: u64 = 4096;

/// Text up to its terminating zero.
pub(crate) fn text<S: Source>(source: &mut S, addr: u64) -> Result<String, S::Error> {
    let mut bytes = Vec::new();
    for at in 0..MAX_TEXT_BYTES {
        match source.read(addr.wrapping_add(at), 1)? {
            0 => break,
            byte => bytes.push(byte as u8),
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Widest field, so that a random `*` value allocates little memory.
const MAX_FIELD: u64 = 4096;

/// Formats like `printf`; returns the text and the number of consumed values.
pub(crate) fn format<S: Source>(
    source: &mut S,
    format_addr: u64,
    args_addr: u64,
) -> Result<(String, u32), S::Error> {
    let pattern = text(source, format_addr)?;
    let mut out = String::new();
    let mut args = Args { source, at: args_addr, taken: 0 };
    let mut rest = pattern.chars().peekable();
    while let Some(c) = rest.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut spec = Spec::default();
        while let Some(flag) = rest.next_if(|c| "-+ #0".contains(*c)) {
            match flag {
                '-' => spec.left = true,
                '+' => spec.plus = true,
                ' ' => spec.space = true,
                '#' => spec.alternate = true,
                _ => spec.zero = true,
            }
        }
        spec.width = args.number(&mut rest)?.unwrap_or(0);
        if rest.next_if_eq(&'.').is_some() {
            spec.precision = Some(args.number(&mut rest)?.unwrap_or(0));
        }
        while let Some(length) = rest.next_if(|c| "lhzjtL".contains(*c)) {
            if length == 'h' {
                spec.short += 1;
            } else {
                spec.long = true;
            }
        }
        match rest.next() {
            Some(conversion) => args.one(conversion, &spec, &mut out)?,
            None => break,
        }
    }
    Ok((out, args.taken))
}

struct Args<'s, S> {
    source: &'s mut S,
    at: u64,
    taken: u32,
}

impl<S: Source> Args<'_, S> {
    fn take(&mut self, bytes: u64) -> Result<u64, S::Error> {
        let at = self.at.wrapping_add(bytes - 1) & !(bytes - 1);
        let value = self.source.read(at, bytes)?;
        self.at = at.wrapping_add(bytes);
        self.taken += 1;
        Ok(value)
    }

    /// Digits or `*`.
    fn number(
        &mut self,
        rest: &mut std::iter::Peekable<std::str::Chars<'_>>,
    ) -> Result<Option<usize>, S::Error> {
        if rest.next_if_eq(&'*').is_some() {
            return Ok(Some(self.take(4)?.min(MAX_FIELD) as usize));
        }
        let mut value = None;
        while let Some(digit) = rest.peek().and_then(|c| c.to_digit(10)) {
            rest.next();
            let sum = value.unwrap_or(0u64) * 10 + u64::from(digit);
            value = Some(sum.min(MAX_FIELD));
        }
        Ok(value.map(|value| value as usize))
    }

    fn one(&mut self, conversion: char, spec: &Spec, out: &mut String) -> Result<(), S::Error> {
        let size = if spec.long { 8 } else { 4 };
        match conversion {
            '%' => out.push('%'),
            'd' | 'i' => {
                let raw = self.take(size)?;
                let value = match (spec.long, spec.short) {
                    (true, _) => raw as i64,
                    (_, 0) => i64::from(raw as i32),
                    (_, 1) => i64::from(raw as i16),
                    _ => i64::from(raw as i8),
                };
                integer(out, spec, value < 0, true, value.unsigned_abs().to_string(), "");
            }
            'u' | 'x' | 'X' | 'o' => {
                let raw = self.take(size)?;
                let value = match (spec.long, spec.short) {
                    (true, _) | (_, 0) => raw,
                    (_, 1) => raw & 0xFFFF,
                    _ => raw & 0xFF,
                };
                let (digits, prefix) = match conversion {
                    'u' => (value.to_string(), ""),
                    'x' => (format!("{value:x}"), "0x"),
                    'X' => (format!("{value:X}"), "0X"),
                    _ => (format!("{value:o}"), "0"),
                };
                let prefix = if spec.alternate && value != 0 { prefix } else { "" };
                integer(out, spec, false, false, digits, prefix);
            }
            'p' => {
                let digits = format!("{:#x}", self.take(8)?);
                pad(out, spec, "", &digits, false);
            }
            'c' => {
                let byte = self.take(4)? as u8;
                pad(out, spec, "", &char::from(byte).to_string(), false);
            }
            's' => {
                let addr = self.take(8)?;
                let mut value = text(self.source, addr)?;
                if let Some(max) = spec.precision {
                    value = value.chars().take(max).collect();
                }
                pad(out, spec, "", &value, false);
            }
            'f' | 'F' | 'e' | 'E' | 'g' | 'G' => {
                let value = f64::from_bits(self.take(8)?);
                let upper = conversion.is_ascii_uppercase();
                floating(out, spec, value, conversion.to_ascii_lowercase(), upper);
            }
            // An unknown conversion is printed verbatim and consumes no value.
            other => {
                out.push('%');
                out.push(other);
            }
        }
        Ok(())
    }
}

#[derive(Debug, Default)]
pub(super) struct Spec {
    pub(super) left: bool,
    pub(super) plus: bool,
    pub(super) space: bool,
    pub(super) alternate: bool,
    pub(super) zero: bool,
    pub(super) width: usize,
    pub(super) precision: Option<usize>,
    pub(super) long: bool,
    /// Number of `h`: 1 for short, 2 for char.
    pub(super) short: u8,
}

pub(super) fn pad(out: &mut String, spec: &Spec, sign: &str, body: &str, zeros: bool) {
    let missing = spec.width.saturating_sub(sign.chars().count() + body.chars().count());
    let blanks = " ".repeat(missing);
    let parts: [&str; 3] = match (spec.left, zeros && spec.zero) {
        (true, _) => [sign, body, &blanks],
        (false, true) => [sign, &"0".repeat(missing), body],
        (false, false) => [&blanks, sign, body],
    };
    parts.into_iter().for_each(|part| out.push_str(part));
}

pub(super) fn sign_of(spec: &Spec, negative: bool) -> &'static str {
    match (negative, spec.plus, spec.space) {
        (true, _, _) => "-",
        (false, true, _) => "+",
        (false, false, true) => " ",
        _ => "",
    }
}

pub(super) fn integer(
    out: &mut String,
    spec: &Spec,
    minus: bool,
    signed: bool,
    digits: String,
    pre: &str,
) {
    let sign = if signed { sign_of(spec, minus) } else { pre };
    let min_digits = spec.precision.unwrap_or(0);
    let leading = "0".repeat(min_digits.saturating_sub(digits.len()));
    // A precision switches the zero flag off (C17 7.21.6.1).
    pad(out, spec, sign, &format!("{leading}{digits}"), spec.precision.is_none());
}

pub(super) fn floating(out: &mut String, spec: &Spec, value: f64, style: char, upper: bool) {
    let sign = sign_of(spec, value.is_sign_negative());
    let magnitude = value.abs();
    let precision = spec.precision.unwrap_or(6);
    let mut body = if value.is_nan() {
        "nan".to_owned()
    } else if value.is_infinite() {
        "inf".to_owned()
    } else {
        match style {
            'f' => format!("{magnitude:.precision$}"),
            'e' => exponential(magnitude, precision),
            _ => general(magnitude, precision.max(1), spec.alternate),
        }
    };
    if upper {
        body.make_ascii_uppercase();
    }
    pad(out, spec, sign, &body, value.is_finite());
}

/// C writes at min_digits two digits of the exponent, with its sign.
pub(super) fn exponential(value: f64, precision: usize) -> String {
    let text = format!("{value:.precision$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, number) = match exponent.strip_prefix('-') {
        Some(number) => ('-', number),
        None => ('+', exponent),
    };
    format!("{digits}e{sign}{number:0>2}")
}

/// `%g`: the exponent after rounding decides the style; trailing zeros are removed.
pub(super) fn general(value: f64, precision: usize, keep_zeros: bool) -> String {
    let rounded = exponential(value, precision - 1);
    let exponent: i64 =
        rounded.split_once('e').and_then(|(_, number)| number.parse().ok()).unwrap_or(0);
    let trim = |digits: &str| {
        if keep_zeros || !digits.contains('.') {
            return digits.to_owned();
        }
        digits.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    if exponent < -4 || exponent >= precision as i64 {
        let (digits, tail) = rounded.split_once('e').unwrap_or((&rounded, "+00"));
        return format!("{}e{tail}", trim(digits));
    }
    let decimals = (precision as i64 - 1 - exponent).max(0) as usize;
    trim(&format!("{value:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Flat(Vec<u8>);

    impl Source for Flat {
        type Error = u64;
        fn read(&mut self, addr: u64, bytes: u64) -> Result<u64, u64> {
            let mut raw = [0u8; 8];
            let from = self.0.get(addr as usize..(addr + bytes) as usize).ok_or(addr)?;
            raw[..bytes as usize].copy_from_slice(from);
            Ok(u64::from_le_bytes(raw))
        }
    }

    /// Formats with 8-byte arguments at address 512.
    fn run(pattern: &str, args: &[u64]) -> String {
        let mut bytes = vec![0u8; 1024];
        bytes[..pattern.len()].copy_from_slice(pattern.as_bytes());
        for (index, arg) in args.iter().enumerate() {
            bytes[512 + 8 * index..][..8].copy_from_slice(&arg.to_le_bytes());
        }
        format(&mut Flat(bytes), 0, 512).expect("formats").0
    }

    #[test]
    fn matches_the_c_library() {
        // Expected texts were printed by glibc 2.36.
        let f = f64::to_bits;
        assert_eq!(
            run("%lld|%5ld|%-5ld|%05ld", &[7, 42, 42, (-42i64) as u64]),
            "7|   42|42   |-0042"
        );
        assert_eq!(run("%+ld % ld %lu", &[1, 2, u64::MAX]), "+1  2 18446744073709551615");
        assert_eq!(run("%lx %#lX %lo", &[255, 255, 8]), "ff 0XFF 10");
        assert_eq!(run("%f %.2f %8.3f", &[f(1.5), f(2.675), f(-1.0)]), "1.500000 2.67   -1.000");
        assert_eq!(run("%e %.0e", &[f(12345.678), f(0.00012)]), "1.234568e+04 1e-04");
        assert_eq!(
            run("%g %g %g", &[f(0.0001), f(1e-5), f(1234567.0)]),
            "0.0001 1e-05 1.23457e+06"
        );
        assert_eq!(run("%f %F", &[f(f64::INFINITY), f(f64::NAN)]), "inf NAN");
        assert_eq!(run("100%% %p", &[4096]), "100% 0x1000");
    }

    #[test]
    fn narrow_values_are_packed() {
        let mut bytes = vec![0u8; 64];
        bytes[..8].copy_from_slice(b"%d %c%d\0");
        for (index, value) in [5i32, 65, -1].into_iter().enumerate() {
            bytes[32 + 4 * index..][..4].copy_from_slice(&value.to_le_bytes());
        }
        assert_eq!(format(&mut Flat(bytes), 0, 32), Ok(("5 A-1".into(), 3)));
    }

    #[test]
    fn unreadable_arguments_are_an_error() {
        let mut flat = Flat(b"%s\0\0\0\0\0\0\xFF\xFF\0\0\0\0\0\0".to_vec());
        assert_eq!(format(&mut flat, 0, 8), Err(0xFFFF));
    }
}
