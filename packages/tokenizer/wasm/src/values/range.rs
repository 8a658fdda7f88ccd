//! `range(start, stop, step)`
use crate::python::text::fail;
use minijinja::value::{Enumerator, Object, ObjectRepr, Value};
use minijinja::Error;
use std::fmt;
use std::sync::Arc;

/// The limit of jinja2's sandbox, in which templates run.
const MAX_ITEMS: i128 = 100_000;

#[derive(Debug)]
pub struct Range {
    start: i64,
    stop: i64,
    step: i64,
    length: usize,
}

impl Range {
    /// @throws for a step of zero, and for more items than the sandbox allows
    pub fn create(start: i64, stop: i64, step: i64) -> Result<Self, Error> {
        if step == 0 {
            return fail("range() arg 3 must not be zero");
        }
        let (distance, size) = match step > 0 {
            true => (stop as i128 - start as i128, step as i128),
            false => (start as i128 - stop as i128, -(step as i128)),
        };
        let length = (distance.max(0) + size - 1) / size;
        if length > MAX_ITEMS {
            return fail(format!("range() may have at most {MAX_ITEMS} items, got {length}"));
        }
        Ok(Self { start, stop, step, length: length as usize })
    }
}

impl Object for Range {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let index = key.as_usize().filter(|index| *index < self.length)?;
        Some(Value::from(self.start + index as i64 * self.step))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.length)
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { start, stop, step, .. } = **self;
        if step == 1 {
            write!(f, "range({start}, {stop})")
        } else {
            write!(f, "range({start}, {stop}, {step})")
        }
    }
}
