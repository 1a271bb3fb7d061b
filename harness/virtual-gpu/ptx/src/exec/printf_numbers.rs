//! Numbers in C format strings.

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
