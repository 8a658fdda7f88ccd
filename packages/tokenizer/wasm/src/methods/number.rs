//! Methods of `int`, `bool` and `float`.
use crate::python::numbers::{float, integer};
use minijinja::value::Value;
use minijinja::{Error, ErrorKind};

pub fn call(number: &Value, name: &str, _args: &[Value]) -> Result<Value, Error> {
    let unknown = || Error::from(ErrorKind::UnknownMethod);
    match (name, integer(number)) {
        ("bit_length", Some(value)) => Ok(Value::from(128 - value.unsigned_abs().leading_zeros())),
        ("bit_count", Some(value)) => Ok(Value::from(value.unsigned_abs().count_ones())),
        ("conjugate", Some(value)) => Ok(Value::from(value)),
        ("is_integer", Some(_)) => Ok(Value::from(true)),
        ("is_integer", None) => {
            let value = float(number).ok_or_else(unknown)?;
            Ok(Value::from(value.is_finite() && value.fract() == 0.0))
        }
        ("conjugate", None) => Ok(number.clone()),
        _ => Err(unknown()),
    }
}
