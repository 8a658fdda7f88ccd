//! `str.format` and `%`: fields are found here, and the engine formats one value at a time.
use super::numbers::{float, float_text};
use super::text::{ascii, check_length, check_width, error, fail, kind_name, repr, str};
use crate::arguments::split_named;
use minijinja::formatting::{format as format_value, FormatStyle};
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::Error;

/// Values that fields name.
struct Fields<'a> {
    positional: &'a [Value],
    named: Option<Kwargs>,
    mapping: Option<&'a Value>,
    /// Index of the next field without a name; nothing once a field was numbered.
    next: Option<usize>,
}

/// `text.format(*args, **kwargs)`
pub fn format(text: &str, args: &[Value]) -> Result<String, Error> {
    let (positional, named) = split_named(args);
    Fields { positional, named, mapping: None, next: Some(0) }.fill(text, 0)
}

/// `text.format_map(mapping)`
pub fn format_map(text: &str, mapping: &Value) -> Result<String, Error> {
    Fields { positional: &[], named: None, mapping: Some(mapping), next: Some(0) }.fill(text, 0)
}

impl Fields<'_> {
    fn fill(&mut self, text: &str, depth: usize) -> Result<String, Error> {
        if depth > 1 {
            return fail("Max string recursion exceeded");
        }
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            out.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix(brace) {
                out.push_str(brace);
                rest = after;
            } else if brace == "}" {
                return fail("Single '}' encountered in format string");
            } else {
                let end = field_end(rest)?;
                out.push_str(&self.field(&rest[..end], depth)?);
                rest = &rest[end + 1..];
            }
            check_length(out.len())?;
        }
        out.push_str(rest);
        Ok(out)
    }

    fn field(&mut self, field: &str, depth: usize) -> Result<String, Error> {
        let (name, spec) = split_spec(field);
        let (name, conversion) = match name.split_once('!') {
            Some((name, conversion)) => (name, Some(conversion)),
            None => (name, None),
        };
        let value = self.value(name)?;
        let spec = if spec.contains(['{', '}']) { self.fill(spec, depth + 1)? } else { spec.into() };
        let value = match conversion {
            None => value,
            Some("s") => Value::from(str(&value)?.into_owned()),
            Some("r") => Value::from(repr(&value)?),
            Some("a") => Value::from(ascii(&value)?),
            Some(other) => return fail(format!("Unknown conversion specifier {other}")),
        };
        format_one(&value, &spec)
    }

    fn value(&mut self, name: &str) -> Result<Value, Error> {
        let end = name.find(['.', '[']).unwrap_or(name.len());
        let mut value = self.first(&name[..end])?;
        let mut path = &name[end..];
        while !path.is_empty() {
            if let Some(rest) = path.strip_prefix('.') {
                let end = rest.find(['.', '[']).unwrap_or(rest.len());
                value = value.get_attr(&rest[..end])?;
                path = &rest[end..];
            } else {
                let rest = &path[1..];
                let end = rest.find(']').ok_or_else(|| error("Missing ']' in format string"))?;
                let key = rest[..end].parse::<i64>().map_or_else(|_| Value::from(&rest[..end]), Value::from);
                value = value.get_item(&key)?;
                path = &rest[end + 1..];
            }
        }
        Ok(value)
    }

    fn first(&mut self, name: &str) -> Result<Value, Error> {
        let missing = || error(format!("Replacement field '{name}' has no value"));
        if name.is_empty() {
            let index = self.next.ok_or_else(|| error("cannot switch from manual field numbering to automatic"))?;
            self.next = Some(index + 1);
            return self.positional.get(index).cloned().ok_or_else(missing);
        }
        if let Ok(index) = name.parse::<usize>() {
            if self.next.is_some_and(|next| next > 0) {
                return fail("cannot switch from automatic field numbering to manual");
            }
            self.next = None;
            return self.positional.get(index).cloned().ok_or_else(missing);
        }
        if let Some(mapping) = self.mapping {
            let found = mapping.get_item(&Value::from(name))?;
            return if found.is_undefined() { Err(missing()) } else { Ok(found) };
        }
        let named = self.named.as_ref().filter(|named| named.has(name)).ok_or_else(missing)?;
        named.peek(name)
    }
}

/// Index of the brace that closes a field.
fn field_end(text: &str) -> Result<usize, Error> {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => return Ok(at),
            '}' => depth -= 1,
            _ => (),
        }
    }
    fail("expected '}' before end of string")
}

/// A colon within brackets is part of a key.
fn split_spec(field: &str) -> (&str, &str) {
    let mut is_in_key = false;
    for (at, c) in field.char_indices() {
        match c {
            '[' => is_in_key = true,
            ']' => is_in_key = false,
            ':' if !is_in_key => return (&field[..at], &field[at + 1..]),
            _ => (),
        }
    }
    (field, "")
}

fn format_one(value: &Value, spec: &str) -> Result<String, Error> {
    if spec.is_empty() {
        return str(value).map(|text| text.into_owned());
    }
    check_numbers(spec)?;
    if let (Some(spec), Some(number)) = (spec.strip_suffix('%'), float(value)) {
        return percentage(number, spec);
    }
    match value.kind() {
        ValueKind::String | ValueKind::Number => (),
        ValueKind::Bool if !spec.ends_with('s') => {
            let number = Value::from(value.is_true() as i64);
            return format_value(FormatStyle::StrFormat, &format!("{{:{spec}}}"), &[number]);
        }
        _ => return fail(format!("unsupported format string passed to {}.__format__", kind_name(value))),
    }
    format_value(FormatStyle::StrFormat, &format!("{{:{spec}}}"), std::slice::from_ref(value))
}

/// @param spec what stands before the percent sign
fn percentage(number: f64, spec: &str) -> Result<String, Error> {
    let mut chars = spec.chars();
    let (alignment, rest) = match (chars.next(), chars.next()) {
        (Some(fill), Some('<' | '>' | '^')) => spec.split_at(fill.len_utf8() + 1),
        (Some('<' | '>' | '^'), _) => spec.split_at(1),
        _ => ("", spec),
    };
    let (flags, rest) = rest.split_at(rest.find(|c| !"+- #".contains(c)).unwrap_or(rest.len()));
    let (width, precision) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
    let number = [Value::from(number * 100.0)];
    let digits = |width: &str| format_value(FormatStyle::StrFormat, &format!("{{:{flags}{width}{precision}f}}"), &number);
    if alignment.is_empty() {
        // Blanks and zeros stand before the digits, and the percent sign takes one place.
        let zero = if width.starts_with('0') { "0" } else { "" };
        let width = match width.parse().unwrap_or(0_usize) {
            0 | 1 => String::new(),
            width => format!("{zero}{}", width - 1),
        };
        return Ok(digits(&width)? + "%");
    }
    format_value(FormatStyle::StrFormat, &format!("{{:{alignment}{width}}}"), &[Value::from(digits("")? + "%")])
}

/// Widths and precisions are bounded.
fn check_numbers(spec: &str) -> Result<(), Error> {
    for digits in spec.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty()) {
        check_width(digits.parse().unwrap_or(usize::MAX))?;
    }
    Ok(())
}

/// `text % value`
pub fn percent(text: &str, value: &Value) -> Result<String, Error> {
    let arguments: Vec<Value> = if value.is_tuple() { value.try_iter()?.collect() } else { vec![value.clone()] };
    let is_mapping = value.kind() == ValueKind::Map;
    let mut arguments = arguments.into_iter();
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let (conversion, after) = Conversion::parse(&rest[at + 1..], &mut arguments)?;
        rest = after;
        out.push_str(&conversion.apply(value, &mut arguments)?);
        check_length(out.len())?;
    }
    out.push_str(rest);
    if !is_mapping && arguments.next().is_some() {
        return fail("not all arguments converted during string formatting");
    }
    Ok(out)
}

/// One `%…` of a format.
struct Conversion<'a> {
    key: Option<&'a str>,
    flags: &'a str,
    width: Option<i64>,
    precision: Option<i64>,
    letter: char,
}

fn next_argument(arguments: &mut impl Iterator<Item = Value>) -> Result<Value, Error> {
    arguments.next().ok_or_else(|| error("not enough arguments for format string"))
}

impl<'a> Conversion<'a> {
    /// @param text after the percent sign @returns the text after the conversion, too
    fn parse(text: &'a str, arguments: &mut impl Iterator<Item = Value>) -> Result<(Self, &'a str), Error> {
        let (key, text) = match text.strip_prefix('(') {
            Some(rest) => {
                let end = rest.find(')').ok_or_else(|| error("incomplete format key"))?;
                (Some(&rest[..end]), &rest[end + 1..])
            }
            None => (None, text),
        };
        let end = text.find(|c| !"#0- +".contains(c)).unwrap_or(text.len());
        let (flags, text) = text.split_at(end);
        let (width, text) = parse_number(text, arguments)?;
        let (precision, text) = match text.strip_prefix('.') {
            Some(rest) => parse_number(rest, arguments).map(|(number, rest)| (number.or(Some(0)), rest))?,
            None => (None, text),
        };
        let text = text.trim_start_matches(['h', 'l', 'L']);
        let letter = text.chars().next().ok_or_else(|| error("incomplete format"))?;
        check_width(width.map_or(0, |width| width.unsigned_abs() as usize))?;
        check_width(precision.map_or(0, |precision| precision.max(0) as usize))?;
        Ok((Self { key, flags, width, precision, letter }, &text[letter.len_utf8()..]))
    }

    fn apply(&self, whole: &Value, arguments: &mut impl Iterator<Item = Value>) -> Result<String, Error> {
        if self.letter == '%' {
            return Ok("%".into());
        }
        let value = match self.key {
            None => next_argument(arguments)?,
            Some(_) if whole.kind() != ValueKind::Map => return fail("format requires a mapping"),
            Some(key) => match whole.get_item(&Value::from(key))? {
                found if found.is_undefined() => return fail(format!("the mapping has no key '{key}'")),
                found => found,
            },
        };
        match self.letter {
            's' => self.pad(&str(&value)?),
            'r' => self.pad(&repr(&value)?),
            'a' => self.pad(&ascii(&value)?),
            'd' | 'i' | 'u' | 'o' | 'x' | 'X' | 'e' | 'E' | 'f' | 'F' | 'g' | 'G' | 'c' => self.number(&value),
            letter => fail(format!("unsupported format character '{letter}'")),
        }
    }

    fn pad(&self, text: &str) -> Result<String, Error> {
        let most = self.precision.map_or(usize::MAX, |precision| precision as usize);
        let text: String = text.chars().take(most).collect();
        let width = self.width.unwrap_or(0);
        let missing = (width.unsigned_abs() as usize).saturating_sub(text.chars().count());
        Ok(if width < 0 || self.flags.contains('-') {
            text + &" ".repeat(missing)
        } else {
            " ".repeat(missing) + &text
        })
    }

    fn number(&self, value: &Value) -> Result<String, Error> {
        let value = if value.kind() == ValueKind::Bool { Value::from(value.is_true() as i64) } else { value.clone() };
        if !(value.is_number() || (self.letter == 'c' && value.as_str().is_some())) {
            return fail(format!("%{} format: a real number is required, not {}", self.letter, kind_name(&value)));
        }
        let letter = if self.letter == 'u' { 'd' } else { self.letter };
        let is_whole = matches!(letter, 'd' | 'i') && value.kind() == ValueKind::Number && !value.is_integer();
        let value = if is_whole { truncate(f64::try_from(value)?)? } else { value };
        let width = self.width.map_or(String::new(), |width| width.to_string());
        let precision = self.precision.map_or(String::new(), |precision| format!(".{precision}"));
        let spec = format!("%{}{width}{precision}{letter}", self.flags);
        format_value(FormatStyle::Printf, &spec, &[value])
    }
}

/// `int(number)`
fn truncate(number: f64) -> Result<Value, Error> {
    if number.is_nan() || number.abs() >= i128::MAX as f64 {
        return fail(format!("cannot convert float {} to integer", float_text(number)));
    }
    Ok(Value::from(number.trunc() as i128))
}

/// A number of a conversion; `*` takes it from the arguments.
fn parse_number<'a>(
    text: &'a str,
    arguments: &mut impl Iterator<Item = Value>,
) -> Result<(Option<i64>, &'a str), Error> {
    if let Some(rest) = text.strip_prefix('*') {
        let value = next_argument(arguments)?;
        let number = super::numbers::integer(&value).ok_or_else(|| error("* wants int"))?;
        return Ok((Some(number as i64), rest));
    }
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let digits = &text[..end];
    Ok((digits.parse().ok().or((!digits.is_empty()).then_some(i64::MAX)), &text[end..]))
}
