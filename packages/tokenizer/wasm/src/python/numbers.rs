//! Numbers as Python writes and reads them.
use minijinja::value::{Value, ValueKind};

/// `repr` of a float: the shortest digits, an exponent below 1e-4 and from 1e16 on.
pub fn float_text(number: f64) -> String {
    if number.is_nan() {
        return "nan".into();
    }
    if number.is_infinite() {
        return if number < 0.0 { "-inf" } else { "inf" }.into();
    }
    let size = number.abs();
    if size != 0.0 && !(1e-4..1e16).contains(&size) {
        let text = format!("{number:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    let text = number.to_string();
    if text.contains('.') {
        text
    } else {
        text + ".0"
    }
}

pub fn is_float(value: &Value) -> bool {
    value.kind() == ValueKind::Number && !value.is_integer()
}

/// The integer that a value is; `True` and `False` are 1 and 0.
pub fn integer(value: &Value) -> Option<i128> {
    match value.kind() {
        ValueKind::Bool => Some(value.is_true() as i128),
        ValueKind::Number if value.is_integer() => i128::try_from(value.clone()).ok(),
        _ => None,
    }
}

pub fn float(value: &Value) -> Option<f64> {
    match value.kind() {
        ValueKind::Bool => Some(value.is_true() as u8 as f64),
        ValueKind::Number => f64::try_from(value.clone()).ok(),
        _ => None,
    }
}

/// Underscores stand between two digits only.
fn without_underscores(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let is_digit = |at: Option<&u8>| at.is_some_and(u8::is_ascii_alphanumeric);
    let is_between = |at: usize| at > 0 && is_digit(bytes.get(at - 1)) && is_digit(bytes.get(at + 1));
    (0..bytes.len()).all(|at| bytes[at] != b'_' || is_between(at)).then(|| text.replace('_', ""))
}

/// `int(text, base)` @returns digits with their sign, or nothing for a text that is no integer
pub fn parse_integer(text: &str, base: u32) -> Option<i128> {
    let text = without_underscores(text.trim_matches(super::characters::is_space))?.to_lowercase();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(&text)),
    };
    let prefix = match base {
        2 => "0b",
        8 => "0o",
        16 => "0x",
        _ => "",
    };
    let digits = if prefix.is_empty() { digits } else { digits.strip_prefix(prefix).unwrap_or(digits) };
    if digits.starts_with(['+', '-']) || !(2..=36).contains(&base) {
        return None;
    }
    i128::from_str_radix(&format!("{sign}{digits}"), base).ok()
}

/// `float(text)`
pub fn parse_float(text: &str) -> Option<f64> {
    without_underscores(text.trim_matches(super::characters::is_space))?.parse().ok()
}
