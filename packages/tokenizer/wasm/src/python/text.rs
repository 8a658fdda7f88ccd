//! `str` and `repr` of values.
use super::characters::is_printable;
use super::numbers::{float_text, is_float};
use crate::values::{kind_of, Kind};
use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind};
use std::borrow::Cow;

/// Longest text of one value, bytes: lists of lists of one list are written as text without end.
pub const MAX_TEXT: usize = 16 << 20;
/// Largest width of a padded text.
pub const MAX_WIDTH: usize = 100_000;
/// Deepest nesting of a value that is written.
pub const MAX_DEPTH: usize = 900;

pub fn fail<T>(reason: impl Into<Cow<'static, str>>) -> Result<T, Error> {
    Err(error(reason))
}

pub fn error(reason: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, reason)
}

/// @throws for a text that is longer than a text may be
pub fn check_length(length: usize) -> Result<(), Error> {
    if length > MAX_TEXT {
        return fail(format!("a text may have {MAX_TEXT} bytes"));
    }
    Ok(())
}

/// @throws for a width beyond all uses
pub fn check_width(width: usize) -> Result<(), Error> {
    if width > MAX_WIDTH {
        return fail(format!("a width may be {MAX_WIDTH}, got {width}"));
    }
    Ok(())
}

/// `str(value)`
pub fn str(value: &Value) -> Result<Cow<'_, str>, Error> {
    if let Some(text) = value.as_str().filter(|_| value.kind() == ValueKind::String) {
        return Ok(Cow::Borrowed(text));
    }
    if value.is_undefined() {
        return Ok(Cow::Borrowed(""));
    }
    repr(value).map(Cow::Owned)
}

/// `repr(value)`
pub fn repr(value: &Value) -> Result<String, Error> {
    let mut out = String::new();
    write_repr(value, &mut out, 0)?;
    Ok(out)
}

fn write_repr(value: &Value, out: &mut String, depth: usize) -> Result<(), Error> {
    check_length(out.len())?;
    if depth > MAX_DEPTH {
        return fail("maximum recursion depth exceeded while getting the repr of an object");
    }
    match kind_of(value) {
        Kind::Undefined => out.push_str("Undefined"),
        Kind::Text if value.is_safe() => {
            out.push_str("Markup(");
            write_text(value.as_str().unwrap_or_default(), out);
            out.push(')');
        }
        Kind::Text => write_text(value.as_str().unwrap_or_default(), out),
        Kind::Number if is_float(value) => out.push_str(&float_text(f64::try_from(value.clone())?)),
        Kind::Bytes => write_bytes(value.as_bytes().unwrap_or_default(), out),
        Kind::List => write_items(value, ['[', ']'], out, depth)?,
        Kind::Tuple => write_items(value, ['(', ')'], out, depth)?,
        Kind::Dict => write_dict(value, out, depth)?,
        Kind::Namespace => {
            out.push_str("<Namespace ");
            write_dict(value, out, depth)?;
            out.push('>');
        }
        Kind::View(name) => {
            out.push_str(name);
            out.push('(');
            write_items(value, ['[', ']'], out, depth)?;
            out.push(')');
        }
        Kind::None | Kind::Bool | Kind::Number | Kind::Other => out.push_str(&value.to_string()),
    }
    Ok(())
}

fn write_items(value: &Value, [open, close]: [char; 2], out: &mut String, depth: usize) -> Result<(), Error> {
    out.push(open);
    let mut count = 0;
    for item in value.try_iter()? {
        if count > 0 {
            out.push_str(", ");
        }
        write_repr(&item, out, depth + 1)?;
        count += 1;
    }
    if open == '(' && count == 1 {
        out.push(',');
    }
    out.push(close);
    Ok(())
}

fn write_dict(value: &Value, out: &mut String, depth: usize) -> Result<(), Error> {
    out.push('{');
    for (index, key) in value.try_iter()?.enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        write_repr(&key, out, depth + 1)?;
        out.push_str(": ");
        write_repr(&value.get_item(&key)?, out, depth + 1)?;
    }
    out.push('}');
    Ok(())
}

fn write_text(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            _ if c == quote || c == '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if is_printable(c) => out.push(c),
            _ => write_escaped(crate::surrogates::code_point(c), out),
        }
    }
    out.push(quote);
}

fn write_escaped(code_point: u32, out: &mut String) {
    out.push_str(&match code_point {
        0..=0xff => format!("\\x{code_point:02x}"),
        0x100..=0xffff => format!("\\u{code_point:04x}"),
        _ => format!("\\U{code_point:08x}"),
    });
}

fn write_bytes(bytes: &[u8], out: &mut String) {
    let quote = if bytes.contains(&b'\'') && !bytes.contains(&b'"') { b'"' } else { b'\'' };
    out.push('b');
    out.push(quote as char);
    for &byte in bytes {
        match byte {
            _ if byte == quote || byte == b'\\' => out.extend(['\\', byte as char]),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            b' '..=b'~' => out.push(byte as char),
            _ => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out.push(quote as char);
}

/// `ascii(value)`
pub fn ascii(value: &Value) -> Result<String, Error> {
    let mut out = String::new();
    for c in repr(value)?.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            write_escaped(crate::surrogates::code_point(c), &mut out);
        }
    }
    Ok(out)
}

/// `repr(value)` of a value whose kind is what an error is about.
pub fn kind_name(value: &Value) -> &'static str {
    match value.kind() {
        ValueKind::Undefined => "Undefined",
        ValueKind::None => "NoneType",
        ValueKind::Bool => "bool",
        ValueKind::Number if is_float(value) => "float",
        ValueKind::Number => "int",
        ValueKind::String => "str",
        ValueKind::Bytes => "bytes",
        ValueKind::Seq if value.is_tuple() => "tuple",
        ValueKind::Seq => "list",
        ValueKind::Map => "dict",
        ValueKind::Iterable => "generator",
        _ => "object",
    }
}
