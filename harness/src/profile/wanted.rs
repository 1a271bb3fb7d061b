//! `"all"`, or a list of names.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

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
