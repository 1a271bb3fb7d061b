//! Names of mechanisms and axes on the command line: those of catalogues, and those that screens
//! print.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use gpubench_catalogue::{axis, mechanism};

/// The names in one value of a flag: commas separate them, except in brackets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names(Vec<String>);

impl Names {
    /// The parser of names that only a record knows.
    pub fn of_record(text: &str) -> Result<Self, Infallible> {
        Ok(Self(split(text)))
    }

    /// The names of all values.
    pub fn all(given: &[Self]) -> Vec<String> {
        given.iter().flat_map(|one| one.0.iter().cloned()).collect()
    }

    /// The same without options.
    pub fn without_options(given: &[Self]) -> Vec<String> {
        given.iter().flat_map(|one| one.0.iter().map(|name| base(name).to_owned())).collect()
    }
}

fn base(name: &str) -> &str {
    name.split_once('[').map_or(name, |(name, _)| name)
}

fn split(text: &str) -> Vec<String> {
    let mut depth = 0_usize;
    let parts = text.split(|c| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    parts.map(|part| part.trim().to_owned()).collect()
}

/// The parser of mechanisms: `mps`, `mig[3g+3g]`, and labels of a screen such as `mps-quota 50%`,
/// which become `mps-quota[50%]`.
#[derive(Debug, Clone, Copy)]
pub(super) struct MechanismNames;

impl TypedValueParser for MechanismNames {
    type Value = Names;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Names, clap::Error> {
        // A described mechanism is known once its file is read, which checks the name.
        let describes = |word: OsString| word.to_string_lossy().starts_with("--mechanism-file");
        let is_described = std::env::args_os().any(describes);
        let one = |text: String| {
            let name = in_brackets(&text);
            let known = name.to_ascii_lowercase();
            if mechanism::names().contains(&base(&known)) {
                return Ok(known);
            }
            if is_described {
                return Ok(name);
            }
            let known = PossibleValuesParser::new(mechanism::names().iter().copied());
            known.parse_ref(command, argument, OsStr::new(&text))
        };
        split(&value.to_string_lossy()).into_iter().map(one).collect::<Result<_, _>>().map(Names)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(mechanism::names().iter().copied().map(PossibleValue::new)))
    }
}

/// A label with its options in brackets.
fn in_brackets(text: &str) -> String {
    match text.split_once(' ') {
        Some((name, options)) if !text.contains('[') => {
            format!("{name}[{}]", options.split_whitespace().collect::<Vec<_>>().join(","))
        }
        _ => text.to_owned(),
    }
}

/// The parser of `--axis`: the names of the catalogue, and the short ones of the screen.
pub fn axes() -> impl TypedValueParser<Value = String> {
    let values = axis::known_names().into_iter();
    let values = values.map(|name| PossibleValue::new(name).aliases(axis::short_names(name)));
    PossibleValuesParser::new(values)
        .map(|text| axis::named(&text).map_or(text.clone(), ToOwned::to_owned))
}

/// The same for a record, whose screen also names the jitter beside each resource, and `overall`.
pub fn axes_of_reports() -> impl TypedValueParser<Value = String> {
    let known = axis::known_names().into_iter();
    let known = known.map(|name| PossibleValue::new(name).aliases(axis::short_names(name)));
    let of_screens =
        axis::SCREEN_NAMES.iter().map(|name| PossibleValue::new(name.as_str()).hide(true));
    PossibleValuesParser::new(known.chain(of_screens))
        .map(|text| axis::named_on_screen(&text).unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use clap::builder::TypedValueParser;

    use super::{MechanismNames, Names, split};

    #[test]
    fn names_that_screens_print_are_names_of_mechanisms() {
        assert_eq!(split("hami[memory=50,sm=50],mps"), ["hami[memory=50,sm=50]", "mps"]);
        let parsed = |text: &str| {
            let command = clap::Command::new("x");
            MechanismNames.parse_ref(&command, None, text.as_ref()).map(|one| Names::all(&[one]))
        };
        for (text, names) in [
            ("MPS", &["mps"][..]),
            ("mps-quota 50%", &["mps-quota[50%]"]),
            ("mig 3g+3g,hami[memory=50,sm=50]", &["mig[3g+3g]", "hami[memory=50,sm=50]"]),
        ] {
            assert_eq!(parsed(text).unwrap_or_default(), names, "{text}");
        }
        assert!(parsed("mpz").is_err());
    }
}
