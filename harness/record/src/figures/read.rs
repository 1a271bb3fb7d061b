//! Figures from their JSON, without a text or a map of the names: a record has thousands of them.

use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, Visitor};

use super::{CellFigures, Place};

impl<'de> Deserialize<'de> for CellFigures {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Figures;
        impl<'de> Visitor<'de> for Figures {
            type Value = CellFigures;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("figures by their names")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<CellFigures, A::Error> {
                let mut figures = CellFigures::default();
                while let Some(place) = map.next_key_seed(Named(&mut figures))? {
                    match place {
                        Place::Known(figure) => *figure = Some(map.next_value()?),
                        Place::Other(figure) => *figure = map.next_value()?,
                    }
                }
                Ok(figures)
            }
        }
        deserializer.deserialize_map(Figures)
    }
}

/// Finds the place of a figure by its name.
struct Named<'a>(&'a mut CellFigures);

impl<'de, 'a> DeserializeSeed<'de> for Named<'a> {
    type Value = Place<'a>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Place<'a>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'a> Visitor<'_> for Named<'a> {
    type Value = Place<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a figure")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Place<'a>, E> {
        Ok(self.0.place(name))
    }
}
