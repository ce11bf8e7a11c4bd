use serde_json::value::RawValue; use serde_json::Value;
pub fn patch(_: &RawValue) -> String { String::new() }
pub fn filled(_: &RawValue) -> Option<Value> { None }
