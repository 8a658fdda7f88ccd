//! Filters for HTML and addresses.
use crate::arguments::{Arguments, Given};
use crate::python::text::{fail, str};
use crate::values::{kind_of, Kind};
use minijinja::value::Value;
use minijinja::{Environment, Error};

pub fn register(env: &mut Environment) {
    for name in ["escape", "e"] {
        env.add_filter(name, |value: &Value| -> Result<Value, Error> {
            Ok(if value.is_safe() { value.clone() } else { Value::from_safe_string(escape(&str(value)?)) })
        });
    }
    env.add_filter("forceescape", |value: &Value| -> Result<Value, Error> {
        Ok(Value::from_safe_string(escape(&str(value)?)))
    });
    env.add_filter("safe", |value: &Value| -> Result<Value, Error> {
        Ok(Value::from_safe_string(str(value)?.into_owned()))
    });
    env.add_filter("striptags", |value: &Value| -> Result<String, Error> {
        Ok(minijinja_contrib::filters::striptags(str(value)?.into_owned()))
    });
    env.add_filter("urlencode", url_encode);
    env.add_filter("xmlattr", xml_attributes);
}

pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('\'', "&#39;").replace('"', "&#34;")
}

/// @param is_query a slash is quoted, and a space is a plus
fn quote(text: &str, is_query: bool) -> String {
    text.bytes()
        .map(|byte| match byte {
            b' ' if is_query => "+".to_string(),
            b'/' if !is_query => "/".to_string(),
            _ if byte.is_ascii_alphanumeric() || b"_.-~".contains(&byte) => (byte as char).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

fn url_encode(value: &Value) -> Result<String, Error> {
    let pairs: Vec<(Value, Value)> = match kind_of(value) {
        Kind::Dict => value.try_iter()?.map(|key| Ok((key.clone(), value.get_item(&key)?))).collect::<Result<_, Error>>()?,
        Kind::List | Kind::Tuple | Kind::View(_) => {
            let mut pairs = Vec::new();
            for pair in value.try_iter()? {
                let pair: Vec<Value> = pair.try_iter()?.collect();
                let [key, member] = pair.as_slice() else { return fail("urlencode() needs pairs of key and value") };
                pairs.push((key.clone(), member.clone()));
            }
            pairs
        }
        _ => return Ok(quote(&str(value)?, false)),
    };
    let pairs: Vec<String> = pairs
        .iter()
        .map(|(key, member)| Ok(format!("{}={}", quote(&str(key)?, true), quote(&str(member)?, true))))
        .collect::<Result<_, Error>>()?;
    Ok(pairs.join("&"))
}

fn xml_attributes(value: &Value, args: Given) -> Result<Value, Error> {
    let args = Arguments::of("xmlattr", &["autospace"], args)?;
    if !matches!(kind_of(value), Kind::Dict) {
        return fail("xmlattr() needs a dict");
    }
    let mut attributes = Vec::new();
    for key in value.try_iter()? {
        let member = value.get_item(&key)?;
        if member.is_none() || member.is_undefined() {
            continue;
        }
        let name = str(&key)?;
        if name.contains(|c: char| c.is_ascii_whitespace() || "/>=".contains(c)) {
            return fail(format!("Invalid character in attribute name: '{name}'"));
        }
        attributes.push(format!("{}=\"{}\"", escape(&name), escape(&str(&member)?)));
    }
    let has_space = args.get(0).is_none_or(Value::is_true) && !attributes.is_empty();
    Ok(Value::from(format!("{}{}", if has_space { " " } else { "" }, attributes.join(" "))))
}
