//! Functions that templates start with: jinja2's, and transformers' `raise_exception` and `strftime_now`.
use crate::arguments::{Arguments, Given};
use crate::clock;
use crate::methods::create_dict;
use crate::python::text::{error, fail, str};
use crate::values::range::Range;
use minijinja::value::{Object, ObjectRepr, Value};
use minijinja::{Environment, Error, ErrorKind, State};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;

/// Names that variables of a request do not replace.
pub const RESERVED: [&str; 7] = ["raise_exception", "strftime_now", "range", "namespace", "dict", "cycler", "joiner"];

/// The reason of `raise_exception(reason)`.
#[derive(Debug)]
pub struct Refusal(pub String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

pub fn register(env: &mut Environment) {
    env.remove_global("debug");
    env.add_function("raise_exception", |args: Given| -> Result<Value, Error> {
        let args = Arguments::of("raise_exception", &["message"], args)?;
        let reason = str(args.required(0)?)?.into_owned();
        Err(error("refused").with_source(Refusal(reason)))
    });
    env.add_function("strftime_now", |args: Given| -> Result<String, Error> {
        let args = Arguments::of("strftime_now", &["format"], args)?;
        clock::now().format(args.text(0)?)
    });
    env.add_function("range", range);
    env.add_global("dict", Value::from_object(DictType));
    let namespace = Value::from_function(minijinja::functions::namespace);
    env.add_function("namespace", move |state: &mut State, args: Given| -> Result<Value, Error> {
        let members = create_dict(&args.into_values())?;
        for name in members.try_iter()? {
            if name.as_str().is_some_and(|name| name.starts_with('_')) {
                return fail(format!("Chat templates cannot store underscore-prefixed attributes on a namespace, got '{name}'"));
            }
        }
        namespace.call(state, &[members])
    });
    env.add_function("cycler", |items: Given| -> Result<Value, Error> {
        let items = items.into_values();
        if items.is_empty() {
            return fail("at least one item has to be provided");
        }
        Ok(Value::from_object(Cycler { items, position: AtomicUsize::new(0) }))
    });
    env.add_function("joiner", |args: Given| -> Result<Value, Error> {
        let args = Arguments::of("joiner", &["sep"], args)?;
        let separator = args.str_or(0, ", ")?.into_owned();
        Ok(Value::from_object(Joiner { separator, was_used: AtomicBool::new(false) }))
    });
}

fn range(args: Given) -> Result<Value, Error> {
    let args = Arguments::of("range", &["start", "stop", "step"], args)?;
    args.required(0)?;
    let first = args.integer(0)?.unwrap_or(0);
    let (start, stop) = match args.integer(1)? {
        Some(stop) => (first, stop),
        None => (0, first),
    };
    Range::create(start, stop, args.integer(2)?.unwrap_or(1)).map(Value::from_object)
}

/// `dict(…)` and `dict.fromkeys(…)`
#[derive(Debug)]
struct DictType;

impl Object for DictType {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, _state: &mut State, args: &[Value]) -> Result<Value, Error> {
        create_dict(args)
    }

    fn call_method(self: &Arc<Self>, state: &mut State, method: &str, args: &[Value]) -> Result<Value, Error> {
        if method != "fromkeys" {
            return Err(Error::from(ErrorKind::UnknownMethod));
        }
        crate::methods::call(state, &create_dict(&[])?, method, args)
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<class 'dict'>")
    }
}

#[derive(Debug)]
pub struct Cycler {
    items: Vec<Value>,
    position: AtomicUsize,
}

impl Object for Cycler {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let position = self.position.load(Ordering::Relaxed);
        match key.as_str()? {
            "current" => Some(self.items[position].clone()),
            "items" => Some(Value::from(self.items.clone())),
            "pos" => Some(Value::from(position)),
            _ => None,
        }
    }

    fn call_method(self: &Arc<Self>, _state: &mut State, method: &str, _args: &[Value]) -> Result<Value, Error> {
        let position = self.position.load(Ordering::Relaxed);
        match method {
            "next" => {
                self.position.store((position + 1) % self.items.len(), Ordering::Relaxed);
                Ok(self.items[position].clone())
            }
            "reset" => {
                self.position.store(0, Ordering::Relaxed);
                Ok(Value::from(()))
            }
            _ => Err(Error::from(ErrorKind::UnknownMethod)),
        }
    }
}

#[derive(Debug)]
struct Joiner {
    separator: String,
    was_used: AtomicBool,
}

impl Object for Joiner {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, _state: &mut State, _args: &[Value]) -> Result<Value, Error> {
        let was_used = self.was_used.swap(true, Ordering::Relaxed);
        Ok(Value::from(if was_used { self.separator.as_str() } else { "" }))
    }
}
