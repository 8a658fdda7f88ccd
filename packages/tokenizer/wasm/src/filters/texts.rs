//! Filters that give a text.
use crate::arguments::{Arguments, Given};
use crate::methods::text::{lines, replaced, stripped};
use crate::python::characters;
use crate::python::text::{check_length, check_width, error, fail, kind_name, repr, str};
use crate::python::{format, numbers};
use minijinja::value::{Kwargs, Value};
use minijinja::{Environment, Error, State};

pub fn register(env: &mut Environment) {
    env.add_filter("string", |value: &Value| -> Result<Value, Error> {
        Ok(if value.as_str().is_some() { value.clone() } else { Value::from(str(value)?.into_owned()) })
    });
    env.add_filter("upper", |value: &Value| -> Result<String, Error> { Ok(characters::upper(&str(value)?)) });
    env.add_filter("lower", |value: &Value| -> Result<String, Error> { Ok(characters::lower(&str(value)?)) });
    env.add_filter("capitalize", |value: &Value| -> Result<String, Error> { Ok(characters::capitalize(&str(value)?)) });
    env.add_filter("title", |value: &Value| -> Result<String, Error> { Ok(title(&str(value)?)) });
    env.add_filter("pprint", |value: &Value| -> Result<String, Error> { repr(value) });
    env.add_filter("trim", trim);
    env.add_filter("center", center);
    env.add_filter("indent", indent);
    env.add_filter("join", join);
    env.add_filter("replace", replace);
    env.add_filter("truncate", truncate);
    env.add_filter("wordcount", wordcount);
    env.add_filter("filesizeformat", file_size);
    env.add_filter("format", printf);
    // The operators `%` and `~`, as far as their operands are no plain texts.
    env.add_filter("operator %", |text: &Value, value: &Value| -> Result<Value, Error> {
        format::percent(text.as_str().unwrap_or_default(), value).map(Value::from)
    });
    env.add_filter("operator ~", |left: &Value, right: &Value| -> Result<Value, Error> {
        let text = str(left)?.into_owned() + &str(right)?;
        check_length(text.len())?;
        Ok(Value::from(text))
    });
}

/// Upper case at the start and after white space, hyphens and opening brackets, lower case elsewhere.
fn title(text: &str) -> String {
    let is_separator = |c: char| "-({[<".contains(c) || characters::is_space(c);
    text.split_inclusive(is_separator)
        .map(|word| {
            let mut chars = word.chars();
            let first: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
            first + &characters::lower(chars.as_str())
        })
        .collect()
}

fn trim(value: &Value, args: Given) -> Result<String, Error> {
    let args = Arguments::of("trim", &["chars"], args)?;
    let chars: Option<Vec<char>> = args.given_text(0)?.map(|chars| chars.chars().collect());
    Ok(stripped(&str(value)?, "strip", chars.as_deref()).to_string())
}

fn center(value: &Value, args: Given) -> Result<Value, Error> {
    let args = Arguments::of("center", &["width"], args)?;
    let width = Value::from(args.integer(0)?.unwrap_or(80));
    crate::methods::text::call(&str(value)?, "center", &[width])
}

fn indent(value: &Value, args: Given) -> Result<String, Error> {
    let args = Arguments::of("indent", &["width", "first", "blank"], args)?;
    let Some(text) = value.as_str() else { return fail(format!("indent() needs a str, got {}", kind_name(value))) };
    let indentation = match args.get(0).and_then(Value::as_str) {
        Some(text) => text.to_string(),
        None => {
            let width = usize::try_from(args.integer(0)?.unwrap_or(4).max(0)).unwrap_or(usize::MAX);
            check_width(width)?;
            " ".repeat(width)
        }
    };
    let text = format!("{text}\n");
    let lines = lines(&text, false);
    check_length(text.len() + lines.len().saturating_mul(indentation.len()))?;
    let mut out = if args.is_true(1) { indentation.clone() } else { String::new() };
    for (index, line) in lines.iter().enumerate() {
        if index > 0 {
            out.push('\n');
            if args.is_true(2) || !line.is_empty() {
                out.push_str(&indentation);
            }
        }
        out.push_str(line);
    }
    Ok(out)
}

fn join(state: &mut State, value: &Value, args: Given) -> Result<Value, Error> {
    let args = Arguments::of("join", &["d", "attribute"], args)?;
    let separator = args.str_or(0, "")?;
    let value = match args.given(1) {
        Some(attribute) => super::iterables::attributes(state, value, attribute)?,
        None => value.clone(),
    };
    if value.is_none() {
        return fail("'NoneType' object is not iterable");
    }
    let mut out = String::new();
    for (index, item) in value.try_iter()?.enumerate() {
        if index > 0 {
            out.push_str(&separator);
        }
        out.push_str(&str(&item)?);
        check_length(out.len())?;
    }
    Ok(Value::from(out))
}

fn replace(value: &Value, args: Given) -> Result<String, Error> {
    let args = Arguments::of("replace", &["old", "new", "count"], args)?;
    let (old, new) = (str(args.required(0)?)?, str(args.required(1)?)?);
    let most = args.given_integer(2)?.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
    replaced(&str(value)?, &old, &new, most)
}

fn truncate(value: &Value, args: Given) -> Result<Value, Error> {
    let args = Arguments::of("truncate", &["length", "killwords", "end", "leeway"], args)?;
    if value.is_undefined() {
        return Ok(Value::from(""));
    }
    let Some(text) = value.as_str() else { return fail(format!("truncate() needs a str, got {}", kind_name(value))) };
    let end = args.str_or(2, "...")?;
    let (length, leeway) = (args.integer(0)?.unwrap_or(255), args.given_integer(3)?.unwrap_or(5));
    let kept = length - end.chars().count() as i64;
    if kept < 0 || leeway < 0 {
        return fail(format!("truncate() needs a length of at least that of its end, got {length}"));
    }
    let characters: Vec<char> = text.chars().collect();
    if characters.len() as i64 <= length + leeway {
        return Ok(value.clone());
    }
    let cut: String = characters[..kept as usize].iter().collect();
    let cut = match cut.rsplit_once(' ') {
        Some((words, _)) if !args.is_true(1) => words,
        _ => &cut,
    };
    Ok(Value::from(format!("{cut}{end}")))
}

fn wordcount(value: &Value) -> Result<usize, Error> {
    let is_word = |c: char| c == '_' || characters::is_letter(c) || characters::is_numeric(c);
    Ok(str(value)?.split(|c| !is_word(c)).filter(|word| !word.is_empty()).count())
}

fn file_size(value: &Value, args: Given) -> Result<String, Error> {
    let args = Arguments::of("filesizeformat", &["binary"], args)?;
    let number = match value.as_str() {
        Some(text) => numbers::parse_float(text),
        None => numbers::float(value),
    };
    let bytes = number.ok_or_else(|| error("filesizeformat() needs a number"))?;
    let (base, prefixes) = match args.is_true(0) {
        true => (1024.0, ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"]),
        false => (1000.0, ["kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"]),
    };
    if bytes == 1.0 {
        return Ok("1 Byte".into());
    }
    if bytes < base {
        return Ok(format!("{} Bytes", bytes as i64));
    }
    let mut unit: f64 = base;
    for prefix in prefixes {
        unit *= base;
        if bytes < unit {
            return Ok(format!("{:.1} {prefix}", base * bytes / unit));
        }
    }
    Ok(format!("{:.1} YB", base * bytes / unit).replace("YB", prefixes[7]))
}

/// `"%s of %s" | format(a, b)`
fn printf(value: &Value, args: Given) -> Result<Value, Error> {
    let args = args.into_values();
    let (positional, named) = crate::arguments::split_named(&args);
    let arguments = match named {
        Some(_) if !positional.is_empty() => return fail("can't handle positional and keyword arguments at the same time"),
        Some(named) => named_values(&named)?,
        None => Value::from(minijinja::value::Tuple::from(positional.to_vec())),
    };
    format::percent(&str(value)?, &arguments).map(Value::from)
}

fn named_values(named: &Kwargs) -> Result<Value, Error> {
    let members = named.args().map(|name| Ok((name.to_string(), named.peek::<Value>(name)?)));
    Ok(Value::from_pairs(members.collect::<Result<Vec<_>, Error>>()?))
}
