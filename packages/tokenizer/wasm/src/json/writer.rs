//! `tojson` as transformers defines it: `json.dumps` without escaping for HTML.
use crate::arguments::{Arguments, Given};
use crate::python::numbers::{float_text, is_float};
use crate::python::text::{check_length, check_width, error, fail, kind_name, str, MAX_DEPTH};
use crate::surrogates;
use crate::values::{is_integer, kind_of, Kind};
use minijinja::value::Value;
use minijinja::Error;

pub fn tojson(value: &Value, args: Given) -> Result<Value, Error> {
    let args = Arguments::of("tojson", &["ensure_ascii", "indent", "separators", "sort_keys"], args)?;
    let indent = args.given(1).map(indentation).transpose()?;
    let (item, colon) = match args.given(2) {
        Some(pair) => (str(&pair.get_item_by_index(0)?)?.into_owned(), str(&pair.get_item_by_index(1)?)?.into_owned()),
        None if indent.is_some() => (",".into(), ": ".into()),
        None => (", ".into(), ": ".into()),
    };
    let is_ascii = args.is_true(0);
    let mut writer = Writer { is_ascii, indent, item, colon, sorts_keys: args.is_true(3), out: String::new(), depth: 0 };
    writer.value(value)?;
    Ok(Value::from(writer.out))
}

fn indentation(value: &Value) -> Result<String, Error> {
    if let Some(text) = value.as_str() {
        return Ok(text.to_string());
    }
    let width = crate::python::numbers::integer(value).ok_or_else(|| error("the indent must be an int or a str"))?;
    let width = usize::try_from(width.max(0)).unwrap_or(usize::MAX);
    check_width(width)?;
    Ok(" ".repeat(width))
}

struct Writer {
    is_ascii: bool,
    indent: Option<String>,
    item: String,
    colon: String,
    sorts_keys: bool,
    out: String,
    depth: usize,
}

impl Writer {
    fn value(&mut self, value: &Value) -> Result<(), Error> {
        check_length(self.out.len())?;
        if self.depth > MAX_DEPTH {
            return fail("maximum recursion depth exceeded while encoding a JSON object");
        }
        match kind_of(value) {
            Kind::None => self.out.push_str("null"),
            Kind::Bool => self.out.push_str(if value.is_true() { "true" } else { "false" }),
            Kind::Number if is_float(value) => self.float(f64::try_from(value.clone())?),
            Kind::Text => self.string(value.as_str().unwrap_or_default()),
            Kind::List | Kind::Tuple => self.list(value)?,
            Kind::Dict => self.object(value)?,
            _ if is_integer(value) => self.out.push_str(&value.to_string()),
            _ => return fail(format!("Object of type {} is not JSON serializable", kind_name(value))),
        }
        Ok(())
    }

    fn float(&mut self, number: f64) {
        let text = match number {
            _ if number.is_nan() => "NaN".into(),
            f64::INFINITY => "Infinity".into(),
            f64::NEG_INFINITY => "-Infinity".into(),
            _ => float_text(number),
        };
        self.out.push_str(&text);
    }

    fn list(&mut self, value: &Value) -> Result<(), Error> {
        self.out.push('[');
        self.depth += 1;
        let mut is_first = true;
        for item in value.try_iter()? {
            self.separate(is_first);
            is_first = false;
            self.value(&item)?;
        }
        self.close(is_first, ']');
        Ok(())
    }

    fn object(&mut self, value: &Value) -> Result<(), Error> {
        let mut keys: Vec<Value> = value.try_iter()?.collect();
        if self.sorts_keys {
            keys.sort();
        }
        self.out.push('{');
        self.depth += 1;
        let mut is_first = true;
        for key in keys {
            self.separate(is_first);
            is_first = false;
            self.key(&key)?;
            self.out.push_str(&self.colon);
            self.value(&value.get_item(&key)?)?;
        }
        self.close(is_first, '}');
        Ok(())
    }

    /// Numbers, booleans and `None` as keys become texts.
    fn key(&mut self, key: &Value) -> Result<(), Error> {
        match kind_of(key) {
            Kind::Text => self.string(key.as_str().unwrap_or_default()),
            Kind::None | Kind::Bool | Kind::Number => {
                self.out.push('"');
                self.value(key)?;
                self.out.push('"');
            }
            _ => return fail(format!("keys must be str, int, float, bool or None, not {}", kind_name(key))),
        }
        Ok(())
    }

    fn separate(&mut self, is_first: bool) {
        if !is_first {
            self.out.push_str(&self.item);
        }
        self.line();
    }

    fn close(&mut self, is_empty: bool, bracket: char) {
        self.depth -= 1;
        if !is_empty {
            self.line();
        }
        self.out.push(bracket);
    }

    fn line(&mut self) {
        if let Some(indent) = &self.indent {
            self.out.push('\n');
            for _ in 0..self.depth {
                self.out.push_str(indent);
            }
        }
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{c}' => self.out.push_str("\\f"),
                _ if c < ' ' || (self.is_ascii && c > '~') => self.escape(c),
                _ => self.out.push(c),
            }
        }
        self.out.push('"');
    }

    fn escape(&mut self, c: char) {
        if surrogates::is_stand_in(c) {
            self.out.push_str(&format!("\\u{:04x}", surrogates::code_point(c)));
            return;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            self.out.push_str(&format!("\\u{unit:04x}"));
        }
    }
}
