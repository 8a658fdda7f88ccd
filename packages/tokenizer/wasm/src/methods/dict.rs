//! Methods of `dict`.
use crate::arguments::{split_named, Arguments};
use crate::python::text::fail;
use crate::values::view::View;
use crate::values::{kind_of, Kind};
use minijinja::value::Value;
use minijinja::{Error, ErrorKind};

pub fn call(dict: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    if !matches!(kind_of(dict), Kind::Dict) {
        return Err(Error::from(ErrorKind::UnknownMethod));
    }
    match name {
        "keys" | "values" | "items" => {
            if !args.is_empty() {
                return fail(format!("dict.{name}() takes no arguments, got {}", args.len()));
            }
            Ok(View::of(dict, name).unwrap_or_default())
        }
        "get" => {
            let args = Arguments::bind("get", &["key", "default"], args)?;
            let found = get(dict, args.required(0)?)?;
            Ok(found.unwrap_or_else(|| args.get(1).cloned().unwrap_or(Value::from(()))))
        }
        "copy" => Ok(dict.clone()),
        "fromkeys" => {
            let args = Arguments::bind("fromkeys", &["iterable", "value"], args)?;
            let value = args.get(1).cloned().unwrap_or(Value::from(()));
            let keys = args.required(0)?.try_iter()?.map(|key| (key, value.clone()));
            Ok(Value::from_pairs(keys.collect::<Vec<_>>()))
        }
        "update" | "pop" | "popitem" | "clear" | "setdefault" => fail(format!("dict.{name}() is not safely callable")),
        _ => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}

/// The member of a key, if there is one.
fn get(dict: &Value, key: &Value) -> Result<Option<Value>, Error> {
    Ok(dict.as_object().and_then(|object| object.get_value(key)))
}

/// `dict(…)`: of a dict, of pairs, and of named arguments.
pub fn create(args: &[Value]) -> Result<Value, Error> {
    let (positional, named) = split_named(args);
    let mut members: Vec<(Value, Value)> = Vec::new();
    match positional {
        [] => (),
        [value] if matches!(kind_of(value), Kind::Dict) => {
            for key in value.try_iter()? {
                let member = value.get_item(&key)?;
                members.push((key, member));
            }
        }
        [value] => {
            for pair in value.try_iter()? {
                let pair: Vec<Value> = pair.try_iter()?.collect();
                let [key, member] = pair.as_slice() else { return fail("dict() needs pairs of key and value") };
                members.push((key.clone(), member.clone()));
            }
        }
        _ => return fail(format!("dict expected at most 1 argument, got {}", positional.len())),
    }
    if let Some(named) = named {
        for name in named.args() {
            members.push((Value::from(name), named.peek(name)?));
        }
    }
    Ok(Value::from_pairs(members))
}
