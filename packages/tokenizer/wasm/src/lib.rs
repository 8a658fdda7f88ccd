//! jinja2 for chat templates: minijinja with Python's values, as a WebAssembly module without imports.
//!
//! Texts are UTF-8, variables are JSON text. The caller writes a text into memory of [`jinja_alloc`] and hands it over; a result
//! stays at [`jinja_result_ptr`] until the next call. After a trap the instance is not usable any more.
mod arguments;
mod clock;
mod environment;
mod filters;
mod globals;
mod json;
mod methods;
mod python;
mod surrogates;
mod tests;
mod values;

use clock::LocalTime;
use minijinja::{Environment, Error, ErrorKind};
use std::sync::Mutex;

static RESULT: Mutex<String> = Mutex::new(String::new());
static TEMPLATES: Mutex<Vec<Option<Environment<'static>>>> = Mutex::new(Vec::new());

/// Results of a rendering.
const RENDERED: i32 = 0;
const REFUSED: i32 = 1;
const FAILED: i32 = 2;
const OUT_OF_FUEL: i32 = 3;

#[no_mangle]
pub extern "C" fn jinja_alloc(length: usize) -> *mut u8 {
    let mut bytes = Vec::<u8>::with_capacity(length.max(1));
    let at = bytes.as_mut_ptr();
    std::mem::forget(bytes);
    at
}

/// # Safety
/// The address is one of `jinja_alloc(length)`, written to its end, and not taken before.
unsafe fn take(at: *mut u8, length: usize) -> String {
    let bytes = unsafe { Vec::from_raw_parts(at, length, length.max(1)) };
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

fn answer(text: String) {
    *RESULT.lock().unwrap() = text;
}

#[no_mangle]
pub extern "C" fn jinja_result_ptr() -> *const u8 {
    RESULT.lock().unwrap().as_ptr()
}

#[no_mangle]
pub extern "C" fn jinja_result_len() -> usize {
    RESULT.lock().unwrap().len()
}

/// Sets the local time that `strftime_now` writes.
#[no_mangle]
pub extern "C" fn jinja_set_clock(year: i32, month: u32, day: u32, hour: u32, minute: u32, second: u32, microsecond: u32) {
    clock::set(LocalTime { year: year as i64, month, day, hour, minute, second, microsecond });
}

/// @returns a handle, or -1 with the reason as the result
///
/// # Safety
/// As of `take`.
#[no_mangle]
pub unsafe extern "C" fn jinja_compile(at: *mut u8, length: usize) -> i32 {
    match environment::compile(unsafe { take(at, length) }) {
        Ok(template) => {
            let mut templates = TEMPLATES.lock().unwrap();
            let free = templates.iter().position(Option::is_none).unwrap_or(templates.len());
            if free == templates.len() {
                templates.push(None);
            }
            templates[free] = Some(template);
            free as i32
        }
        Err(error) => {
            answer(describe(&error));
            -1
        }
    }
}

#[no_mangle]
pub extern "C" fn jinja_free(handle: usize) {
    if let Some(template) = TEMPLATES.lock().unwrap().get_mut(handle) {
        *template = None;
    }
}

/// @param fuel steps that the rendering may take, about one per instruction and per 64 bytes
/// @returns the kind of the result: the text, the template's refusal, or the reason of a failure
///
/// # Safety
/// As of `take`.
#[no_mangle]
pub unsafe extern "C" fn jinja_render(handle: usize, at: *mut u8, length: usize, fuel: u32) -> i32 {
    let variables = unsafe { take(at, length) };
    let mut templates = TEMPLATES.lock().unwrap();
    let Some(env) = templates.get_mut(handle).and_then(Option::as_mut) else {
        answer(format!("there is no template {handle}"));
        return FAILED;
    };
    env.set_fuel(Some(fuel as u64));
    let (kind, text) = match render(env, &variables) {
        Ok(text) => (RENDERED, text),
        Err(error) => match refusal(&error) {
            Some(reason) => (REFUSED, reason),
            None if error.kind() == ErrorKind::OutOfFuel => (OUT_OF_FUEL, describe(&error)),
            None => (FAILED, describe(&error)),
        },
    };
    answer(surrogates::replaced(text));
    kind
}

fn render(env: &Environment, variables: &str) -> Result<String, Error> {
    surrogates::reset();
    let variables = json::reader::parse_variables(variables, &globals::RESERVED)?;
    env.get_template(environment::NAME)?.render(variables)
}

fn refusal(error: &Error) -> Option<String> {
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        if let Some(globals::Refusal(reason)) = error.downcast_ref() {
            return Some(reason.clone());
        }
        source = error.source();
    }
    None
}

fn describe(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        text.push_str(&format!(": {error}"));
        source = error.source();
    }
    text
}
