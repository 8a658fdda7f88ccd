//! `wordwrap`: Python's `textwrap.wrap`, line by line.
use crate::arguments::{Arguments, Given};
use crate::methods::text::lines;
use crate::python::text::{fail, str};
use minijinja::value::Value;
use minijinja::{Environment, Error};

pub fn register(env: &mut Environment) {
    env.add_filter("wordwrap", |value: &Value, args: Given| -> Result<String, Error> {
        let names = &["width", "break_long_words", "wrapstring", "break_on_hyphens"];
        let args = Arguments::of("wordwrap", names, args)?;
        let width = args.integer(0)?.unwrap_or(79);
        if width < 1 {
            return fail(format!("invalid width {width} (must be > 0)"));
        }
        let is_set = |index: usize| args.get(index).is_none_or(Value::is_true);
        let wrapper = Wrapper { width: width as usize, breaks_words: is_set(1), breaks_on_hyphens: is_set(3) };
        let separator = args.given_text(2)?.unwrap_or("\n");
        let text = str(value)?;
        let wrapped: Vec<String> =
            lines(&text, false).into_iter().map(|line| wrapper.wrap(line).join(separator)).collect();
        Ok(wrapped.join(separator))
    });
}

struct Wrapper {
    width: usize,
    breaks_words: bool,
    breaks_on_hyphens: bool,
}

fn is_blank(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\u{b}' | '\u{c}' | '\r' | ' ')
}

impl Wrapper {
    fn wrap(&self, line: &str) -> Vec<String> {
        let mut chunks = self.chunks(line);
        chunks.reverse();
        let mut out: Vec<String> = Vec::new();
        while !chunks.is_empty() {
            let mut current: Vec<String> = Vec::new();
            let mut length = 0;
            if !out.is_empty() && chunks.last().is_some_and(|chunk| chunk.trim().is_empty()) {
                chunks.pop();
            }
            while let Some(chunk) = chunks.last() {
                let size = chunk.chars().count();
                if length + size > self.width {
                    break;
                }
                length += size;
                current.extend(chunks.pop());
            }
            if chunks.last().is_some_and(|chunk| chunk.chars().count() > self.width) {
                self.break_long(&mut chunks, &mut current, length);
            }
            if current.last().is_some_and(|chunk| chunk.trim().is_empty()) {
                current.pop();
            }
            if !current.is_empty() {
                out.push(current.concat());
            }
        }
        out
    }

    /// Puts as much of a chunk that is too long for any line into this one, or all of it into a line of its own.
    fn break_long(&self, chunks: &mut Vec<String>, current: &mut Vec<String>, length: usize) {
        let Some(chunk) = chunks.pop() else { return };
        if !self.breaks_words {
            if current.is_empty() {
                current.push(chunk);
            } else {
                chunks.push(chunk);
            }
            return;
        }
        let characters: Vec<char> = chunk.chars().collect();
        let mut end = (self.width - length).min(characters.len());
        if self.breaks_on_hyphens && characters.len() > end {
            let hyphen = characters[..end].iter().rposition(|c| *c == '-');
            if let Some(at) = hyphen.filter(|at| *at > 0 && characters[..*at].iter().any(|c| *c != '-')) {
                end = at + 1;
            }
        }
        current.push(characters[..end].iter().collect());
        chunks.push(characters[end..].iter().collect());
    }

    /// Runs of blanks, and words, which may end behind a hyphen.
    fn chunks(&self, line: &str) -> Vec<String> {
        let characters: Vec<char> = line.chars().collect();
        let mut chunks = Vec::new();
        let mut start = 0;
        for end in 1..=characters.len() {
            let is_end = end == characters.len()
                || is_blank(characters[end - 1]) != is_blank(characters[end])
                || (self.breaks_on_hyphens && is_after_hyphen(&characters, end));
            if is_end {
                chunks.push(characters[start..end].iter().collect());
                start = end;
            }
        }
        chunks
    }
}

/// Whether a word may be broken in front of an index: after a hyphen between letters.
fn is_after_hyphen(characters: &[char], at: usize) -> bool {
    let is_letter = |index: Option<usize>| index.and_then(|index| characters.get(index)).is_some_and(|c| c.is_alphabetic() || *c == '_');
    let is_hyphen = |index: Option<usize>| index.and_then(|index| characters.get(index)) == Some(&'-');
    let back = |by: usize| at.checked_sub(by);
    let follows_word = is_letter(back(2)) && (is_letter(back(3)) || (is_hyphen(back(3)) && is_letter(back(4))));
    let starts_word = is_letter(Some(at)) && (is_letter(Some(at + 1)) || (is_hyphen(Some(at + 1)) && is_letter(Some(at + 2))));
    is_hyphen(back(1)) && follows_word && starts_word
}
