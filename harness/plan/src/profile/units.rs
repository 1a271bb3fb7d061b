//! Values of a profile with a text form: durations and shares.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::error::Fault;

/// A length of time, exact to the nanosecond: `20us`, `250ms`, `1.5s`, `10min`, `1h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// Its length.
    pub ns: u64,
}

/// Longest first, so that printing finds the largest unit that divides.
const UNITS: [(&str, u64); 6] = [
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

const SECOND_NS: u64 = 1_000_000_000;

const SPAN_ACCEPTED: &str =
    "a duration with its unit, such as \"20us\", \"250ms\", \"1.5s\" or \"10min\"";

impl Span {
    /// A length in nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Self { ns }
    }

    /// A length in milliseconds.
    pub const fn from_ms(ms: u64) -> Self {
        Self { ns: ms * 1_000_000 }
    }

    /// A length in seconds.
    pub const fn from_s(s: u64) -> Self {
        Self { ns: s * 1_000_000_000 }
    }

    /// Reads the text form; `None` where it is invalid or not a whole number of nanoseconds.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.find(|c: char| c != '.' && !c.is_ascii_digit())?;
        let (number, unit) = text.split_at(digits);
        let (_, unit_ns) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() || number.ends_with('.') || fraction.len() > 12 {
            return None;
        }
        let whole_ns = whole.parse::<u64>().ok()?.checked_mul(unit_ns)?;
        Some(Self { ns: whole_ns.checked_add(fraction_ns(fraction, unit_ns)?)? })
    }
}

/// The fraction `0.<digits>` of a unit; `None` where it is not exact, because a plan must not
/// depend on rounding.
fn fraction_ns(digits: &str, unit_ns: u64) -> Option<u64> {
    if digits.is_empty() {
        return Some(0);
    }
    let numerator = u128::from(digits.parse::<u64>().ok()?) * u128::from(unit_ns);
    let denominator = 10_u128.pow(u32::try_from(digits.len()).ok()?);
    let exact = numerator.is_multiple_of(denominator);
    if exact { u64::try_from(numerator / denominator).ok() } else { None }
}

/// In the largest unit that is exact: seconds and shorter units with up to three decimals.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = UNITS.into_iter().find(|(_, unit_ns)| {
            let thousandths = if *unit_ns <= SECOND_NS { 1_000 } else { 1 };
            self.ns >= *unit_ns && self.ns.is_multiple_of((unit_ns / thousandths).max(1))
        });
        let (unit, unit_ns) = fits.unwrap_or(("ns", 1));
        let (whole, rest) = (self.ns / unit_ns, self.ns % unit_ns);
        if rest == 0 {
            return write!(f, "{whole}{unit}");
        }
        let decimals = format!("{:03}", rest / (unit_ns / 1_000));
        write!(f, "{whole}.{}{unit}", decimals.trim_end_matches('0'))
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Span;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(SPAN_ACCEPTED)
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Span, E> {
                Span::parse(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_str(Reader)
    }
}

impl JsonSchema for Span {
    fn schema_name() -> Cow<'static, str> {
        "Span".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": SPAN_ACCEPTED,
            "pattern": r"^[0-9]+(\.[0-9]{1,12})?(h|min|s|ms|us|ns)$",
        })
    }
}

/// A part of the whole, above 0 and at most 1: a number, or a quotient such as `"3/7"`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Share(f64);

const SHARE_ACCEPTED: &str = "a number above 0 and at most 1, or a quotient such as \"3/7\"";

impl Share {
    /// A share; `None` outside its range.
    pub fn new(value: f64) -> Option<Self> {
        (value > 0.0 && value <= 1.0).then_some(Self(value))
    }

    /// The number.
    pub const fn value(self) -> f64 {
        self.0
    }

    /// Reads a quotient of whole numbers.
    pub fn parse(text: &str) -> Option<Self> {
        let (top, bottom) = text.split_once('/')?;
        let (top, bottom): (u32, u32) = (top.trim().parse().ok()?, bottom.trim().parse().ok()?);
        if bottom == 0 { None } else { Self::new(f64::from(top) / f64::from(bottom)) }
    }
}

impl Serialize for Share {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0)
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Share;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(SHARE_ACCEPTED)
            }
            fn visit_f64<E: Error>(self, value: f64) -> Result<Share, E> {
                Share::new(value).ok_or_else(|| E::invalid_value(Unexpected::Float(value), &self))
            }
            fn visit_i64<E: Error>(self, value: i64) -> Result<Share, E> {
                // The only whole number that is a share.
                let share = if value == 1 { Share::new(1.0) } else { None };
                share.ok_or_else(|| E::invalid_value(Unexpected::Signed(value), &self))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Share, E> {
                Share::parse(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

impl JsonSchema for Share {
    fn schema_name() -> Cow<'static, str> {
        "Share".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": SHARE_ACCEPTED,
            "oneOf": [
                { "type": "number", "exclusiveMinimum": 0, "maximum": 1 },
                { "type": "string", "pattern": "^ *[0-9]+ */ *[0-9]+ *$" },
            ],
        })
    }
}

// Bounds of numbers in a profile.

/// Checks that a value lies between two bounds, both included.
pub(super) fn within<T: PartialOrd + std::fmt::Display>(
    key: &str,
    value: T,
    min: T,
    max: T,
) -> Result<(), Fault> {
    // Nothing orders a value that is no number.
    let problem = if value.partial_cmp(&min).is_none() {
        format!("{value} is no number")
    } else if value < min {
        format!("{value} is too small")
    } else if value > max {
        format!("{value} is too large")
    } else {
        return Ok(());
    };
    Err(Fault::at(key, problem, format!("{min} to {max}")))
}

// `"all"`, or a list of names.

/// A selection from a catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// Every entry.
    All,
    /// These, in the order of the catalogue.
    Names(Vec<String>),
}

const ALL: &str = "all";
const ACCEPTED: &str = "\"all\" or a list of names";

impl Serialize for Wanted {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::All => serializer.serialize_str(ALL),
            Self::Names(names) => names.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Wanted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Wanted;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(ACCEPTED)
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Wanted, E> {
                if text == ALL {
                    Ok(Wanted::All)
                } else {
                    Err(E::invalid_value(Unexpected::Str(text), &self))
                }
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Wanted, A::Error> {
                let mut names = Vec::new();
                while let Some(name) = seq.next_element()? {
                    names.push(name);
                }
                Ok(Wanted::Names(names))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

impl JsonSchema for Wanted {
    fn schema_name() -> Cow<'static, str> {
        "Wanted".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": ACCEPTED,
            "oneOf": [
                { "const": ALL },
                { "type": "array", "items": { "type": "string" }, "minItems": 1 },
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Share, Span};

    #[test]
    fn spans_are_exact() {
        for (text, ns) in [
            ("250ms", 250_000_000),
            ("1.5s", 1_500_000_000),
            ("0.1us", 100),
            ("10min", 600_000_000_000),
            ("0ms", 0),
            ("1h", 3_600_000_000_000),
        ] {
            assert_eq!(Span::parse(text), Some(Span::from_ns(ns)), "{text}");
        }
    }

    #[test]
    fn spans_print_in_the_largest_exact_unit() {
        for (ns, text) in [
            (1_800_000_000, "1.8s"),
            (2_950_000_000, "2.95s"),
            (250_000_000, "250ms"),
            (1_000_100, "1000.1us"),
            (600_000_000_000, "10min"),
            (90_000_000_000, "90s"),
            (0, "0ns"),
        ] {
            assert_eq!(Span::from_ns(ns).to_string(), text);
        }
    }

    #[test]
    fn invalid_spans_are_refused() {
        for text in [
            "",
            "5",
            "s",
            "ms",
            "-1s",
            "1 s",
            "1,5s",
            "1.s",
            ".5s",
            "1.2.3s",
            "1sec",
            "1e3s",
            "0.5ns",
            "99999999999h",
            "1.0000000000001s",
        ] {
            assert_eq!(Span::parse(text), None, "{text}");
        }
    }

    #[test]
    fn shares_are_parts_of_a_whole() {
        assert_eq!(Share::parse("3/7").map(Share::value), Some(3.0 / 7.0));
        for text in ["0/7", "8/7", "1/0", "0.5", "", "3/7/1"] {
            assert_eq!(Share::parse(text), None, "{text}");
        }
        assert_eq!(Share::new(0.0), None);
        assert_eq!(Share::new(f64::NAN), None);
    }

    proptest! {
        #[test]
        fn a_span_survives_printing(ns in any::<u64>()) {
            let span = Span::from_ns(ns);
            prop_assert_eq!(Span::parse(&span.to_string()), Some(span));
        }

        #[test]
        fn no_text_causes_a_panic(text in ".{0,20}") {
            let _ = Span::parse(&text);
            let _ = Share::parse(&text);
        }
    }
}
