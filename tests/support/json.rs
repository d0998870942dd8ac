//! JSON as the tests read it.

use miniserde::json::{self, Number, Value};

/// A document that must be an object.
pub struct Object(json::Object);

impl Object {
    /// Reads a text, which must hold one object and nothing else.
    pub fn parse(text: &str) -> Self {
        match json::from_str(text) {
            Ok(Value::Object(object)) => Self(object),
            _ => panic!("not one JSON object: {text:?}"),
        }
    }

    /// The string under `name`; panics if it is no string.
    pub fn text(&self, name: &str) -> &str {
        match self.0.get(name) {
            Some(Value::String(text)) => text,
            other => panic!("{name} is {other:?}, not a string"),
        }
    }

    /// The number under `name`; panics if it is no whole one.
    pub fn number(&self, name: &str) -> u64 {
        match self.0.get(name) {
            Some(Value::Number(Number::U64(number))) => *number,
            other => panic!("{name} is {other:?}, not a whole number"),
        }
    }
}

/// A string as JSON writes it.
pub fn quoted(text: &str) -> String {
    json::to_string(text)
}
