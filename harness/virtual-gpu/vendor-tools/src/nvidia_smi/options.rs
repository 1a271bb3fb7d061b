//! Options of the command: a name, with a value as the next argument or after an equals sign.

use super::{Answer, invalid};

pub(super) struct Options<'o, 'a> {
    rest: std::slice::Iter<'o, &'a str>,
    option: &'a str,
    /// The value after its equals sign.
    behind: Option<&'a str>,
}

impl<'a> Options<'_, 'a> {
    fn next(&mut self) -> Option<&'a str> {
        self.option = self.rest.next()?;
        let split = self.option.split_once('=');
        self.behind = split.map(|(_, value)| value);
        Some(split.map_or(self.option, |(name, _)| name))
    }

    /// The value of the present option.
    pub(super) fn value(&mut self) -> Result<&'a str, Answer> {
        let value = self.behind.or_else(|| self.rest.next().copied());
        value.ok_or_else(|| self.wrong())
    }

    /// The error of the present option.
    pub(super) fn wrong(&self) -> Answer {
        invalid(self.option)
    }
}

/// Parses all options into the device and the last request; `request` parses every other option.
pub(super) fn parse<'a, W>(
    args: &[&'a str],
    request: impl Fn(&str, &mut Options<'_, 'a>) -> Result<W, Answer>,
) -> Result<(Option<W>, Option<&'a str>), Answer> {
    let (mut wanted, mut id) = (None, None);
    let mut options = Options { rest: args.iter(), option: "", behind: None };
    while let Some(name) = options.next() {
        match name {
            "-i" | "--id" => id = Some(options.value()?),
            _ => wanted = Some(request(name, &mut options)?),
        }
    }
    Ok((wanted, id))
}
