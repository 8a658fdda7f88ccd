//! Methods of `list` and `tuple`.
use crate::arguments::Arguments;
use crate::python::text::{error, fail};
use crate::values::{kind_of, Kind};
use minijinja::value::Value;
use minijinja::{Error, ErrorKind};

pub fn call(list: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    let kind = kind_of(list);
    if !matches!(kind, Kind::List | Kind::Tuple) && list.downcast_object_ref::<crate::values::range::Range>().is_none() {
        return Err(Error::from(ErrorKind::UnknownMethod));
    }
    match (name, kind) {
        ("count", _) => {
            let args = Arguments::bind("count", &["value"], args)?;
            let wanted = args.required(0)?;
            Ok(Value::from(list.try_iter()?.filter(|item| item == wanted).count()))
        }
        ("index", _) => {
            let args = Arguments::bind("index", &["value", "start", "stop"], args)?;
            let wanted = args.required(0)?;
            let length = list.len().unwrap_or_default();
            let bound = |index: Option<i64>, default: usize| {
                index.map_or(default, |at| if at < 0 { length.saturating_sub(at.unsigned_abs() as usize) } else { at as usize })
            };
            let (start, stop) = (bound(args.integer(1)?, 0), bound(args.integer(2)?, length));
            let mut items = list.try_iter()?.enumerate().skip(start).take(stop.saturating_sub(start));
            let found = items.find(|(_, item)| item == wanted);
            found.map(|(index, _)| Value::from(index)).ok_or_else(|| error("the value is not in the list"))
        }
        ("copy", Kind::List) => Ok(list.clone()),
        ("append" | "extend" | "insert" | "remove" | "pop" | "clear" | "sort" | "reverse", Kind::List) => {
            fail(format!("list.{name}() is not safely callable"))
        }
        _ => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}
