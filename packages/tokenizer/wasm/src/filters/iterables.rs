//! Filters over lists, dicts and their like.
use crate::arguments::{Arguments, Given};
use crate::python::text::{fail, kind_name};
use crate::values::generator::Generator;
use crate::values::view::View;
use crate::values::{is_iterable, kind_of, Kind};
use minijinja::value::{Enumerator, Kwargs, Object, ObjectRepr, Value};
use minijinja::{filters, Environment, Error, State};
use std::sync::Arc;

pub fn register(env: &mut Environment) {
    // Python's give an iterator that is read once, and nothing at all for a value that is not true.
    let of_true = [
        ("map", Value::from_function(filters::map)),
        ("select", Value::from_function(filters::select)),
        ("reject", Value::from_function(filters::reject)),
        ("selectattr", Value::from_function(filters::selectattr)),
        ("rejectattr", Value::from_function(filters::rejectattr)),
    ];
    for (name, filter) in of_true {
        env.add_filter(name, move |state: &mut State, args: Given| -> Result<Value, Error> {
            let args = args.into_values();
            if args.first().is_some_and(|value| !value.is_true()) {
                return Ok(Generator::wrap(Vec::new()));
            }
            Generator::over(&filter.call(state, &args)?)
        });
    }
    let batch = Value::from_function(filters::batch);
    env.add_filter("batch", move |state: &mut State, value: Value, args: Given| -> Result<Value, Error> {
        let args = Arguments::of("batch", &["linecount", "fill_with"], args)?;
        check_iterable(&value)?;
        Generator::over(&batch.call(state, &positional(value, &args)?)?)
    });
    let slice = Value::from_function(filters::slice);
    env.add_filter("slice", move |state: &mut State, value: Value, args: Given| -> Result<Value, Error> {
        let args = Arguments::of("slice", &["slices", "fill_with"], args)?;
        check_iterable(&value)?;
        Generator::over(&slice.call(state, &positional(value, &args)?)?)
    });
    let unique = Value::from_function(filters::unique);
    env.add_filter("unique", move |state: &mut State, value: Value, args: Given| -> Result<Value, Error> {
        let args = Arguments::of("unique", &["case_sensitive", "attribute"], args)?;
        check_iterable(&value)?;
        Generator::over(&unique.call(state, &named(value, &args, &["case_sensitive", "attribute"]))?)
    });
    by_name(env, "sort", Value::from_function(filters::sort), &["reverse", "case_sensitive", "attribute"]);
    by_name(env, "min", Value::from_function(filters::min), &["case_sensitive", "attribute"]);
    by_name(env, "max", Value::from_function(filters::max), &["case_sensitive", "attribute"]);
    by_name(env, "dictsort", Value::from_function(filters::dictsort), &["case_sensitive", "by", "reverse"]);
    env.add_filter("attr", attribute);
    env.add_filter("items", items);
    env.add_filter("groupby", group_by);
    env.add_filter("reverse", reverse);
    env.add_filter("length", length);
    env.add_filter("count", length);
    env.add_filter("list", list);
    env.add_filter("last", last);
}

/// Registers a filter of the engine that takes its arguments by name only.
fn by_name(env: &mut Environment, name: &'static str, filter: Value, names: &'static [&'static str]) {
    env.add_filter(name, move |state: &mut State, value: Value, args: Given| -> Result<Value, Error> {
        let args = Arguments::of(name, names, args)?;
        check_iterable(&value)?;
        filter.call(state, &named(value, &args, names))
    });
}

fn named(value: Value, args: &Arguments, names: &'static [&'static str]) -> Vec<Value> {
    let given = names.iter().enumerate().filter_map(|(index, name)| Some((*name, args.given(index)?.clone())));
    vec![value, Value::from(given.collect::<Kwargs>())]
}

/// A number and what to fill with.
fn positional(value: Value, args: &Arguments) -> Result<Vec<Value>, Error> {
    Ok([Some(value), Some(args.required(0)?.clone()), args.given(1).cloned()].into_iter().flatten().collect())
}

/// An undefined value is an empty list; `None` is none.
fn check_iterable(value: &Value) -> Result<(), Error> {
    if !is_iterable(value) {
        return fail(format!("'{}' object is not iterable", kind_name(value)));
    }
    Ok(())
}

/// `value | map(attribute=attribute)`
pub fn attributes(state: &mut State, value: &Value, attribute: &Value) -> Result<Value, Error> {
    let named = Kwargs::from_iter([("attribute", attribute.clone())]);
    state.apply_filter("map", &[value.clone(), Value::from(named)])
}

/// `getattr`: the items of a dict are no attributes.
fn attribute(value: &Value, args: Given) -> Result<Value, Error> {
    let args = Arguments::of("attr", &["name"], args)?;
    let name = args.text(0)?;
    match kind_of(value) {
        Kind::Undefined => Err(Error::from(minijinja::ErrorKind::UndefinedError)),
        Kind::Namespace | Kind::Other => value.get_attr(name),
        _ => Ok(Value::UNDEFINED),
    }
}

fn items(value: &Value) -> Result<Value, Error> {
    match kind_of(value) {
        Kind::Undefined => Ok(Generator::wrap(Vec::new())),
        Kind::Dict => Generator::over(&View::of(value, "items").unwrap_or_default()),
        _ => fail("Can only get item pairs from a mapping."),
    }
}

fn length(value: &Value) -> Result<usize, Error> {
    let counted = match kind_of(value) {
        Kind::Undefined => Some(0),
        Kind::None | Kind::Bool | Kind::Number | Kind::Namespace => None,
        Kind::Text => value.as_str().map(|text| text.chars().count()),
        _ => value.len(),
    };
    match counted {
        Some(length) => Ok(length),
        None => fail(format!("object of type '{}' has no len()", kind_name(value))),
    }
}

fn list(value: &Value) -> Result<Value, Error> {
    check_iterable(value)?;
    Ok(Value::from(value.try_iter()?.checked().collect::<Result<Vec<_>, _>>()?))
}

fn is_generator(value: &Value) -> bool {
    value.downcast_object_ref::<Generator>().is_some()
}

fn last(value: &Value) -> Result<Value, Error> {
    check_iterable(value)?;
    if is_generator(value) {
        return fail("'generator' object is not reversible");
    }
    Ok(value.try_iter()?.last().unwrap_or_default())
}

/// A text stays one; a list becomes an iterator, and an iterator a list.
fn reverse(value: &Value) -> Result<Value, Error> {
    if let Some(text) = value.as_str() {
        return Ok(Value::from(text.chars().rev().collect::<String>()));
    }
    check_iterable(value)?;
    let mut items: Vec<Value> = value.try_iter()?.checked().collect::<Result<_, _>>()?;
    items.reverse();
    Ok(if is_generator(value) { Value::from(items) } else { Generator::wrap(items) })
}

fn group_by(state: &mut State, value: &Value, args: Given) -> Result<Value, Error> {
    let args = Arguments::of("groupby", &["attribute", "default", "case_sensitive"], args)?;
    check_iterable(value)?;
    let attribute = args.required(0)?;
    let items = list(value)?;
    let mut map_arguments = vec![("attribute", attribute.clone())];
    map_arguments.extend(args.given(1).map(|default| ("default", default.clone())));
    let keys = state.apply_filter("map", &[items.clone(), Value::from(Kwargs::from_iter(map_arguments))])?;
    let is_case_sensitive = args.is_true(2);
    let folded = |key: &Value| match key.as_str() {
        Some(text) if !is_case_sensitive => Value::from(text.to_lowercase()),
        _ => key.clone(),
    };
    let mut pairs: Vec<(Value, Value, Value)> =
        keys.try_iter()?.zip(items.try_iter()?).map(|(key, item)| (folded(&key), key, item)).collect();
    for pair in pairs.windows(2) {
        crate::tests::check_ordered(&pair[0].0, &pair[1].0)?;
    }
    pairs.sort_by(|left, right| left.0.cmp(&right.0));
    let mut groups: Vec<Group> = Vec::new();
    let mut last: Option<Value> = None;
    for (folded, key, item) in pairs {
        match groups.last_mut() {
            Some(group) if last.as_ref() == Some(&folded) => group.items.push(item),
            _ => groups.push(Group { grouper: key, items: vec![item] }),
        }
        last = Some(folded);
    }
    Ok(groups.into_iter().map(Value::from_object).collect())
}

/// A pair of `groupby`, with names for its two members.
#[derive(Debug)]
struct Group {
    grouper: Value,
    items: Vec<Value>,
}

impl Object for Group {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match (key.as_str(), key.as_usize()) {
            (Some("grouper"), _) | (_, Some(0)) => Some(self.grouper.clone()),
            (Some("list"), _) | (_, Some(1)) => Some(Value::from(self.items.clone())),
            _ => None,
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(2)
    }
}

/// Whether a value is a pair of `groupby`, which is written as a tuple.
pub fn is_group(value: &Value) -> bool {
    value.downcast_object_ref::<Group>().is_some()
}
