//! Methods of `str`.
use crate::arguments::Arguments;
use crate::python::characters::{self, is_line_break, is_space};
use crate::python::format;
use crate::python::text::{check_length, check_width, error, fail, kind_name};
use minijinja::value::{Tuple, Value};
use minijinja::{Error, ErrorKind};

pub fn call(text: &str, name: &'_ str, args: &[Value]) -> Result<Value, Error> {
    if let Some(result) = without_arguments(text, name) {
        if !args.is_empty() {
            return fail(format!("str.{name}() takes no arguments, got {}", args.len()));
        }
        return Ok(result);
    }
    match name {
        "strip" | "lstrip" | "rstrip" => strip(text, name, args),
        "split" | "rsplit" => split(text, name == "rsplit", args),
        "splitlines" => {
            let args = Arguments::bind("splitlines", &["keepends"], args)?;
            Ok(lines(text, args.is_true(0)).into_iter().map(Value::from).collect())
        }
        "removeprefix" | "removesuffix" => {
            let args = Arguments::bind("removeprefix", &["affix"], args)?;
            let affix = args.text(0)?;
            let rest = if name == "removeprefix" { text.strip_prefix(affix) } else { text.strip_suffix(affix) };
            Ok(Value::from(rest.unwrap_or(text)))
        }
        "partition" | "rpartition" => partition(text, name == "rpartition", args),
        "replace" => replace(text, args),
        "zfill" => {
            let width = Arguments::bind("zfill", &["width"], args)?.integer(0)?.unwrap_or(0);
            let (sign, digits) = if text.starts_with(['+', '-']) { text.split_at(1) } else { ("", text) };
            Ok(Value::from(format!("{sign}{}{digits}", padding("0", width, text)?)))
        }
        "ljust" | "rjust" | "center" => justify(text, name, args),
        "find" | "rfind" | "index" | "rindex" | "count" => find(text, name, args),
        "startswith" | "endswith" => affixed(text, name, args),
        "expandtabs" => {
            let size = Arguments::bind("expandtabs", &["tabsize"], args)?.integer(0)?.unwrap_or(8);
            expand_tabs(text, usize::try_from(size.max(0)).unwrap_or(0))
        }
        "join" => join(text, args),
        "encode" => Ok(Value::from_bytes(text.as_bytes().to_vec())),
        "format" => format::format(text, args).map(Value::from),
        "format_map" => {
            let args = Arguments::bind("format_map", &["mapping"], args)?;
            format::format_map(text, args.required(0)?).map(Value::from)
        }
        _ => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}

pub fn decode(bytes: &[u8]) -> Result<Value, Error> {
    std::str::from_utf8(bytes).map(Value::from).map_err(|_| error("the bytes are no UTF-8"))
}

fn without_arguments(text: &str, name: &str) -> Option<Value> {
    let all = |test: fn(char) -> bool| !text.is_empty() && text.chars().all(test);
    Some(match name {
        "upper" => Value::from(characters::upper(text)),
        "lower" => Value::from(characters::lower(text)),
        "capitalize" => Value::from(characters::capitalize(text)),
        "title" => Value::from(characters::title_words(text)),
        "swapcase" => Value::from(characters::swap_case(text)),
        "casefold" => Value::from(characters::fold(text)),
        "isalpha" => Value::from(all(characters::is_letter)),
        "isalnum" => Value::from(all(|c| characters::is_letter(c) || characters::is_numeric(c))),
        "isascii" => Value::from(text.is_ascii()),
        "isdecimal" => Value::from(all(characters::is_decimal)),
        "isdigit" => Value::from(all(characters::is_digit)),
        "isnumeric" => Value::from(all(characters::is_numeric)),
        "isspace" => Value::from(all(is_space)),
        "isprintable" => Value::from(text.chars().all(characters::is_printable)),
        "isidentifier" => {
            let mut chars = text.chars();
            let starts = chars.next().is_some_and(|c| c == '_' || c.is_alphabetic());
            Value::from(starts && chars.all(|c| c == '_' || c.is_alphanumeric()))
        }
        "islower" => {
            let has_other = text.chars().any(characters::is_upper_or_title);
            Value::from(!has_other && text.chars().any(characters::is_lower))
        }
        "isupper" => {
            let has_other = text.chars().any(characters::is_lower);
            Value::from(!has_other && text.chars().any(char::is_uppercase))
        }
        "istitle" => Value::from(is_title(text)),
        _ => return None,
    })
}

fn is_title(text: &str) -> bool {
    let (mut is_in_word, mut has_word) = (false, false);
    for c in text.chars() {
        let starts_word = characters::is_upper_or_title(c);
        if (starts_word && is_in_word) || (characters::is_lower(c) && !is_in_word) {
            return false;
        }
        is_in_word = characters::is_cased(c);
        has_word |= is_in_word;
    }
    has_word
}

fn strip(text: &str, name: &str, args: &[Value]) -> Result<Value, Error> {
    let args = Arguments::bind("strip", &["chars"], args)?;
    let chars: Option<Vec<char>> = args.given_text(0)?.map(|chars| chars.chars().collect());
    Ok(Value::from(stripped(text, name, chars.as_deref())))
}

/// @param name `strip`, `lstrip` or `rstrip`
pub fn stripped<'a>(text: &'a str, name: &str, chars: Option<&[char]>) -> &'a str {
    let is_stripped = |c: char| chars.map_or_else(|| is_space(c), |chars| chars.contains(&c));
    let text = if name == "rstrip" { text } else { text.trim_start_matches(is_stripped) };
    if name == "lstrip" {
        text
    } else {
        text.trim_end_matches(is_stripped)
    }
}

fn split(text: &str, is_from_end: bool, args: &[Value]) -> Result<Value, Error> {
    let args = Arguments::bind("split", &["sep", "maxsplit"], args)?;
    let most = args.integer(1)?.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
    let mut parts: Vec<&str> = match args.given_text(0)? {
        Some("") => return fail("empty separator"),
        Some(separator) if is_from_end => text.rsplitn(most.saturating_add(1), separator).collect(),
        Some(separator) => text.splitn(most.saturating_add(1), separator).collect(),
        None if is_from_end => words_from_end(text, most),
        None => words(text, most),
    };
    if is_from_end {
        parts.reverse();
    }
    Ok(parts.into_iter().map(Value::from).collect())
}

fn words(text: &str, most: usize) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while !rest.is_empty() {
        if words.len() >= most {
            words.push(rest.trim_end_matches(is_space));
            break;
        }
        let end = rest.find(is_space).unwrap_or(rest.len());
        words.push(&rest[..end]);
        rest = rest[end..].trim_start_matches(is_space);
    }
    words
}

fn words_from_end(text: &str, most: usize) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text.trim_end_matches(is_space);
    while !rest.is_empty() {
        if words.len() >= most {
            words.push(rest.trim_start_matches(is_space));
            break;
        }
        let start = rest.rfind(is_space).map_or(0, |at| at + rest[at..].chars().next().map_or(0, char::len_utf8));
        words.push(&rest[start..]);
        rest = rest[..start].trim_end_matches(is_space);
    }
    words
}

pub fn lines(text: &str, keeps_ends: bool) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let Some(at) = rest.find(is_line_break) else {
            lines.push(rest);
            break;
        };
        let length = if rest[at..].starts_with("\r\n") { 2 } else { rest[at..].chars().next().map_or(0, char::len_utf8) };
        lines.push(&rest[..if keeps_ends { at + length } else { at }]);
        rest = &rest[at + length..];
    }
    lines
}

fn partition(text: &str, is_from_end: bool, args: &[Value]) -> Result<Value, Error> {
    let args = Arguments::bind("partition", &["sep"], args)?;
    let separator = args.text(0)?;
    if separator.is_empty() {
        return fail("empty separator");
    }
    let at = if is_from_end { text.rfind(separator) } else { text.find(separator) };
    let parts = match at {
        Some(at) => [&text[..at], separator, &text[at + separator.len()..]],
        None if is_from_end => ["", "", text],
        None => [text, "", ""],
    };
    Ok(Value::from(Tuple::from(parts.map(Value::from))))
}

fn replace(text: &str, args: &[Value]) -> Result<Value, Error> {
    let args = Arguments::bind("replace", &["old", "new", "count"], args)?;
    let most = args.integer(2)?.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
    replaced(text, args.text(0)?, args.text(1)?, most).map(Value::from)
}

/// @throws for a result that is longer than a text may be
pub fn replaced(text: &str, old: &str, new: &str, most: usize) -> Result<String, Error> {
    let places = if old.is_empty() { text.chars().count() + 1 } else { text.matches(old).count() }.min(most);
    check_length(text.len() + places.saturating_mul(new.len()))?;
    Ok(text.replacen(old, new, places))
}

fn padding(fill: &str, width: i64, text: &str) -> Result<String, Error> {
    let width = usize::try_from(width.max(0)).unwrap_or(usize::MAX);
    let missing = width.saturating_sub(text.chars().count());
    check_width(missing)?;
    Ok(fill.repeat(missing))
}

fn justify(text: &str, name: &str, args: &[Value]) -> Result<Value, Error> {
    let args = Arguments::bind("center", &["width", "fillchar"], args)?;
    let width = args.integer(0)?.unwrap_or(0);
    let fill = args.given_text(1)?.unwrap_or(" ");
    if fill.chars().count() != 1 {
        return fail("the fill character must be exactly one character long");
    }
    let missing = padding(" ", width, text)?.len();
    let left = match name {
        "ljust" => 0,
        "rjust" => missing,
        _ => missing / 2 + (missing & width as usize & 1),
    };
    Ok(Value::from(format!("{}{text}{}", fill.repeat(left), fill.repeat(missing - left))))
}

/// The part of a text that `start` and `end` choose, and the index of its first character.
fn section(text: &str, start: Option<i64>, end: Option<i64>) -> Option<(&str, usize)> {
    let length = text.chars().count() as i64;
    let absolute = |index: i64| if index < 0 { (index + length).max(0) } else { index };
    let (start, end) = (absolute(start.unwrap_or(0)), absolute(end.unwrap_or(length)).min(length));
    if start > end {
        return None;
    }
    let byte = |index: i64| text.char_indices().nth(index as usize).map_or(text.len(), |(at, _)| at);
    Some((&text[byte(start)..byte(end)], start as usize))
}

fn find(text: &str, name: &str, args: &[Value]) -> Result<Value, Error> {
    let args = Arguments::bind("find", &["sub", "start", "end"], args)?;
    let wanted = args.text(0)?;
    let section = section(text, args.given_integer(1)?, args.given_integer(2)?);
    if name == "count" {
        let count = section.map_or(0, |(part, _)| {
            if wanted.is_empty() { part.chars().count() + 1 } else { part.matches(wanted).count() }
        });
        return Ok(Value::from(count));
    }
    let found = section.and_then(|(part, first)| {
        let at = if name.starts_with('r') { part.rfind(wanted) } else { part.find(wanted) }?;
        Some(first + part[..at].chars().count())
    });
    match found {
        Some(index) => Ok(Value::from(index)),
        None if name.ends_with("index") => fail("substring not found"),
        None => Ok(Value::from(-1)),
    }
}

fn affixed(text: &str, name: &str, args: &[Value]) -> Result<Value, Error> {
    let args = Arguments::bind("startswith", &["affix", "start", "end"], args)?;
    let section = section(text, args.given_integer(1)?, args.given_integer(2)?);
    let affix = args.required(0)?;
    let affixes: Vec<Value> = if affix.is_tuple() { affix.try_iter()?.collect() } else { vec![affix.clone()] };
    for affix in affixes {
        let Some(affix) = affix.as_str() else {
            return fail(format!("{name} first arg must be str or a tuple of str, not {}", kind_name(&affix)));
        };
        let is_affixed = |part: &str| if name == "startswith" { part.starts_with(affix) } else { part.ends_with(affix) };
        if section.is_some_and(|(part, _)| is_affixed(part)) {
            return Ok(Value::from(true));
        }
    }
    Ok(Value::from(false))
}

fn expand_tabs(text: &str, size: usize) -> Result<Value, Error> {
    check_width(size)?;
    let (mut out, mut column) = (String::new(), 0);
    for c in text.chars() {
        match c {
            '\t' => {
                let width = if size == 0 { 0 } else { size - column % size };
                out.push_str(&" ".repeat(width));
                column += width;
                check_length(out.len())?;
            }
            '\n' | '\r' => {
                out.push(c);
                column = 0;
            }
            _ => {
                out.push(c);
                column += 1;
            }
        }
    }
    Ok(Value::from(out))
}

fn join(separator: &str, args: &[Value]) -> Result<Value, Error> {
    let args = Arguments::bind("join", &["iterable"], args)?;
    let mut out = String::new();
    for (index, item) in args.required(0)?.try_iter()?.enumerate() {
        let Some(text) = item.as_str() else {
            return fail(format!("sequence item {index}: expected str instance, {} found", kind_name(&item)));
        };
        if index > 0 {
            out.push_str(separator);
        }
        out.push_str(text);
        check_length(out.len())?;
    }
    Ok(Value::from(out))
}
