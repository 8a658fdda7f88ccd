//! Filters that give a number.
use crate::arguments::{Arguments, Given};
use crate::python::numbers::{float, integer, is_float, parse_float, parse_integer};
use crate::python::text::{error, fail, kind_name};
use crate::values::big_integer::BigInteger;
use crate::values::is_integer;
use minijinja::value::Value;
use minijinja::{Environment, Error, ErrorKind};

pub fn register(env: &mut Environment) {
    env.add_filter("int", to_integer);
    env.add_filter("float", to_float);
    env.add_filter("abs", absolute);
    env.add_filter("round", round);
}

fn check_defined(value: &Value) -> Result<(), Error> {
    if value.is_undefined() {
        return Err(Error::from(ErrorKind::UndefinedError));
    }
    Ok(())
}

fn to_integer(value: &Value, args: Given) -> Result<Value, Error> {
    let args = Arguments::of("int", &["default", "base"], args)?;
    check_defined(value)?;
    let default = || args.get(0).cloned().unwrap_or(Value::from(0));
    if is_integer(value) {
        return Ok(value.clone());
    }
    if let Some(text) = value.as_str() {
        let base = args.integer(1)?.unwrap_or(10);
        let number = parse_integer(text, u32::try_from(base).unwrap_or(0)).map(small);
        return Ok(number.or_else(|| parse_float(text).and_then(whole)).unwrap_or_else(default));
    }
    if let Some(number) = integer(value) {
        return Ok(small(number));
    }
    match float(value) {
        Some(number) if number.is_infinite() => fail("cannot convert float infinity to integer"),
        Some(number) => Ok(whole(number).unwrap_or_else(default)),
        None => Ok(default()),
    }
}

fn small(number: i128) -> Value {
    i64::try_from(number).map_or_else(|_| Value::from(number), Value::from)
}

/// The whole part of a finite float.
fn whole(number: f64) -> Option<Value> {
    if !number.is_finite() {
        return None;
    }
    let number = number.trunc();
    Some(if number.abs() < i128::MAX as f64 { small(number as i128) } else { BigInteger::wrap(&format!("{number:.0}")) })
}

fn to_float(value: &Value, args: Given) -> Result<Value, Error> {
    let args = Arguments::of("float", &["default"], args)?;
    check_defined(value)?;
    let number = match value.as_str() {
        Some(text) => parse_float(text),
        None => float(value),
    };
    Ok(number.map(Value::from).or(args.get(0).cloned()).unwrap_or(Value::from(0.0)))
}

fn absolute(value: &Value) -> Result<Value, Error> {
    match (integer(value), float(value)) {
        (Some(number), _) => Ok(number.checked_abs().map_or_else(|| Value::from(number.unsigned_abs()), small)),
        (None, Some(number)) => Ok(Value::from(number.abs())),
        _ => fail(format!("bad operand type for abs(): '{}'", kind_name(value))),
    }
}

fn round(value: &Value, args: Given) -> Result<Value, Error> {
    let args = Arguments::of("round", &["precision", "method"], args)?;
    let precision = args.integer(0)?.unwrap_or(0).clamp(-400, 400) as i32;
    let method = args.given_text(1)?.unwrap_or("common");
    let number = float(value).ok_or_else(|| error(format!("round() needs a number, got {}", kind_name(value))))?;
    let scale = 10f64.powi(precision);
    match method {
        "common" if !is_float(value) => Ok(small(round_integer(integer(value).unwrap_or_default(), precision))),
        "common" => Ok(Value::from(round_float(number, precision))),
        "ceil" => Ok(Value::from((number * scale).ceil() / scale)),
        "floor" => Ok(Value::from((number * scale).floor() / scale)),
        _ => fail("method must be common, ceil or floor"),
    }
}

/// To the nearest, and to the even one of two.
fn round_float(number: f64, precision: i32) -> f64 {
    if !number.is_finite() {
        return number;
    }
    if precision >= 0 {
        return format!("{number:.*}", precision as usize).parse().unwrap_or(number);
    }
    let scale = 10f64.powi(-precision);
    (number / scale).round_ties_even() * scale
}

fn round_integer(number: i128, precision: i32) -> i128 {
    let Some(scale) = 10i128.checked_pow(u32::try_from(-precision).unwrap_or(0)) else { return 0 };
    let (floor, rest) = (number.div_euclid(scale), number.rem_euclid(scale));
    let is_up = rest * 2 > scale || (rest * 2 == scale && floor % 2 != 0);
    (floor + is_up as i128) * scale
}
