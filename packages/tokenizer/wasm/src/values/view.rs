//! `dict.keys()`, `dict.values()`, `dict.items()`
use minijinja::value::{Enumerator, Object, ObjectRepr, Tuple, Value};
use std::sync::Arc;

#[derive(Debug)]
pub struct View {
    name: &'static str,
    items: Vec<Value>,
}

impl View {
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// @returns nothing for a method of another name
    pub fn of(dict: &Value, method: &str) -> Option<Value> {
        let value_of = |key: &Value| dict.get_item(key).unwrap_or_default();
        let keys = dict.try_iter().ok()?;
        let (name, items) = match method {
            "keys" => ("dict_keys", keys.collect()),
            "values" => ("dict_values", keys.map(|key| value_of(&key)).collect()),
            "items" => ("dict_items", keys.map(|key| pair(key.clone(), value_of(&key))).collect()),
            _ => return None,
        };
        Some(Value::from_object(Self { name, items }))
    }
}

pub fn pair(key: Value, value: Value) -> Value {
    Value::from(Tuple::from([key, value]))
}

impl Object for View {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    /// A view has no index: asking for one gives an undefined value, not an item.
    fn get_value(self: &Arc<Self>, _key: &Value) -> Option<Value> {
        Some(Value::UNDEFINED)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.items.clone())
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.items.len())
    }
}
