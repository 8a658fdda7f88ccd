//! Kinds of Python's values, and the ones that the engine lacks.
pub mod big_integer;
pub mod generator;
pub mod range;
pub mod view;

use minijinja::value::{Value, ValueKind};

/// A value's kind, as far as writing and testing it depends on it.
pub enum Kind {
    Undefined,
    None,
    Bool,
    Number,
    Text,
    Bytes,
    List,
    Tuple,
    Dict,
    Namespace,
    /// `dict.keys()`, `dict.values()` or `dict.items()`, by the name that Python prints.
    View(&'static str),
    /// Ranges, generators, functions, macros, loops.
    Other,
}

pub fn kind_of(value: &Value) -> Kind {
    match value.kind() {
        ValueKind::Undefined => Kind::Undefined,
        ValueKind::None => Kind::None,
        ValueKind::Bool => Kind::Bool,
        ValueKind::Number => Kind::Number,
        ValueKind::String => Kind::Text,
        ValueKind::Bytes => Kind::Bytes,
        ValueKind::Seq if value.downcast_object_ref::<range::Range>().is_some() => Kind::Other,
        ValueKind::Seq if value.is_tuple() || crate::filters::is_group(value) => Kind::Tuple,
        ValueKind::Seq => Kind::List,
        ValueKind::Map => map_kind(value),
        ValueKind::Iterable => iterable_kind(value),
        _ => Kind::Other,
    }
}

/// The engine has loops, macros and namespaces as maps, too.
fn map_kind(value: &Value) -> Kind {
    let type_name = value.as_object().map_or("", |object| object.type_name());
    if type_name.ends_with("::Namespace") {
        Kind::Namespace
    } else if type_name.contains("IndexMap<") || type_name.ends_with("::KwargsValues") {
        Kind::Dict
    } else {
        Kind::Other
    }
}

/// The engine's own iterables are slices, repetitions and sums of lists, which it makes when they are read.
fn iterable_kind(value: &Value) -> Kind {
    if let Some(view) = value.downcast_object_ref::<view::View>() {
        return Kind::View(view.name());
    }
    if value.downcast_object_ref::<generator::Generator>().is_some() {
        return Kind::Other;
    }
    Kind::List
}

/// Whether `iter(value)` works. It reads nothing: a generator can be read once only.
pub fn is_iterable(value: &Value) -> bool {
    match kind_of(value) {
        Kind::None | Kind::Bool | Kind::Number | Kind::Namespace => false,
        Kind::Other => matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable),
        _ => true,
    }
}

/// Whether a value is an integer, of any length; `True` and `False` are not.
pub fn is_integer(value: &Value) -> bool {
    value.is_integer() || value.downcast_object_ref::<big_integer::BigInteger>().is_some()
}
