//! What an API server answers.

use anyhow::bail;
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::Value;

/// An answer, whatever its code.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The object, or the `Status` of a refusal; text that is no JSON is a string.
    pub body: Value,
    /// Warnings, as `kubectl` prints them.
    pub warnings: Vec<String>,
}

/// One fault in a refusal's details.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Its kind, such as `FieldValueInvalid`.
    pub reason: String,
    /// The field's path.
    pub field: String,
    /// The sentence.
    pub message: String,
}

impl Answer {
    pub(super) async fn read(response: http::Response<Body>) -> anyhow::Result<Self> {
        let (head, body) = response.into_parts();
        let bytes = body.collect().await?.to_bytes();
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
        let warnings = head
            .headers
            .get_all(http::header::WARNING)
            .iter()
            .filter_map(|value| warning(value.to_str().ok()?))
            .collect();
        Ok(Self {
            status: head.status.as_u16(),
            body,
            warnings,
        })
    }

    /// Whether the request was carried out.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The object; a refusal is an error with its message.
    pub fn ok(self) -> anyhow::Result<Value> {
        if self.is_success() {
            Ok(self.body)
        } else {
            bail!("{} {}: {}", self.status, self.reason(), self.message())
        }
    }

    /// The refusal's sentence.
    pub fn message(&self) -> &str {
        match &self.body {
            Value::String(text) => text,
            body => body["message"].as_str().unwrap_or_default(),
        }
    }

    /// The refusal's word.
    pub fn reason(&self) -> &str {
        self.body["reason"].as_str().unwrap_or_default()
    }

    /// The refusal's faults, one a field.
    pub fn causes(&self) -> Vec<Cause> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        self.body["details"]["causes"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|cause| Cause {
                reason: text(&cause["reason"]),
                field: text(&cause["field"]),
                message: text(&cause["message"]),
            })
            .collect()
    }
}

/// The text of a warning header: `299 - "text"`, with quotes and backslashes escaped.
fn warning(header: &str) -> Option<String> {
    let (_, quoted) = header.split_once(" \"")?;
    let mut text = String::new();
    let mut letters = quoted.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => return Some(text),
            '\\' => text.push(letters.next()?),
            other => text.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_read_without_its_wrapping() {
        assert_eq!(
            warning(r#"299 - "target \"t\" is absent""#).as_deref(),
            Some(r#"target "t" is absent"#)
        );
        assert_eq!(warning("299 -"), None);
    }
}
