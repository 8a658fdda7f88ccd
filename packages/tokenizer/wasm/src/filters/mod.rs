//! jinja2's filters. The engine's own ones stay where they agree with Python's; the others are here.
mod html;
mod iterables;
mod numbers;
mod texts;
mod wrap;

pub use html::escape;
pub use iterables::is_group;

use crate::arguments::{Arguments, Given};
use crate::json::writer::tojson;
use minijinja::{Environment, Error, Value};

/// Names that only this engine has: a template that uses one fails in Python.
const FOREIGN: [&str; 5] = ["bool", "chain", "lines", "split", "zip"];

pub fn register(env: &mut Environment) {
    for name in FOREIGN {
        env.remove_filter(name);
    }
    env.add_filter("tojson", tojson);
    env.add_filter("default", default_value);
    env.add_filter("d", default_value);
    texts::register(env);
    numbers::register(env);
    iterables::register(env);
    html::register(env);
    wrap::register(env);
}

fn default_value(value: &Value, args: Given) -> Result<Value, Error> {
    let args = Arguments::of("default", &["default_value", "boolean"], args)?;
    let is_replaced = value.is_undefined() || (args.get(1).is_some_and(Value::is_true) && !value.is_true());
    Ok(if is_replaced { args.get(0).cloned().unwrap_or_else(|| Value::from("")) } else { value.clone() })
}
