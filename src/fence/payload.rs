//! The payloads of the two annotations.
//!
//! Strict where it protects: a duplicated key, a number that is no integer, trailing bytes or more than 16 KiB do not
//! parse. Lenient where a newer release may differ: unknown keys are kept and ignored.

use std::{borrow::Cow, collections::BTreeSet, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::api::{Replicas, Term, Vector};

/// The longest payload that parses, in bytes.
pub const MAX_BYTES: usize = 16 * 1024;

/// Why a payload does not parse.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PayloadError {
    /// Over [`MAX_BYTES`].
    #[error("{0} bytes: at most 16384 are read")]
    TooLong(usize),
    /// Not the JSON that it should be.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// A parsed binding: who owns the counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding<'a> {
    /// Name of the scaler: a DNS-1123 subdomain.
    pub scaler_name: Cow<'a, str>,
    /// UID of the scaler, not empty.
    pub scaler_uid: Cow<'a, str>,
    /// The term under which it commits.
    pub term: Term,
}

/// A parsed decision: the counts as last committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision<'a> {
    /// Its ID, not empty.
    pub id: Cow<'a, str>,
    /// The term of the commit.
    pub term: Term,
    /// Counts by role name, not empty.
    pub vector: Vector,
}

impl<'a> Binding<'a> {
    /// Reads a binding annotation.
    pub fn parse(text: &'a str) -> Result<Self, PayloadError> {
        read(text, BindingVisitor)
    }

    /// The annotation's text.
    pub fn to_text(&self) -> String {
        serde_json::json!({"scalerName": self.scaler_name, "scalerUID": self.scaler_uid, "term": self.term})
            .to_string()
    }

    /// The text of a stored binding with another term; every other byte stays.
    pub fn with_term(text: &str, term: Term) -> Result<String, PayloadError> {
        Binding::parse(text)?;
        let old = read(text, TermVisitor)?.get();
        let start = old.as_ptr().addr() - text.as_ptr().addr();
        Ok(format!(
            "{}{term}{}",
            &text[..start],
            &text[start + old.len()..]
        ))
    }
}

impl<'a> Decision<'a> {
    /// Reads a decision annotation.
    pub fn parse(text: &'a str) -> Result<Self, PayloadError> {
        read(text, DecisionVisitor)
    }

    /// The annotation's text.
    pub fn to_text(&self) -> String {
        serde_json::json!({"decisionID": self.id, "term": self.term, "vector": self.vector})
            .to_string()
    }

    /// Whether its ID is `<term>-<random>` with its own term.
    pub fn is_prefixed(&self) -> bool {
        prefixed(&self.id, self.term)
    }
}

fn prefixed(id: &str, term: Term) -> bool {
    id.split_once('-')
        .is_some_and(|(head, random)| !random.is_empty() && head == term.to_string())
}

/// The ID of a new decision, `<term>-<random>`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DecisionId(String);

impl DecisionId {
    /// The ID with this random part; `None` where that is empty.
    pub fn new(term: Term, random: &str) -> Option<Self> {
        (!random.is_empty()).then(|| Self(format!("{term}-{random}")))
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DecisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn read<'a, V: Visitor<'a>>(text: &'a str, visitor: V) -> Result<V::Value, PayloadError> {
    if text.len() > MAX_BYTES {
        return Err(PayloadError::TooLong(text.len()));
    }
    let mut json = serde_json::Deserializer::from_str(text);
    let value = json.deserialize_map(visitor)?;
    json.end()?;
    Ok(value)
}

/// A string, borrowed where it has no escapes.
struct Text<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        from.deserialize_str(TextVisitor)
    }
}

/// A map whose keys occur once.
struct CountsSeed;

impl<'de> DeserializeSeed<'de> for CountsSeed {
    type Value = Vector;
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Vector, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for CountsSeed {
    type Value = Vector;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of role name to count")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vector, A::Error> {
        let mut vector = Vector::new();
        while let Some((role, count)) = map.next_entry::<String, Replicas>()? {
            if vector.insert(role, count).is_some() {
                return Err(A::Error::custom("a role occurs twice in vector"));
            }
        }
        if vector.is_empty() {
            return Err(A::Error::custom("vector is empty"));
        }
        Ok(vector)
    }
}

/// Sets a field that may occur once.
fn once<T, E: Error>(place: &mut Option<T>, key: &'static str, value: T) -> Result<(), E> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(E::custom(format_args!("{key} occurs twice"))),
    }
}

/// Passes over a key of a newer release, which may occur once too.
fn unknown<'de, A: MapAccess<'de>>(
    seen: &mut BTreeSet<Cow<'de, str>>,
    key: Cow<'de, str>,
    map: &mut A,
) -> Result<(), A::Error> {
    if !seen.insert(key) {
        return Err(A::Error::custom("a key occurs twice"));
    }
    map.next_value::<IgnoredAny>().map(drop)
}

fn required<T, E: Error>(field: Option<T>, key: &'static str) -> Result<T, E> {
    field.ok_or_else(|| E::missing_field(key))
}

/// Whether a name is a DNS-1123 subdomain of at most 253 characters.
fn is_subdomain(name: &str) -> bool {
    let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= 253
        && name.split('.').all(|label| {
            let bytes = label.as_bytes();
            bytes.first().is_some_and(|byte| alphanumeric(*byte))
                && bytes.last().is_some_and(|byte| alphanumeric(*byte))
                && bytes
                    .iter()
                    .all(|byte| alphanumeric(*byte) || *byte == b'-')
        })
}

struct BindingVisitor;

impl<'de> Visitor<'de> for BindingVisitor {
    type Value = Binding<'de>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object with scalerName, scalerUID and term")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut name, mut uid, mut term) = (None, None, None);
        let mut seen = BTreeSet::new();
        while let Some(Text(key)) = map.next_key::<Text<'de>>()? {
            match &*key {
                "scalerName" => once(&mut name, "scalerName", map.next_value::<Text<'de>>()?.0)?,
                "scalerUID" => once(&mut uid, "scalerUID", map.next_value::<Text<'de>>()?.0)?,
                "term" => once(&mut term, "term", map.next_value::<Term>()?)?,
                _ => unknown(&mut seen, key, &mut map)?,
            }
        }
        let scaler_name = required(name, "scalerName")?;
        let scaler_uid = required(uid, "scalerUID")?;
        if !is_subdomain(&scaler_name) {
            return Err(A::Error::custom("scalerName is not a DNS-1123 subdomain"));
        }
        if scaler_uid.is_empty() {
            return Err(A::Error::custom("scalerUID is empty"));
        }
        let term = required(term, "term")?;
        Ok(Binding {
            scaler_name,
            scaler_uid,
            term,
        })
    }
}

struct DecisionVisitor;

impl<'de> Visitor<'de> for DecisionVisitor {
    type Value = Decision<'de>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object with decisionID, term and vector")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut id, mut term, mut vector) = (None, None, None);
        let mut seen = BTreeSet::new();
        while let Some(Text(key)) = map.next_key::<Text<'de>>()? {
            match &*key {
                "decisionID" => once(&mut id, "decisionID", map.next_value::<Text<'de>>()?.0)?,
                "term" => once(&mut term, "term", map.next_value::<Term>()?)?,
                "vector" => once(&mut vector, "vector", map.next_value_seed(CountsSeed)?)?,
                _ => unknown(&mut seen, key, &mut map)?,
            }
        }
        let id = required(id, "decisionID")?;
        if id.is_empty() {
            return Err(A::Error::custom("decisionID is empty"));
        }
        let (term, vector) = (required(term, "term")?, required(vector, "vector")?);
        Ok(Decision { id, term, vector })
    }
}

/// Finds the bytes of a term.
struct TermVisitor;

impl<'de> Visitor<'de> for TermVisitor {
    type Value = &'de RawValue;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object with term")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut term = None;
        while let Some(Text(key)) = map.next_key::<Text<'de>>()? {
            if key == "term" {
                term = Some(map.next_value::<&'de RawValue>()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        required(term, "term")
    }
}
