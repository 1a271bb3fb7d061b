//! One name in the forms in which code writes it.

/// `dram_copy`, `dram-copy`, `DramCopy` and `DRAM_COPY`.
#[derive(Clone, Debug)]
pub struct Names {
    /// `dram_copy`: modules, files, functions.
    pub snake: String,
    kebab: String,
    camel: String,
    upper: String,
}

impl Names {
    /// The forms of a name in snake case.
    pub fn of(snake: &str) -> Self {
        let capital = |part: &str| {
            let (first, rest) = part.split_at(part.len().min(1));
            first.to_uppercase() + rest
        };
        Self {
            snake: snake.to_owned(),
            kebab: snake.replace('_', "-"),
            camel: snake.split('_').map(capital).collect(),
            upper: snake.to_uppercase(),
        }
    }

    /// The same with constants in the place of types.
    pub fn with_types_as_constants(&self) -> Self {
        Self { camel: self.upper.clone(), ..self.clone() }
    }

    /// `text` with each whole word that is this name replaced by the other name in that form. A
    /// name of one word has one lower form: in quotes it takes the other's kebab form.
    pub fn replace(&self, text: &str, other: &Self) -> String {
        let mut made = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find(is_part) {
            made.push_str(&rest[..start]);
            let quoted = made.ends_with('"');
            rest = &rest[start..];
            let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(length);
            made.push_str(self.form(word, quoted, other).unwrap_or(word));
            rest = after;
        }
        made + rest
    }

    fn form<'a>(&self, word: &str, quoted: bool, other: &'a Self) -> Option<&'a str> {
        if word == self.kebab && (quoted || self.kebab != self.snake) {
            Some(&other.kebab)
        } else if word == self.snake {
            Some(&other.snake)
        } else if word == self.camel {
            Some(&other.camel)
        } else if word == self.upper {
            Some(&other.upper)
        } else {
            None
        }
    }
}

fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_gets_its_own() {
        let (from, to) = (Names::of("dram_copy"), Names::of("a_b"));
        for (text, expected) in [
            ("mod dram_copy;", "mod a_b;"),
            ("&dram_copy::DramCopy", "&a_b::AB"),
            ("\"dram-copy\"", "\"a-b\""),
            ("DRAM_COPY_MIB dram_copy_2 dram-copy-2", "DRAM_COPY_MIB dram_copy_2 dram-copy-2"),
            ("DRAM_COPY", "A_B"),
        ] {
            assert_eq!(from.replace(text, &to), expected);
        }
    }

    #[test]
    fn quotes_identify_a_name_of_one_word() {
        let (from, to) = (Names::of("x"), Names::of("a_b"));
        let text = "mod x; x::X \"x\" x() max";
        assert_eq!(from.replace(text, &to), "mod a_b; a_b::AB \"a-b\" a_b() max");
    }
}
