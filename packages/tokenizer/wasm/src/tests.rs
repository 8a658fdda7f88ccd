//! jinja2's tests (`is …`), as far as the engine's differ.
use crate::python::numbers::{float, is_float};
use crate::python::text::{fail, kind_name, str};
use crate::values::{is_integer, is_iterable, kind_of, Kind};
use minijinja::value::{Value, ValueKind};
use minijinja::{Environment, Error, State};
use std::cmp::Ordering;

pub fn register(env: &mut Environment) {
    for name in ["startingwith", "endingwith", "safe"] {
        env.remove_test(name);
    }
    env.add_test("iterable", is_iterable);
    env.add_test("sequence", is_sequence);
    env.add_test("mapping", |value: &Value| matches!(kind_of(value), Kind::Dict));
    env.add_test("number", |value: &Value| is_integer(value) || matches!(value.kind(), ValueKind::Number | ValueKind::Bool));
    env.add_test("integer", is_integer);
    env.add_test("float", is_float);
    env.add_test("callable", is_callable);
    env.add_test("lower", |value: &Value| -> Result<bool, Error> { has_case(value, "islower") });
    env.add_test("upper", |value: &Value| -> Result<bool, Error> { has_case(value, "isupper") });
    env.add_test("odd", |value: &Value| -> Result<bool, Error> { Ok(remainder(value, &Value::from(2))? == 1.0) });
    env.add_test("even", |value: &Value| -> Result<bool, Error> { Ok(remainder(value, &Value::from(2))? == 0.0) });
    env.add_test("divisibleby", |value: &Value, by: &Value| -> Result<bool, Error> { Ok(remainder(value, by)? == 0.0) });
    let orders: [(&[&str], fn(Ordering) -> bool); 4] = [
        (&["lt", "lessthan", "<"], Ordering::is_lt),
        (&["le", "<="], Ordering::is_le),
        (&["gt", "greaterthan", ">"], Ordering::is_gt),
        (&["ge", ">="], Ordering::is_ge),
    ];
    for (names, is_so) in orders {
        for name in names {
            env.add_test(*name, move |left: &Value, right: &Value| -> Result<bool, Error> {
                check_ordered(left, right)?;
                Ok(left.partial_cmp(right).is_some_and(is_so))
            });
        }
    }
    // For the operators `<`, `<=`, `>` and `>=`.
    env.add_test("operator <", |_state: &State, left: &Value, right: &Value| -> Result<bool, Error> {
        check_ordered(left, right).map(|()| true)
    });
}

/// @throws for values that Python does not put in an order
pub fn check_ordered(left: &Value, right: &Value) -> Result<(), Error> {
    let is_number = |value: &Value| matches!(value.kind(), ValueKind::Number | ValueKind::Bool) || is_integer(value);
    let is_ordered = match (kind_of(left), kind_of(right)) {
        (Kind::Text, Kind::Text) | (Kind::Bytes, Kind::Bytes) => true,
        (Kind::List, Kind::List) | (Kind::Tuple, Kind::Tuple) => {
            let mut pairs = left.try_iter()?.zip(right.try_iter()?);
            return pairs.find(|(left, right)| left != right).map_or(Ok(()), |(left, right)| check_ordered(&left, &right));
        }
        _ => is_number(left) && is_number(right),
    };
    if !is_ordered {
        return fail(format!("'{}' and '{}' cannot be put in an order", kind_name(left), kind_name(right)));
    }
    Ok(())
}

fn is_sequence(value: &Value) -> bool {
    matches!(kind_of(value), Kind::Undefined | Kind::Text | Kind::Bytes | Kind::List | Kind::Tuple | Kind::Dict)
        || value.kind() == ValueKind::Seq
}

fn is_callable(value: &Value) -> bool {
    match kind_of(value) {
        Kind::Undefined => true,
        Kind::Other if is_integer(value) || matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) => false,
        Kind::Other => value.downcast_object_ref::<crate::globals::Cycler>().is_none(),
        _ => false,
    }
}

fn has_case(value: &Value, method: &str) -> Result<bool, Error> {
    Ok(crate::methods::text::call(&str(value)?, method, &[])?.is_true())
}

fn remainder(value: &Value, by: &Value) -> Result<f64, Error> {
    match (float(value), float(by)) {
        (_, Some(0.0)) => fail("division by zero"),
        (Some(number), Some(by)) => {
            let rest = match (i128::try_from(value.clone()), i128::try_from(by as i64)) {
                (Ok(number), Ok(whole)) if by.fract() == 0.0 => number.rem_euclid(whole) as f64,
                _ => number - by * (number / by).floor(),
            };
            Ok(rest)
        }
        _ => fail(format!("unsupported operand type(s) for %: '{}' and '{}'", kind_name(value), kind_name(by))),
    }
}
