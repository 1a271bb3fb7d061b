//! Names of mechanisms and axes on the command line: those of catalogues, and those that screens
//! print.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::sync::LazyLock;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use gpubench_catalogue::fault::{self, Class};
use gpubench_catalogue::{axis, mechanism};
use gpubench_compare::diff::comparability::known;
use gpubench_judge::choose::need;
use gpubench_profiles::{MACHINES, PROFILES};
use gpubench_record::Axis;

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
    // A cell has jitter beside a neighbour that the other axes have.
    let of_screens = axis::SCREEN_NAMES.iter().filter(|name| axis::named(name).is_none());
    let of_jitter = of_screens.filter(|name| name.starts_with("jitter/"));
    let of_jitter = of_jitter.map(|name| PossibleValue::new(name.as_str()));
    PossibleValuesParser::new(values.chain(of_jitter)).map(|text| {
        let beside = text.strip_prefix("jitter/").and_then(axis::named);
        match (axis::named(&text), beside) {
            (Some(name), _) => name.to_owned(),
            (None, Some(beside)) => format!("jitter/{beside}"),
            (None, None) => text,
        }
    })
}

/// The parser of `--faults`: names of faults, a class for each of its faults, and both behind
/// `fault/`, as plans and screens print them.
#[derive(Debug, Clone, Copy)]
pub(super) struct FaultNames;

impl TypedValueParser for FaultNames {
    type Value = Names;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Names, clap::Error> {
        let text = value.to_string_lossy().to_ascii_lowercase();
        let name = text.strip_prefix("fault/").unwrap_or(&text);
        let of_class = fault::CATALOGUE.iter().filter(|fault| {
            fault.class.as_str() == name && fault.class != Class::Control && !fault.planted_only
        });
        let of_class: Vec<String> = of_class.map(|fault| fault.name.to_owned()).collect();
        if !of_class.is_empty() {
            return Ok(Names(of_class));
        }
        let known = PossibleValuesParser::new(fault::CATALOGUE.iter().map(|fault| fault.name));
        known.parse_ref(command, argument, OsStr::new(name)).map(|name| Names(vec![name]))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(fault::CATALOGUE.iter().map(|fault| PossibleValue::new(fault.name))))
    }
}

/// A parser of more than names, for which shells complete the names.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offering<P>(pub P, pub fn() -> Vec<&'static str>);

impl<P: TypedValueParser> TypedValueParser for Offering<P> {
    type Value = P::Value;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<P::Value, clap::Error> {
        self.0.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.1().into_iter().map(PossibleValue::new)))
    }
}

/// Built-in profiles.
pub(super) fn profiles() -> Vec<&'static str> {
    PROFILES.iter().map(|(name, _)| *name).collect()
}

/// Names that needs begin with, and needs without a value.
pub(super) fn needs() -> Vec<&'static str> {
    let axes = axis::known_names().into_iter().filter(|name| *name != "power/power");
    axes.chain(need::ALONE).collect()
}

/// Facts of `diff --vary`.
pub(super) fn facts() -> Vec<&'static str> {
    known().collect()
}

/// Places of `report --why`: mechanisms and axes.
pub(super) fn places() -> Vec<&'static str> {
    static BOTH: LazyLock<Vec<String>> = LazyLock::new(|| {
        let axes = || Axis::ALL.iter().map(|axis| axis.as_str()).chain([axis::OVERALL]);
        let of = |name: &&'static str| axes().map(|axis| format!("{name}/{axis}")).collect();
        let pairs: Vec<Vec<String>> = mechanism::names().iter().map(of).collect();
        pairs.concat()
    });
    let axes = axis::known_names().into_iter().chain([axis::OVERALL]);
    let both = BOTH.iter().map(String::as_str);
    mechanism::names().iter().copied().chain(axes).chain(both).collect()
}

/// Built-in machines.
pub(super) fn machines() -> Vec<&'static str> {
    MACHINES.iter().map(|(name, _)| *name).collect()
}

/// The virtual devices: those of this host are known only when it is asked.
pub(super) fn devices() -> Vec<&'static str> {
    static VIRTUAL: LazyLock<Vec<String>> =
        LazyLock::new(|| machines().iter().map(|name| format!("virtual:{name}")).collect());
    ["virtual", "all"].into_iter().chain(VIRTUAL.iter().map(String::as_str)).collect()
}

/// The same for a record, whose screen also names the jitter beside each resource, and `overall`.
pub fn axes_of_reports() -> impl TypedValueParser<Value = String> {
    let known = axis::known_names().into_iter();
    let known = known.map(|name| PossibleValue::new(name).aliases(axis::short_names(name)));
    let of_screens = axis::SCREEN_NAMES.iter().map(|name| PossibleValue::new(name.as_str()));
    PossibleValuesParser::new(known.chain(of_screens))
        .map(|text| axis::named_on_screen(&text).unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use clap::builder::TypedValueParser;

    use gpubench_plan::profile::{Overrides, Wanted, built_in};

    use super::{FaultNames, MechanismNames, Names, axes, split};

    #[test]
    fn faults_have_their_names_their_class_and_the_names_of_plans() {
        let command = clap::Command::new("x");
        let parsed = |text: &str| {
            FaultNames.parse_ref(&command, None, text.as_ref()).map(|one| Names::all(&[one]))
        };
        for (text, names) in [
            ("oom", &["oom"][..]),
            ("fault/illegal-instruction", &["illegal-instruction"]),
            ("starvation", &["oom", "hang"]),
            ("fault/starvation", &["oom", "hang"]),
        ] {
            assert_eq!(parsed(text).unwrap_or_default(), names, "{text}");
        }
        assert!(parsed("control").is_err() && parsed("oon").is_err());
    }

    #[test]
    fn the_jitter_beside_one_resource_is_that_pair() -> Result<(), Box<dyn std::error::Error>> {
        let command = clap::Command::new("x");
        let parsed = |text: &str| axes().parse_ref(&command, None, text.as_ref());
        assert_eq!(parsed("jitter/sm")?, "jitter");
        let axes = vec![parsed("jitter/dram")?, parsed("jitter/l2")?, parsed("dram")?];
        let profile = built_in("default", &Overrides { axes, ..Overrides::default() })?;
        let names = |names: &[&str]| Wanted::Names(names.iter().map(|one| (*one).into()).collect());
        assert_eq!(profile.axes, names(&["bandwidth/dram", "bandwidth/l2", "jitter"]));
        assert_eq!(profile.jitter_pairs, names(&["bandwidth/dram", "bandwidth/l2"]));
        Ok(())
    }

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
