//! What a part of a spec is: absent, of the JSON type that it should have, or of another one. Nothing of it is refused.

use std::{borrow::Cow, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};

/// A part of a spec: absent (`null` too), an object, or of another type.
#[derive(Default)]
pub(super) enum Part<T> {
    #[default]
    Absent,
    Object(T),
    Other,
}

/// Whether a field is there; `null` is not.
#[derive(Clone, Copy, Default)]
pub(super) struct Presence(pub(super) bool);

/// An integer for which zero means the default.
#[derive(Clone, Copy, Default)]
pub(super) enum Step {
    #[default]
    Absent,
    Zero,
    Other,
}

/// A word: absent (`null` too), a string, or of another type.
#[derive(Default)]
pub(super) enum Word<'a> {
    #[default]
    Absent,
    Text(Cow<'a, str>),
    Other,
}

/// The entries of a list, those that are objects; empty for what is no list.
pub(super) struct Entries<T>(pub(super) Vec<Part<T>>);

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de> Deserialize<'de> for Presence {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Option::<IgnoredAny>::deserialize(from).map(|field| Self(field.is_some()))
    }
}

/// What a value of any JSON type becomes: the visitors below name what they care for, and everything else is `Other`.
macro_rules! others {
    () => {
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("any value")
        }
        fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
            Ok(Self::Value::other())
        }
        fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
            Ok(Self::Value::other())
        }
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        }
    };
    (numbers) => {
        fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
            Ok(Self::Value::other())
        }
        fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
            Ok(Self::Value::other())
        }
    };
    (text) => {
        fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
            Ok(Self::Value::other())
        }
    };
    (list) => {
        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            while list.next_element::<IgnoredAny>()?.is_some() {}
            Ok(Self::Value::other())
        }
    };
    (map) => {
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok(Self::Value::other())
        }
    };
}

impl<T> Part<T> {
    const fn other() -> Self {
        Self::Other
    }
}

impl Step {
    const fn other() -> Self {
        Self::Other
    }
}

impl Word<'_> {
    const fn other() -> Self {
        Self::Other
    }
}

impl<T> Entries<T> {
    const fn other() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Part<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Any<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Any<T> {
            type Value = Part<T>;
            others!();
            others!(numbers);
            others!(text);
            others!(list);
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Part<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Part::Object)
            }
        }
        from.deserialize_any(Any(PhantomData))
    }
}

impl<'de> Deserialize<'de> for Step {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Step;
            others!();
            others!(text);
            others!(list);
            others!(map);
            fn visit_i64<E>(self, number: i64) -> Result<Step, E> {
                Ok(if number == 0 { Step::Zero } else { Step::Other })
            }
            fn visit_u64<E>(self, number: u64) -> Result<Step, E> {
                Ok(if number == 0 { Step::Zero } else { Step::Other })
            }
        }
        from.deserialize_any(Any)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Word<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Word<'de>;
            others!();
            others!(numbers);
            others!(list);
            others!(map);
            fn visit_borrowed_str<E>(self, word: &'de str) -> Result<Word<'de>, E> {
                Ok(Word::Text(Cow::Borrowed(word)))
            }
            fn visit_str<E>(self, word: &str) -> Result<Word<'de>, E> {
                Ok(Word::Text(Cow::Owned(word.to_owned())))
            }
        }
        from.deserialize_any(Any)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Any<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Any<T> {
            type Value = Entries<T>;
            others!();
            others!(numbers);
            others!(text);
            others!(map);
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Entries<T>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = list.next_element()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        from.deserialize_any(Any(PhantomData))
    }
}
