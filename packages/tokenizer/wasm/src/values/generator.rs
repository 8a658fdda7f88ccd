//! Results of `map`, `select` and their like: read once, of unknown length, always true.
use minijinja::value::{Enumerator, Object, ObjectRepr, Value};
use minijinja::Error;
use std::fmt;
use std::sync::{Arc, Mutex};

#[derive(Debug)]
pub struct Generator(Mutex<Vec<Value>>);

impl Generator {
    pub fn wrap(values: Vec<Value>) -> Value {
        Value::from_object(Self(Mutex::new(values)))
    }

    /// @throws the failure of an item
    pub fn over(iterable: &Value) -> Result<Value, Error> {
        Ok(Self::wrap(iterable.try_iter()?.checked().collect::<Result<_, _>>()?))
    }
}

impl Object for Generator {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn get_value(self: &Arc<Self>, _key: &Value) -> Option<Value> {
        Some(Value::UNDEFINED)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(std::mem::take(&mut *self.0.lock().unwrap()))
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        None
    }

    fn is_true(self: &Arc<Self>) -> bool {
        true
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<generator object at 0x7f0000000000>")
    }
}
