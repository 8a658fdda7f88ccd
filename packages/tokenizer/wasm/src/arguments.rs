//! Arguments of filters, methods and functions, bound to names as Python does.
use crate::python::text::{error, fail, kind_name, str};
use minijinja::value::{Kwargs, Rest, Value, ValueOrKwargs};
use minijinja::Error;
use std::borrow::Cow;

/// All arguments of a call, with the named ones.
pub type Given = Rest<ValueOrKwargs>;

/// Values by the index of their parameter.
pub struct Arguments {
    function: &'static str,
    names: &'static [&'static str],
    values: Vec<Option<Value>>,
}

/// Separates named arguments, which the engine puts last, from the others.
pub fn split_named(args: &[Value]) -> (&[Value], Option<Kwargs>) {
    match args.split_last() {
        Some((last, rest)) if last.is_kwargs() => (rest, Kwargs::try_from(last.clone()).ok()),
        _ => (args, None),
    }
}

impl Arguments {
    /// As `bind`.
    pub fn of(function: &'static str, names: &'static [&'static str], args: Given) -> Result<Self, Error> {
        Self::bind(function, names, &args.into_values())
    }

    /// @throws for too many arguments, and for names that the function has not
    pub fn bind(function: &'static str, names: &'static [&'static str], args: &[Value]) -> Result<Self, Error> {
        let (positional, named) = split_named(args);
        if positional.len() > names.len() {
            return fail(format!("{function}() takes at most {} arguments, got {}", names.len(), positional.len()));
        }
        let mut values: Vec<Option<Value>> = positional.iter().cloned().map(Some).collect();
        values.resize(names.len(), None);
        if let Some(named) = named {
            for name in named.args() {
                let Some(index) = names.iter().position(|known| *known == name) else {
                    return fail(format!("{function}() got an unexpected keyword argument '{name}'"));
                };
                if values[index].is_some() {
                    return fail(format!("{function}() got multiple values for argument '{name}'"));
                }
                values[index] = Some(named.peek(name)?);
            }
        }
        Ok(Self { function, names, values })
    }

    pub fn get(&self, index: usize) -> Option<&Value> {
        self.values[index].as_ref()
    }

    /// The argument, unless it is absent or `None`.
    pub fn given(&self, index: usize) -> Option<&Value> {
        self.get(index).filter(|value| !value.is_none())
    }

    pub fn required(&self, index: usize) -> Result<&Value, Error> {
        self.get(index)
            .ok_or_else(|| error(format!("{}() is missing the argument '{}'", self.function, self.names[index])))
    }

    pub fn is_true(&self, index: usize) -> bool {
        self.get(index).is_some_and(Value::is_true)
    }

    /// The argument as an integer; a text or a float is none.
    pub fn integer(&self, index: usize) -> Result<Option<i64>, Error> {
        self.get(index).map(|value| self.as_integer(index, value)).transpose()
    }

    pub fn given_integer(&self, index: usize) -> Result<Option<i64>, Error> {
        self.given(index).map(|value| self.as_integer(index, value)).transpose()
    }

    fn as_integer(&self, index: usize, value: &Value) -> Result<i64, Error> {
        let number = crate::python::numbers::integer(value).ok_or_else(|| self.unlike(index, "int"))?;
        Ok(number.clamp(i64::MIN as i128, i64::MAX as i128) as i64)
    }

    /// The argument, which must be a text.
    pub fn text(&self, index: usize) -> Result<&str, Error> {
        self.required(index)?.as_str().ok_or_else(|| self.unlike(index, "str"))
    }

    pub fn given_text(&self, index: usize) -> Result<Option<&str>, Error> {
        self.given(index).map(|value| value.as_str().ok_or_else(|| self.unlike(index, "str"))).transpose()
    }

    /// `str` of the argument.
    pub fn str_or<'a>(&'a self, index: usize, default: &'static str) -> Result<Cow<'a, str>, Error> {
        self.get(index).map_or(Ok(Cow::Borrowed(default)), str)
    }

    fn unlike(&self, index: usize, wanted: &str) -> Error {
        let got = self.get(index).map_or("nothing", kind_name);
        error(format!("{}() needs '{}' to be {wanted}, got {got}", self.function, self.names[index]))
    }
}
