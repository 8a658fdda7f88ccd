//! `json.loads`: integers and floats apart, keys in their order, `NaN` and `Infinity`.
use crate::python::text::{error, fail};
use crate::surrogates;
use crate::values::big_integer::BigInteger;
use minijinja::value::Value;
use minijinja::Error;

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\t' | b'\r')) {
            self.at += 1;
        }
    }

    /// Reads a byte, if it is the next one after white space.
    fn take(&mut self, byte: u8) -> bool {
        self.skip_space();
        let is_next = self.peek() == Some(byte);
        self.at += is_next as usize;
        is_next
    }

    fn expect(&mut self, byte: u8) -> Result<(), Error> {
        if self.take(byte) {
            return Ok(());
        }
        Err(self.unexpected())
    }

    fn unexpected(&self) -> Error {
        error(format!("the variables are no JSON at byte {}", self.at))
    }

    fn value(&mut self) -> Result<Value, Error> {
        self.skip_space();
        match self.peek() {
            Some(b'{') => self.object(),
            Some(b'[') => self.list(),
            Some(b'"') => Ok(Value::from(self.string()?)),
            _ => self.word(),
        }
    }

    fn object(&mut self) -> Result<Value, Error> {
        self.members().map(Value::from_pairs)
    }

    fn members(&mut self) -> Result<Vec<(Value, Value)>, Error> {
        self.at += 1;
        let mut members: Vec<(Value, Value)> = Vec::new();
        if !self.take(b'}') {
            loop {
                self.skip_space();
                let key = Value::from(self.string()?);
                self.expect(b':')?;
                members.push((key, self.value()?));
                if !self.take(b',') {
                    break;
                }
            }
            self.expect(b'}')?;
        }
        Ok(members)
    }

    fn list(&mut self) -> Result<Value, Error> {
        self.at += 1;
        let mut items = Vec::new();
        if !self.take(b']') {
            loop {
                items.push(self.value()?);
                if !self.take(b',') {
                    break;
                }
            }
            self.expect(b']')?;
        }
        Ok(Value::from(items))
    }

    fn word(&mut self) -> Result<Value, Error> {
        let rest = &self.text[self.at..];
        let end = rest.find([',', ']', '}', ' ', '\n', '\t', '\r']).unwrap_or(rest.len());
        let word = &rest[..end];
        let value = match word {
            "true" => Value::from(true),
            "false" => Value::from(false),
            "null" => Value::from(()),
            "NaN" => Value::from(f64::NAN),
            "Infinity" => Value::from(f64::INFINITY),
            "-Infinity" => Value::from(f64::NEG_INFINITY),
            _ => number(word).ok_or_else(|| self.unexpected())?,
        };
        self.at += end;
        Ok(value)
    }

    fn string(&mut self) -> Result<String, Error> {
        if self.peek() != Some(b'"') {
            return Err(self.unexpected());
        }
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = &self.text[self.at..];
            let Some(length) = rest.find(['"', '\\']) else { return Err(self.unexpected()) };
            out.push_str(&rest[..length]);
            self.at += length + 1;
            if rest.as_bytes()[length] == b'"' {
                return Ok(out);
            }
            out.push(self.escape()?);
        }
    }

    /// The character of an escape, after its backslash.
    fn escape(&mut self) -> Result<char, Error> {
        let Some(letter) = self.peek() else { return Err(self.unexpected()) };
        self.at += 1;
        Ok(match letter {
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'"' | b'\\' | b'/' => letter as char,
            b'u' => {
                let unit = self.hex_unit()?;
                match self.low_surrogate_after(unit) {
                    Some(low) => char::from_u32(0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00)).unwrap_or('\u{fffd}'),
                    None => char::from_u32(unit).unwrap_or_else(|| surrogates::stand_in(unit, self.text)),
                }
            }
            _ => return Err(self.unexpected()),
        })
    }

    fn hex_unit(&mut self) -> Result<u32, Error> {
        let digits = self.text.get(self.at..self.at + 4).ok_or_else(|| self.unexpected())?;
        let unit = u32::from_str_radix(digits, 16).map_err(|_| self.unexpected())?;
        self.at += 4;
        Ok(unit)
    }

    /// Reads the second half of a pair, if the first one is followed by it.
    fn low_surrogate_after(&mut self, high: u32) -> Option<u32> {
        if !(0xd800..0xdc00).contains(&high) || !self.text[self.at..].starts_with("\\u") {
            return None;
        }
        let digits = self.text.get(self.at + 2..self.at + 6)?;
        let low = u32::from_str_radix(digits, 16).ok().filter(|low| (0xdc00..0xe000).contains(low))?;
        self.at += 6;
        Some(low)
    }
}

fn number(word: &str) -> Option<Value> {
    let digits = word.strip_prefix('-').unwrap_or(word);
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if digits.bytes().any(|byte| !byte.is_ascii_digit()) {
        return word.parse::<f64>().ok().map(Value::from);
    }
    Some(match word.parse::<i128>() {
        Ok(number) => i64::try_from(number).map_or_else(|_| Value::from(number), Value::from),
        Err(_) => BigInteger::wrap(word),
    })
}

/// Variables of a template, without the names that it must not lose. @throws for a text that is no JSON object
pub fn parse_variables(text: &str, reserved: &[&str]) -> Result<Value, Error> {
    let mut reader = Reader { text, at: 0 };
    reader.skip_space();
    if reader.peek() != Some(b'{') {
        return fail("the variables are no JSON object");
    }
    let mut members = reader.members()?;
    members.retain(|(name, _)| name.as_str().is_none_or(|name| !reserved.contains(&name)));
    Ok(Value::from_pairs(members))
}
