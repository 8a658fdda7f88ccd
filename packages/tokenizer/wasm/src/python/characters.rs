//! Kinds of characters and letter cases, as Python's `str` has them.
use unicode_categories::UnicodeCategories;

/// White space for `str.strip` and `str.split`: Unicode's and the four information separators.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

pub fn is_line_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

pub fn is_decimal(c: char) -> bool {
    c.is_ascii_digit() || (!c.is_ascii() && c.is_number_decimal_digit())
}

/// Decimal digits, and the ones that are raised, lowered or in a circle.
pub fn is_digit(c: char) -> bool {
    is_decimal(c)
        || matches!(c as u32,
            0xb2 | 0xb3 | 0xb9 | 0x1369..=0x1371 | 0x19da | 0x2070 | 0x2074..=0x2079 | 0x2080..=0x2089 | 0x2460..=0x2468
            | 0x2474..=0x247c | 0x2488..=0x2490 | 0x24ea | 0x24f5..=0x24fd | 0x24ff | 0x2776..=0x277e | 0x2780..=0x2788
            | 0x278a..=0x2792 | 0x10a40..=0x10a43 | 0x10e60..=0x10e68 | 0x11052..=0x1105a | 0x1f100..=0x1f10a)
}

/// Digits, other numbers, and the ideographs that are numbers.
pub fn is_numeric(c: char) -> bool {
    c.is_numeric()
        || is_digit(c)
        || "㐅㒃㠪㭍一七万三九二五亖亿什仟仨伍佰億兆兩八六十千卄卅卌参參叁叄四壱壹壺奇好廾廿弌弍弎弐念拾捌携摁柒漆玖百肆萬貮貳贰阡陆陌陸零".contains(c)
}

pub fn is_letter(c: char) -> bool {
    c.is_letter()
}

/// Letters in a form of their own for the start of a word.
fn is_titlecase(c: char) -> bool {
    matches!(c, 'ǅ' | 'ǈ' | 'ǋ' | 'ǲ' | '\u{1f88}'..='\u{1f8f}' | '\u{1f98}'..='\u{1f9f}' | '\u{1fa8}'..='\u{1faf}' | 'ᾼ' | 'ῌ' | 'ῼ')
}

pub fn is_upper_or_title(c: char) -> bool {
    c.is_uppercase() || is_titlecase(c)
}

pub fn is_lower(c: char) -> bool {
    c.is_lowercase() && !is_titlecase(c)
}

/// Upper or lower case: `str.title` starts a word after every other character.
pub fn is_cased(c: char) -> bool {
    is_upper_or_title(c) || is_lower(c)
}

/// A letter as the first one of a word: `ß` is `Ss`, and `ǆ` is `ǅ`.
pub fn title(c: char, out: &mut String) {
    match c {
        'Ǆ' | 'ǅ' | 'ǆ' => out.push('ǅ'),
        'Ǉ' | 'ǈ' | 'ǉ' => out.push('ǈ'),
        'Ǌ' | 'ǋ' | 'ǌ' => out.push('ǋ'),
        'Ǳ' | 'ǲ' | 'ǳ' => out.push('ǲ'),
        'ŉ' => out.push_str("ʼN"),
        'ᾳ' => out.push('ᾼ'),
        'ῃ' => out.push('ῌ'),
        'ῳ' => out.push('ῼ'),
        '\u{1f80}'..='\u{1faf}' => out.extend(char::from_u32(c as u32 | 8)),
        '\u{10d0}'..='\u{10ff}' => out.push(c),
        _ if is_titlecase(c) => out.push(c),
        _ => {
            let mut upper = c.to_uppercase();
            out.extend(upper.next());
            out.extend(upper.flat_map(char::to_lowercase));
        }
    }
}

/// Lower case; a capital sigma at the end of a word becomes `ς`.
pub fn lower(text: &str) -> String {
    text.to_lowercase()
}

pub fn upper(text: &str) -> String {
    text.to_uppercase()
}

/// Lower case for comparisons: `ß` is `ss`, `ς` is `σ`.
pub fn fold(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            'ı' => out.push(c),
            'ẞ' => out.push_str("ss"),
            'İ' => out.push_str("i\u{307}"),
            '\u{13a0}'..='\u{13f5}' => out.push(c),
            '\u{13f8}'..='\u{13fd}' | '\u{ab70}'..='\u{abbf}' => out.extend(c.to_uppercase()),
            _ => out.extend(c.to_uppercase().flat_map(char::to_lowercase)),
        }
    }
    out
}

/// First character as at the start of a word, the others in lower case.
pub fn capitalize(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let Some(first) = text.chars().next() else { return out };
    title(first, &mut out);
    out.push_str(&lower_after(first, &text[first.len_utf8()..]));
    out
}

pub fn title_words(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if !is_cased(first) {
            out.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let end = rest.find(|c| !is_cased(c)).unwrap_or(rest.len());
        title(first, &mut out);
        out.push_str(&lower_after(first, &rest[first.len_utf8()..end]));
        rest = &rest[end..];
    }
    out
}

/// Lower case of the rest of a word: whether its last sigma is final depends on the letter in front of it.
fn lower_after(first: char, rest: &str) -> String {
    let whole = format!("{first}{rest}").to_lowercase();
    let start: usize = first.to_lowercase().map(char::len_utf8).sum();
    whole[start..].to_string()
}

pub fn swap_case(text: &str) -> String {
    text.chars()
        .flat_map(|c| if is_upper_or_title(c) { c.to_lowercase().collect::<Vec<_>>() } else { c.to_uppercase().collect() })
        .collect()
}

/// Whether `repr` shows a character as it is. Planes 15 and 16 are private use, which Python escapes; texts of a conversation
/// are shielded by characters of these planes, which must be found again, so they stay.
pub fn is_printable(c: char) -> bool {
    match c {
        ' '..='~' => true,
        _ if crate::surrogates::is_stand_in(c) => false,
        '\u{f0000}'..='\u{10ffff}' => true,
        _ if c.is_ascii() => false,
        // The first character of a text is escaped for more reasons than the second.
        _ => format!("a{c}").escape_debug().nth(1) == Some(c),
    }
}
