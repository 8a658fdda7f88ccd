//! jinja2's filters. The engine's own ones stay where they agree with Python's; the others are here.
mod html;
mod iterables;
mod numbers;
mod texts;
mod wrap;

pub use html::escape;
pub use iterables::is_group;

use crate::json::writer::tojson;
use minijinja::Environment;

/// Names that only this engine has: a template that uses one fails in Python.
const FOREIGN: [&str; 5] = ["bool", "chain", "lines", "split", "zip"];

pub fn register(env: &mut Environment) {
    for name in FOREIGN {
        env.remove_filter(name);
    }
    env.add_filter("tojson", tojson);
    texts::register(env);
    numbers::register(env);
    iterables::register(env);
    html::register(env);
    wrap::register(env);
}
