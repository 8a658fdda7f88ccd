//! Methods of Python's types that do not change their object: the sandbox of chat templates is immutable.
mod dict;
mod list;
mod number;
pub mod text;

pub use dict::create as create_dict;

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind, State};

/// Calls a method of a value. @throws `UnknownMethod` for a name that its type has not
pub fn call(_state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    let result = match value.kind() {
        ValueKind::String => text::call(value.as_str().unwrap_or_default(), name, args),
        ValueKind::Bytes if name == "decode" => text::decode(value.as_bytes().unwrap_or_default()),
        ValueKind::Map => dict::call(value, name, args),
        ValueKind::Seq | ValueKind::Iterable => list::call(value, name, args),
        ValueKind::Number | ValueKind::Bool => number::call(value, name, args),
        _ => return Err(Error::from(ErrorKind::UnknownMethod)),
    };
    result
}
