//! The options of the control command.

use std::ffi::OsString;

use super::MpsError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mode {
    /// Front end with commands from standard input.
    Front,
    Command(String),
    Background,
    Foreground,
    Version,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) mode: Mode,
    pub(super) static_partitions: bool,
    pub(super) multiuser: bool,
    pub(super) protocol: u32,
    /// Configuration file that the daemon applies when it starts.
    pub(super) apply: Option<OsString>,
}

/// Parses the argument vector of the control command.
pub(super) fn parse(argv: &[OsString]) -> Result<Options, MpsError> {
    let mut options = Options {
        static_partitions: false,
        multiuser: false,
        protocol: 2,
        mode: Mode::Front,
        apply: None,
    };
    let mut protocol = std::env::var("CUDA_MPS_PROTOCOL_VERSION").ok();
    let mut words = argv.iter().skip(1).map(|word| word.to_string_lossy());
    while let Some(word) = words.next() {
        match &*word {
            "-d" => options.mode = Mode::Background,
            "-f" => options.mode = Mode::Foreground,
            "-v" => options.mode = Mode::Version,
            "-S" | "--static-partitioning" => options.static_partitions = true,
            "-m" | "--multiuser" | "-multiuser-server" | "--multiuser-server" => {
                options.multiuser = true;
            }
            "-q" | "--quit" => options.mode = Mode::Command("quit".to_owned()),
            module if !module.starts_with('-') => {
                let rest: Vec<_> = words.by_ref().collect();
                let all = [module].into_iter().chain(rest.iter().map(AsRef::as_ref));
                options.mode = Mode::Command(all.collect::<Vec<&str>>().join(" "));
            }
            "-a" | "--apply" => {
                let file = words.next().ok_or_else(|| MpsError::Option(word.into_owned()))?;
                options.apply = Some(OsString::from(&*file));
            }
            // The environment overrides the option (MPS documentation, release 615).
            "-p" | "--protocol" => {
                let version = words.next().unwrap_or_default().into_owned();
                protocol = protocol.or(Some(version));
            }
            other => return Err(MpsError::Option(other.to_owned())),
        }
    }
    options.protocol = match protocol.as_deref() {
        None | Some("2") => 2,
        Some("3") => 3,
        Some(other) => return Err(MpsError::Protocol(other.to_owned())),
    };
    Ok(options)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::{Mode, Options, parse};

    fn of(line: &str) -> Result<Options, String> {
        let argv: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        parse(&argv).map_err(|error| error.to_string())
    }

    #[test]
    fn only_the_options_of_the_manual_are_accepted() {
        let command = |words: &str| Mode::Command(words.to_owned());
        let list = "server list --format=csv,noheader";
        for (line, mode, static_partitions, multiuser, protocol) in [
            ("control", Mode::Front, false, false, 2),
            (&*format!("control {list}"), command(list), false, false, 2),
            ("control -q", command("quit"), false, false, 2),
            ("control -d -p 3", Mode::Background, false, false, 3),
            ("control -d", Mode::Background, false, false, 2),
            ("control -f -p 2", Mode::Foreground, false, false, 2),
            ("control -v", Mode::Version, false, false, 2),
            ("control -d -S -multiuser-server", Mode::Background, true, true, 2),
            ("control --static-partitioning -f", Mode::Foreground, true, false, 2),
        ] {
            let want = Options { mode, static_partitions, multiuser, protocol, apply: None };
            assert_eq!(of(line), Ok(want), "{line}");
        }
        let applied = of("control -d -p 3 -a mps.toml").map(|options| options.apply);
        assert_eq!(applied, Ok(Some(OsString::from("mps.toml"))));
        assert!(of("control -d -a").is_err());
        assert!(of("control -x").is_err_and(|error| error.contains("\"-x\"")));
        assert!(of("control -d -p 4").is_err_and(|error| error.contains("\"4\"")));
    }
}
