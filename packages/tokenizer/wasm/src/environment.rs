//! The engine's settings for chat templates, as transformers sets jinja2's.
use crate::python::text::{check_length, str};
use crate::{filters, globals, methods, tests};
use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, Error, UndefinedBehavior};
use std::sync::OnceLock;

/// Name of the template in messages about it.
pub const NAME: &str = "chat template";

static BASE: OnceLock<Environment<'static>> = OnceLock::new();

/// An environment with one template. @throws for a source that is no template
pub fn compile(source: String) -> Result<Environment<'static>, Error> {
    let mut env = BASE.get_or_init(base).clone();
    env.add_template_owned(NAME, source.replace("\r\n", "\n").replace('\r', "\n"))?;
    Ok(env)
}

fn base() -> Environment<'static> {
    let mut env = Environment::new();
    if let Ok(syntax) = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build() {
        env.set_syntax(syntax);
    }
    env.set_undefined_behavior(UndefinedBehavior::Lenient);
    env.set_unknown_method_callback(methods::call);
    env.set_formatter(|out, state, value| {
        let text = str(value)?;
        check_length(text.len())?;
        match state.auto_escape() {
            AutoEscape::Html if !value.is_safe() => out.write_str(&filters::escape(&text)),
            _ => out.write_str(&text),
        }
        .map_err(Error::from)
    });
    filters::register(&mut env);
    tests::register(&mut env);
    globals::register(&mut env);
    env
}
