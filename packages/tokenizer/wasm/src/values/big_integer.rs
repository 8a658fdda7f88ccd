//! Integers beyond the 128 bits of the engine's numbers.
use minijinja::value::{Object, ObjectRepr, Value};
use std::fmt;
use std::sync::Arc;

/// Digits with their sign. It is written and read; calculating with it is an error.
#[derive(Debug)]
pub struct BigInteger(String);

impl BigInteger {
    pub fn wrap(digits: &str) -> Value {
        Value::from_object(Self(digits.to_string()))
    }
}

impl Object for BigInteger {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
