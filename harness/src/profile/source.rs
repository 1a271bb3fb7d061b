//! One profile text: its table, which is laid over another, and the line of each key.

use gpubench_record::parser_message;
use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

use super::error::{Fault, ProfileError, Step};

/// A TOML text with its name in messages.
#[derive(Debug)]
pub(super) struct Source<'a> {
    /// Path, or `built-in NAME`.
    pub name: String,
    text: &'a str,
    located: Spanned<DeTable<'a>>,
    /// The same without positions.
    pub table: Table,
}

impl<'a> Source<'a> {
    /// Reads a text.
    pub(super) fn parse(name: String, text: &'a str) -> Result<Self, ProfileError> {
        let refuse = |error: toml::de::Error| ProfileError {
            file: name.clone(),
            line: error.span().map(|span| line_at(text, span.start)),
            key: String::new(),
            problem: format!("not TOML: {}", one_line(&parser_message(error.message()))),
            accepted: String::new(),
        };
        let located = DeTable::parse(text).map_err(refuse)?;
        let table = text.parse::<Table>().map_err(refuse)?;
        Ok(Self { name, text, located, table })
    }

    /// The line of the deepest part of the path that this text has; `None` where it lacks the first
    /// step.
    pub(super) fn line_of(&self, path: &[Step]) -> Option<usize> {
        let Some((Step::Key(first), rest)) = path.split_first() else {
            return None;
        };
        Some(line_at(self.text, position_in(self.located.get_ref(), first, rest)?))
    }

    /// Whether this text sets the key itself.
    pub(super) fn sets(&self, path: &[Step]) -> bool {
        let mut table = Some(&self.table);
        let mut keys = path.iter().filter_map(|step| match step {
            Step::Key(key) => Some(key),
            Step::Index(_) => None,
        });
        keys.all(|key| {
            let value = table.and_then(|table| table.get(key));
            table = value.and_then(Value::as_table);
            value.is_some()
        })
    }

    /// File and line of a key.
    pub(super) fn location_of(&self, path: &[Step]) -> String {
        let line = self.line_of(path);
        line.map_or(self.name.clone(), |line| format!("{}:{line}", self.name))
    }

    /// A mistake in this text.
    pub(super) fn error(&self, fault: &Fault) -> ProfileError {
        ProfileError {
            file: self.name.clone(),
            line: self.line_of(&fault.path),
            key: fault.dotted(),
            problem: fault.problem.clone(),
            accepted: fault.accepted.clone(),
        }
    }
}

/// The position of the key, or of the deepest part of the path in its value.
fn position_in(table: &DeTable<'_>, key: &str, rest: &[Step]) -> Option<usize> {
    let (name, value) = table.iter().find(|(name, _)| name.get_ref() == key)?;
    let deeper = match (value.get_ref(), rest.split_first()) {
        (DeValue::Table(inner), Some((Step::Key(next), rest))) => position_in(inner, next, rest),
        (DeValue::Array(items), Some((Step::Index(index), _))) => {
            items.get(*index).map(|item| item.span().start)
        }
        _ => None,
    };
    Some(deeper.unwrap_or(name.span().start))
}

fn line_at(text: &str, byte: usize) -> usize {
    let before = text.as_bytes().get(..byte).unwrap_or(text.as_bytes());
    1 + before.iter().filter(|&&b| b == b'\n').count()
}

fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Lays `over` onto `under`: tables key by key; every other value is replaced.
pub(super) fn lay_over(under: &mut Table, over: &Table) {
    for (key, value) in over {
        match (under.get_mut(key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => lay_over(below, above),
            _ => {
                under.insert(key.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::error::Step;
    use super::{Source, lay_over};

    const TEXT: &str =
        "version = 1\naxes = [\n  \"compute\",\n  \"jitter\",\n]\n\n[blocks]\nmin = 8\n";

    fn key(name: &str) -> Step {
        Step::Key(name.to_owned())
    }

    #[test]
    fn keys_and_list_elements_have_lines() -> Result<(), String> {
        let source = Source::parse("t".to_owned(), TEXT).map_err(|e| format!("{e:?}"))?;
        for (path, line) in [
            (vec![key("version")], Some(1)),
            (vec![key("axes")], Some(2)),
            (vec![key("axes"), Step::Index(1)], Some(4)),
            (vec![key("axes"), Step::Index(9)], Some(2)),
            (vec![key("blocks"), key("min")], Some(8)),
            (vec![key("blocks"), key("max")], Some(7)),
            (vec![key("cell"), key("open")], None),
            (vec![], None),
        ] {
            assert_eq!(source.line_of(&path), line, "{path:?}");
        }
        Ok(())
    }

    #[test]
    fn tables_are_laid_over_key_by_key_and_lists_are_replaced() -> Result<(), toml::de::Error> {
        let mut under: toml::Table = "a = [1, 2]\nb = { c = 1, d = 2 }".parse()?;
        let over: toml::Table = "a = [3]\nb = { d = 4 }\ne = 5".parse()?;
        lay_over(&mut under, &over);
        assert_eq!(under, "a = [3]\nb = { c = 1, d = 4 }\ne = 5".parse()?);
        Ok(())
    }
}
