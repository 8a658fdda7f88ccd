//! `strftime_now`: the local time that the caller gives, written as Python's `strftime` does in the C locale.
use crate::python::text::{check_width, fail};
use minijinja::Error;
use std::sync::Mutex;

const MONTHS: [&str; 12] = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// A local time without a time zone, as `datetime.now()` is.
#[derive(Clone, Copy, Default)]
pub struct LocalTime {
    pub year: i64,
    /// From 1 on.
    pub month: u32,
    pub day: u32,
    pub hour: u32,
    pub minute: u32,
    pub second: u32,
    pub microsecond: u32,
}

static NOW: Mutex<LocalTime> =
    Mutex::new(LocalTime { year: 1970, month: 1, day: 1, hour: 0, minute: 0, second: 0, microsecond: 0 });

pub fn set(time: LocalTime) {
    *NOW.lock().unwrap() = time;
}

pub fn now() -> LocalTime {
    *NOW.lock().unwrap()
}

fn is_leap(year: i64) -> bool {
    (year % 4 == 0 && year % 100 != 0) || year % 400 == 0
}

/// Days from 1970-01-01 on.
fn days_since_epoch(year: i64, month: u32, day: u32) -> i64 {
    let (year, month) = if month > 2 { (year, month as i64 - 3) } else { (year - 1, month as i64 + 9) };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * month + 2) / 5 + day as i64 - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

impl LocalTime {
    /// Sunday is 0.
    fn week_day(&self) -> i64 {
        (days_since_epoch(self.year, self.month, self.day) + 4).rem_euclid(7)
    }

    /// From 0 on.
    fn year_day(&self) -> i64 {
        days_since_epoch(self.year, self.month, self.day) - days_since_epoch(self.year, 1, 1)
    }

    /// Year and week of ISO 8601.
    fn iso_week(&self) -> (i64, i64) {
        let week_day = (self.week_day() + 6) % 7;
        let week = (self.year_day() - week_day + 10) / 7;
        let weeks_of = |year: i64| {
            let first = (days_since_epoch(year, 1, 1) + 3).rem_euclid(7);
            if first == 3 || (first == 2 && is_leap(year)) { 53 } else { 52 }
        };
        if week < 1 {
            (self.year - 1, weeks_of(self.year - 1))
        } else if week > weeks_of(self.year) {
            (self.year + 1, 1)
        } else {
            (self.year, week)
        }
    }

    /// `strftime(format)`; a code that is unknown stays as it is.
    pub fn format(&self, format: &str) -> Result<String, Error> {
        let mut out = String::new();
        let mut rest = format;
        while let Some(at) = rest.find('%') {
            out.push_str(&rest[..at]);
            let code = &rest[at + 1..];
            let flags = code.find(|c| !"-_0^#".contains(c)).unwrap_or(code.len());
            let digits = code[flags..].find(|c: char| !c.is_ascii_digit()).unwrap_or(code.len() - flags);
            let letter_at = flags + digits;
            let Some(letter) = code[letter_at..].chars().next() else {
                out.push_str(&rest[at..]);
                return Ok(out);
            };
            let end = letter_at + letter.len_utf8();
            let width = code[flags..letter_at].parse().ok();
            match self.code(letter)? {
                Some(field) => out.push_str(&field.styled(&code[..flags], width)?),
                None => out.push_str(&rest[at..at + 1 + end]),
            }
            rest = &code[end..];
        }
        out.push_str(rest);
        Ok(out)
    }

    fn code(&self, letter: char) -> Result<Option<Field>, Error> {
        let hour = (self.hour + 11) % 12 + 1;
        let (day, month) = (DAYS[self.week_day() as usize], MONTHS[(self.month as usize + 11) % 12]);
        let monday = (self.week_day() + 6) % 7;
        let number = |value: i64, width: usize| Some(Field { text: value.to_string(), width, fill: '0' });
        let spaced = |value: u32| Some(Field { text: value.to_string(), width: 2, fill: ' ' });
        let text = |text: &str| Some(Field { text: text.to_string(), width: 0, fill: ' ' });
        let composed = |format: &str| self.format(format).map(|text| Some(Field { text, width: 0, fill: ' ' }));
        Ok(match letter {
            'Y' => number(self.year, 0),
            'C' => number(self.year.div_euclid(100), 2),
            'y' => number(self.year.rem_euclid(100), 2),
            'G' => number(self.iso_week().0, 0),
            'g' => number(self.iso_week().0.rem_euclid(100), 2),
            'V' => number(self.iso_week().1, 2),
            'm' => number(self.month as i64, 2),
            'd' => number(self.day as i64, 2),
            'e' => spaced(self.day),
            'H' => number(self.hour as i64, 2),
            'k' => spaced(self.hour),
            'I' => number(hour as i64, 2),
            'l' => spaced(hour),
            'M' => number(self.minute as i64, 2),
            'S' => number(self.second as i64, 2),
            'f' => number(self.microsecond as i64, 6),
            'j' => number(self.year_day() + 1, 3),
            'U' => number((self.year_day() + 7 - self.week_day()) / 7, 2),
            'W' => number((self.year_day() + 7 - monday) / 7, 2),
            'u' => number(monday + 1, 1),
            'w' => number(self.week_day(), 1),
            'A' => text(day),
            'a' => text(&day[..3]),
            'B' => text(month),
            'b' | 'h' => text(&month[..3]),
            'p' => text(if self.hour < 12 { "AM" } else { "PM" }),
            'P' => text(if self.hour < 12 { "am" } else { "pm" }),
            'z' | 'Z' => text(""),
            'n' => text("\n"),
            't' => text("\t"),
            '%' => text("%"),
            's' => return fail("strftime_now() has no %s: the time has no zone"),
            'c' => composed("%a %b %e %H:%M:%S %Y")?,
            'x' | 'D' => composed("%m/%d/%y")?,
            'X' | 'T' => composed("%H:%M:%S")?,
            'F' => composed("%Y-%m-%d")?,
            'R' => composed("%H:%M")?,
            'r' => composed("%I:%M:%S %p")?,
            _ => None,
        })
    }
}

/// What a code stands for, before its flags.
struct Field {
    text: String,
    width: usize,
    fill: char,
}

impl Field {
    /// Flags of glibc: `-` no padding, `_` and `0` other padding, `^` upper case, `#` the other case.
    fn styled(self, flags: &str, width: Option<usize>) -> Result<String, Error> {
        let is_name = self.width == 0 && !self.text.starts_with(|c: char| c.is_ascii_digit());
        let fill = match flags.chars().rev().find(|c| "-_0".contains(*c)) {
            Some('0') => '0',
            Some('_') => ' ',
            _ => self.fill,
        };
        let wanted = width.unwrap_or(if flags.contains('-') { 0 } else { self.width });
        check_width(wanted)?;
        let padding: String = std::iter::repeat(fill).take(wanted.saturating_sub(self.text.chars().count())).collect();
        let text = match () {
            _ if flags.contains('^') => self.text.to_uppercase(),
            _ if flags.contains('#') && is_name && matches!(self.text.as_str(), "AM" | "PM") => self.text.to_lowercase(),
            _ if flags.contains('#') && is_name => self.text.to_uppercase(),
            _ => self.text,
        };
        Ok(padding + &text)
    }
}
