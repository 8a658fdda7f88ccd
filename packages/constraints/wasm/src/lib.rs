//! llguidance behind a dozen functions of plain integers, for one thread of JavaScript.
//!
//! Text and masks cross in buffers from `buffer_new`. A function that can fail says so in its result and leaves the
//! reason in `message`. A panic or a failed allocation is a trap: whoever called throws the instance away.

use llguidance::{
    api::{ParserLimits, TopLevelGrammar},
    earley::SlicedBiasComputer,
    toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie},
    Logger, Matcher, ParserFactory,
};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    ptr::{addr_of, addr_of_mut, null_mut},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    sync::Arc,
};

/// Counts what is allocated, so that JavaScript can charge each constraint for its memory and bound the whole.
struct CountingHeap;

static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);
static LIMIT_BYTES: AtomicUsize = AtomicUsize::new(usize::MAX);
static IS_EXHAUSTED: AtomicBool = AtomicBool::new(false);

#[global_allocator]
static HEAP: CountingHeap = CountingHeap;

fn charge(size: usize) -> bool {
    let live = LIVE_BYTES.load(Relaxed).saturating_add(size);
    let fits = live <= LIMIT_BYTES.load(Relaxed);
    if fits {
        LIVE_BYTES.store(live, Relaxed);
    } else {
        IS_EXHAUSTED.store(true, Relaxed);
    }
    fits
}

fn refund(size: usize) {
    LIVE_BYTES.store(LIVE_BYTES.load(Relaxed) - size, Relaxed);
}

/// Gives the charge back when the system had no memory either.
fn settle(block: *mut u8, size: usize) -> *mut u8 {
    if block.is_null() {
        refund(size);
        IS_EXHAUSTED.store(true, Relaxed);
    }
    block
}

unsafe impl GlobalAlloc for CountingHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !charge(layout.size()) {
            return null_mut();
        }
        settle(System.alloc(layout), layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !charge(layout.size()) {
            return null_mut();
        }
        settle(System.alloc_zeroed(layout), layout.size())
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        System.dealloc(block, layout);
        refund(layout.size());
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !charge(size) {
            return null_mut();
        }
        let moved = settle(System.realloc(block, layout, size), size);
        if !moved.is_null() {
            refund(layout.size());
        }
        moved
    }
}

#[no_mangle]
pub extern "C" fn heap_live_bytes() -> usize {
    LIVE_BYTES.load(Relaxed)
}

#[no_mangle]
pub extern "C" fn heap_set_limit(bytes: usize) {
    LIMIT_BYTES.store(bytes, Relaxed);
}

/// After a trap: whether it came from the limit of the heap.
#[no_mangle]
pub extern "C" fn heap_is_exhausted() -> u32 {
    IS_EXHAUSTED.load(Relaxed) as u32
}

/// A buffer aligned for 64-bit numbers; give it back with the same size.
#[no_mangle]
pub extern "C" fn buffer_new(bytes: usize) -> *mut u8 {
    let mut words = Vec::<u64>::with_capacity(bytes.div_ceil(8));
    let start = words.as_mut_ptr();
    std::mem::forget(words);
    start as *mut u8
}

/// # Safety
/// `start` and `bytes` are those of one `buffer_new`.
#[no_mangle]
pub unsafe extern "C" fn buffer_free(start: *mut u8, bytes: usize) {
    drop(Vec::<u64>::from_raw_parts(start as *mut u64, 0, bytes.div_ceil(8)));
}

// One thread and no re-entrance, so that plain statics are enough.
static mut MESSAGE: String = String::new();
static mut FACTORY: Option<ParserFactory> = None;

fn set_message(message: String) {
    unsafe { *addr_of_mut!(MESSAGE) = message }
}

#[no_mangle]
pub extern "C" fn message_start() -> *const u8 {
    let message = unsafe { &*addr_of!(MESSAGE) };
    message.as_ptr()
}

#[no_mangle]
pub extern "C" fn message_length() -> usize {
    let message = unsafe { &*addr_of!(MESSAGE) };
    message.len()
}

/// Puts the version of llguidance into the message.
#[no_mangle]
pub extern "C" fn version() {
    let version = unsafe { std::ffi::CStr::from_ptr(llguidance::ffi::llg_get_version()) };
    set_message(version.to_string_lossy().into_owned());
}

/// Sets the tokens: `lengths` [V], `bytes` [sum of lengths], `ends` the tokens that end a text, the usual one first.
/// 0, or -1 with a message.
///
/// # Safety
/// The arrays have the lengths named.
#[no_mangle]
pub unsafe extern "C" fn vocabulary_set(
    num_tokens: usize,
    lengths: *const u32,
    bytes: *const u8,
    num_ends: usize,
    ends: *const u32,
) -> i32 {
    let lengths = std::slice::from_raw_parts(lengths, num_tokens);
    let ends = std::slice::from_raw_parts(ends, num_ends);
    let mut tokens = Vec::with_capacity(num_tokens);
    let mut offset = 0;
    for &length in lengths {
        tokens.push(std::slice::from_raw_parts(bytes.add(offset), length as usize).to_vec());
        offset += length as usize;
    }
    let info = TokRxInfo::new(num_tokens as u32, ends[0]);
    let trie = TokTrie::from(&info, &tokens).with_eos_tokens(ends);
    // Not canonical: llguidance then allows every spelling of a text in tokens, and the model chooses.
    let environment: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
    match ParserFactory::new(&environment, InferenceCapabilities::default(), &SlicedBiasComputer::general_slices()) {
        Ok(mut factory) => {
            factory.quiet();
            factory.limits_mut().verbose_errors = false;
            FACTORY = Some(factory);
            0
        }
        Err(error) => {
            set_message(error.to_string());
            -1
        }
    }
}

/// Limits of every matcher made from now on; 0 keeps what llguidance has by default.
#[no_mangle]
pub extern "C" fn limits_set(
    row_items: usize,
    compile_fuel: u64,
    step_fuel: u64,
    step_items: usize,
    lexer_states: usize,
    grammar_size: usize,
) {
    let defaults = ParserLimits::default();
    let limits = ParserLimits {
        max_items_in_row: if row_items > 0 { row_items } else { defaults.max_items_in_row },
        initial_lexer_fuel: if compile_fuel > 0 { compile_fuel } else { defaults.initial_lexer_fuel },
        step_lexer_fuel: if step_fuel > 0 { step_fuel } else { defaults.step_lexer_fuel },
        step_max_items: if step_items > 0 { step_items } else { defaults.step_max_items },
        max_lexer_states: if lexer_states > 0 { lexer_states } else { defaults.max_lexer_states },
        max_grammar_size: if grammar_size > 0 { grammar_size } else { defaults.max_grammar_size },
        verbose_errors: false,
        ..defaults
    };
    let factory = unsafe { &mut *addr_of_mut!(FACTORY) };
    if let Some(factory) = factory.as_mut() {
        *factory.limits_mut() = limits;
    }
}

/// Compiles a grammar: `syntax` 0 JSON schema, 1 regular expression, 2 Lark. Null with a message when it cannot be.
///
/// # Safety
/// `text` has `length` bytes of UTF-8.
#[no_mangle]
pub unsafe extern "C" fn matcher_new(syntax: u32, text: *const u8, length: usize) -> *mut Matcher {
    let text = String::from_utf8_lossy(std::slice::from_raw_parts(text, length));
    let tag = ["json_schema", "regex", "lark"][syntax as usize];
    let factory = &*addr_of!(FACTORY);
    let Some(factory) = factory.as_ref() else {
        set_message("no vocabulary".to_string());
        return null_mut();
    };
    let parser = TopLevelGrammar::from_tagged_str(tag, &text).and_then(|grammar| {
        factory.create_parser_from_init_ext(
            llguidance::api::GrammarInit::Serialized(grammar),
            Logger::new(0, 0),
            InferenceCapabilities::default(),
            factory.limits().clone(),
        )
    });
    let matcher = Matcher::new(parser);
    match matcher.get_error() {
        None => Box::into_raw(Box::new(matcher)),
        Some(error) => {
            set_message(error);
            null_mut()
        }
    }
}

/// A copy that goes its own way; both share what the lexer has worked out.
#[no_mangle]
pub extern "C" fn matcher_clone(matcher: &Matcher) -> *mut Matcher {
    Box::into_raw(Box::new(matcher.clone()))
}

/// # Safety
/// `matcher` is from `matcher_new` or `matcher_clone` and is not used again.
#[no_mangle]
pub unsafe extern "C" fn matcher_free(matcher: *mut Matcher) {
    drop(Box::from_raw(matcher));
}

/// Writes which tokens may follow, one bit each. 0, or -1 with a message; the matcher is of no use then.
///
/// # Safety
/// `mask` has `num_words` words.
#[no_mangle]
pub unsafe extern "C" fn matcher_mask(matcher: &mut Matcher, mask: *mut u32, num_words: usize) -> i32 {
    match matcher.compute_mask_or_eos() {
        Ok(allowed) => {
            let words = allowed.as_slice();
            std::ptr::copy_nonoverlapping(words.as_ptr(), mask, words.len().min(num_words));
            0
        }
        Err(error) => {
            set_message(error.to_string());
            -1
        }
    }
}

/// Goes on by one token: 1, or 0 when it is not allowed and nothing changed, or -1 with a message.
#[no_mangle]
pub extern "C" fn matcher_accept(matcher: &mut Matcher, token: u32) -> i32 {
    match matcher.try_consume_tokens(&[token]) {
        Ok(consumed) => consumed as i32,
        Err(error) => {
            set_message(error.to_string());
            -1
        }
    }
}

/// 1 when the text may end here, 0 when not, -1 with a message.
#[no_mangle]
pub extern "C" fn matcher_can_end(matcher: &mut Matcher) -> i32 {
    match matcher.is_accepting() {
        Ok(accepting) => accepting as i32,
        Err(error) => {
            set_message(error.to_string());
            -1
        }
    }
}

/// 1 when nothing but an end may follow.
#[no_mangle]
pub extern "C" fn matcher_is_stopped(matcher: &Matcher) -> u32 {
    matcher.is_stopped() as u32
}
