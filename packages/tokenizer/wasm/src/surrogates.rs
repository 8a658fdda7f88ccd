//! Lone surrogates: characters of Python's texts that UTF-8 cannot hold.
//!
//! JSON can name one (`"\ud83d"`). A character of a block of private use that occurs nowhere in the variables stands in for it:
//! `repr` and `tojson(ensure_ascii=true)` write its escape, and in the rendered text it becomes U+FFFD, since no tokenizer takes it.
use std::sync::atomic::{AtomicU32, Ordering};

const FIRST_SURROGATE: u32 = 0xd800;
const BLOCK: u32 = 0x800;
/// The last blocks of planes 15 and 16 end in characters that are none.
const FIRST_BLOCK: u32 = 0xf0000;
const BLOCKS: u32 = 62;

/// First character of the block; 0 as long as there was no surrogate.
static START: AtomicU32 = AtomicU32::new(0);

pub fn reset() {
    START.store(0, Ordering::Relaxed);
}

/// @param text all variables
pub fn stand_in(unit: u32, text: &str) -> char {
    let mut start = START.load(Ordering::Relaxed);
    if start == 0 {
        let Some(free) = free_block(text) else { return '\u{fffd}' };
        start = free;
        START.store(start, Ordering::Relaxed);
    }
    char::from_u32(start + (unit - FIRST_SURROGATE)).unwrap_or('\u{fffd}')
}

pub fn is_stand_in(c: char) -> bool {
    let start = START.load(Ordering::Relaxed);
    start != 0 && (start..start + BLOCK).contains(&(c as u32))
}

/// The code point that Python has for a character.
pub fn code_point(c: char) -> u32 {
    if is_stand_in(c) {
        c as u32 - START.load(Ordering::Relaxed) + FIRST_SURROGATE
    } else {
        c as u32
    }
}

/// A rendered text without surrogates.
pub fn replaced(text: String) -> String {
    if START.load(Ordering::Relaxed) == 0 || !text.contains(is_stand_in) {
        return text;
    }
    text.chars().map(|c| if is_stand_in(c) { '\u{fffd}' } else { c }).collect()
}

fn free_block(text: &str) -> Option<u32> {
    let mut is_taken = [false; BLOCKS as usize];
    for c in text.chars().chain(escaped_pairs(text)) {
        if let Some(taken) = (c as u32).checked_sub(FIRST_BLOCK).and_then(|at| is_taken.get_mut((at / BLOCK) as usize)) {
            *taken = true;
        }
    }
    // The control shield starts anywhere; the end of plane 16 is as good as any.
    let free = (0..BLOCKS).rev().find(|block| !is_taken[*block as usize] && block % 32 != 31)?;
    Some(FIRST_BLOCK + free * BLOCK)
}

/// Characters of planes 15 and 16 that are written as escapes.
fn escaped_pairs(text: &str) -> impl Iterator<Item = char> + '_ {
    let unit = |at: usize| text.get(at..at + 4).and_then(|digits| u32::from_str_radix(digits, 16).ok());
    text.match_indices("\\u").filter_map(move |(at, _)| {
        let high = unit(at + 2).filter(|high| (0xdb80..0xdc00).contains(high))?;
        let low = unit(at + 8).filter(|low| (0xdc00..0xe000).contains(low))?;
        char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00))
    })
}
