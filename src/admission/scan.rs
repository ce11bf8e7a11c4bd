//! Reads the few parts of a review that a verdict needs, and steps over the rest at memory speed.
//!
//! A review carries one or two whole objects, most of which no rule looks at. [`Scan`] walks JSON text without building
//! anything: keys are compared in place, and what is not asked for is passed over. Passing over checks that the text is
//! UTF-8, that brackets close and that strings end, and no more: the API server wrote it, and what a rule does read is
//! checked in full where it is read.

use std::borrow::Cow;

/// Brackets may nest so deep; `serde_json` has the same limit.
const DEPTH: u32 = 128;

/// Why a text could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ScanError {
    /// The text is not UTF-8.
    #[error("it is not UTF-8")]
    NotUtf8,
    /// The text is no JSON at this byte.
    #[error("it is no JSON at byte {0}")]
    Syntax(usize),
    /// The text ends too soon.
    #[error("it ends in the middle")]
    Truncated,
    /// Something follows the value.
    #[error("something follows the review at byte {0}")]
    Trailing(usize),
    /// Brackets nest too deep.
    #[error("it nests deeper than {DEPTH}")]
    TooDeep,
    /// A field is there twice.
    #[error("{0} is there twice")]
    Duplicate(&'static str),
    /// A field has another JSON type.
    #[error("{0} has the wrong type")]
    Type(&'static str),
}

/// Where a walk over JSON text is.
#[derive(Clone, Debug)]
pub(crate) struct Scan<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
}

impl<'a> Scan<'a> {
    /// Begins at the start of `text`.
    pub(crate) const fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            depth: 0,
        }
    }

    /// Begins at the start of `body`, which must be UTF-8.
    pub(crate) fn of_bytes(body: &'a [u8]) -> Result<Self, ScanError> {
        std::str::from_utf8(body)
            .map(Self::new)
            .map_err(|_| ScanError::NotUtf8)
    }

    fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes()
    }

    /// The next byte that is no white space, which stays unread.
    pub(crate) fn peek(&mut self) -> Result<u8, ScanError> {
        let bytes = self.bytes();
        loop {
            match bytes.get(self.at) {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.at += 1,
                Some(&byte) => return Ok(byte),
                None => return Err(ScanError::Truncated),
            }
        }
    }

    fn expect(&mut self, byte: u8) -> Result<(), ScanError> {
        if self.peek()? == byte {
            self.at += 1;
            Ok(())
        } else {
            Err(ScanError::Syntax(self.at))
        }
    }

    /// Nothing but white space is left.
    pub(crate) fn end(mut self) -> Result<(), ScanError> {
        match self.peek() {
            Err(ScanError::Truncated) => Ok(()),
            Ok(_) => Err(ScanError::Trailing(self.at)),
            Err(error) => Err(error),
        }
    }

    /// Reads an object: `field` is called for each key, and must read or skip the value.
    pub(crate) fn object(
        &mut self,
        mut field: impl FnMut(&str, &mut Self) -> Result<(), ScanError>,
    ) -> Result<(), ScanError> {
        self.open(b'{')?;
        let mut first = true;
        while self.more(first, b'}')? {
            first = false;
            let key = self.key()?;
            field(&key, self)?;
        }
        Ok(())
    }

    /// Reads an array: `entry` is called for each entry, and must read or skip it.
    pub(crate) fn array(
        &mut self,
        mut entry: impl FnMut(&mut Self) -> Result<(), ScanError>,
    ) -> Result<(), ScanError> {
        self.open(b'[')?;
        let mut first = true;
        while self.more(first, b']')? {
            first = false;
            entry(self)?;
        }
        Ok(())
    }

    /// Enters an object or an array.
    fn open(&mut self, bracket: u8) -> Result<(), ScanError> {
        self.expect(bracket)?;
        self.deeper()
    }

    /// Whether another entry follows; leaves the object or array where none does.
    fn more(&mut self, first: bool, close: u8) -> Result<bool, ScanError> {
        match self.peek()? {
            byte if byte == close => {
                self.at += 1;
                self.depth -= 1;
                Ok(false)
            }
            b',' if !first => {
                self.at += 1;
                Ok(true)
            }
            _ if first => Ok(true),
            _ => Err(ScanError::Syntax(self.at)),
        }
    }

    /// Reads a key and its colon.
    fn key(&mut self) -> Result<Cow<'a, str>, ScanError> {
        let key = self.string()?;
        self.expect(b':')?;
        Ok(key)
    }

    fn deeper(&mut self) -> Result<(), ScanError> {
        self.depth += 1;
        if self.depth > DEPTH {
            Err(ScanError::TooDeep)
        } else {
            Ok(())
        }
    }

    /// Reads a string; it is copied only where it has an escape.
    pub(crate) fn string(&mut self) -> Result<Cow<'a, str>, ScanError> {
        self.expect(b'"')?;
        let start = self.at;
        let (end, escaped) = self.string_end(start)?;
        self.at = end + 1;
        if escaped {
            serde_json::from_str::<String>(&self.text[start - 1..=end])
                .map(Cow::Owned)
                .map_err(|_| ScanError::Syntax(start))
        } else {
            Ok(Cow::Borrowed(&self.text[start..end]))
        }
    }

    /// The place of the quote that ends a string whose content begins at `from`, and whether it has an escape.
    #[inline]
    fn string_end(&self, from: usize) -> Result<(usize, bool), ScanError> {
        let bytes = self.bytes();
        let mut at = from;
        let mut escaped = false;
        loop {
            at = quote_or_backslash(bytes, at).ok_or(ScanError::Truncated)?;
            if bytes[at] == b'"' {
                return Ok((at, escaped));
            }
            escaped = true;
            at += 2;
        }
    }

    /// Reads a string, or `None` for `null`; anything else is of the wrong type.
    pub(crate) fn text(&mut self, what: &'static str) -> Result<Option<Cow<'a, str>>, ScanError> {
        match self.peek()? {
            b'"' => self.string().map(Some),
            b'n' => self.skip().map(|()| None),
            _ => Err(ScanError::Type(what)),
        }
    }

    /// The text of the next value, which is passed over.
    pub(crate) fn raw(&mut self) -> Result<&'a str, ScanError> {
        self.peek()?;
        let start = self.at;
        self.skip()?;
        Ok(&self.text[start..self.at])
    }

    /// Passes over the next value.
    pub(crate) fn skip(&mut self) -> Result<(), ScanError> {
        let bytes = self.bytes();
        match self.peek()? {
            b'"' => {
                let (end, _) = self.string_end(self.at + 1)?;
                self.at = end + 1;
                Ok(())
            }
            b'{' | b'[' => self.skip_nested(),
            b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => {
                // The longest run of what a number or a word can have; `0x` or `nul` are found out below.
                let start = self.at;
                while let Some(b'-' | b'+' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'E') =
                    bytes.get(self.at)
                {
                    self.at += 1;
                }
                match &bytes[start..self.at] {
                    b"true" | b"false" | b"null" | [b'-' | b'0'..=b'9', ..] => Ok(()),
                    _ => Err(ScanError::Syntax(start)),
                }
            }
            _ => Err(ScanError::Syntax(self.at)),
        }
    }

    /// Passes over an object or an array: only brackets and strings matter.
    fn skip_nested(&mut self) -> Result<(), ScanError> {
        let bytes = self.bytes();
        let mut at = self.at;
        // One bit a level: set for an object. 128 levels at the most, so that an integer holds them.
        let mut kinds: u128 = 0;
        let mut open = 0_u32;
        loop {
            match bytes.get(at) {
                Some(b'"') => {
                    let (end, _) = self.string_end(at + 1)?;
                    at = end + 1;
                }
                Some(&byte @ (b'{' | b'[')) => {
                    if self.depth + open >= DEPTH {
                        return Err(ScanError::TooDeep);
                    }
                    open += 1;
                    kinds = kinds << 1 | u128::from(byte == b'{');
                    at += 1;
                }
                Some(&byte @ (b'}' | b']')) => {
                    if (kinds & 1 == 1) != (byte == b'}') {
                        return Err(ScanError::Syntax(at));
                    }
                    at += 1;
                    open -= 1;
                    kinds >>= 1;
                    if open == 0 {
                        self.at = at;
                        return Ok(());
                    }
                }
                Some(_) => at += 1,
                None => return Err(ScanError::Truncated),
            }
        }
    }
}

/// Whether two texts are the same JSON.
///
/// The API server writes keys in order, so that equal values have equal bytes almost always, and what differs differs
/// early: both texts are walked side by side, and nothing is built unless keys come in another order.
pub(crate) fn same_json(a: &str, b: &str) -> bool {
    a == b || same(&mut Scan::new(a), &mut Scan::new(b)).unwrap_or(false)
}

fn same<'a>(a: &mut Scan<'a>, b: &mut Scan<'a>) -> Result<bool, ScanError> {
    let kind = a.peek()?;
    match (kind, b.peek()?) {
        (b'{', b'{') => {
            let (mut unread_a, mut unread_b) = (a.clone(), b.clone());
            match same_in_order(a, b)? {
                Some(same) => Ok(same),
                None => same_in_any_order(&mut unread_a, &mut unread_b),
            }
        }
        (b'[', b'[') => {
            a.open(b'[')?;
            b.open(b'[')?;
            let mut first = true;
            loop {
                match (a.more(first, b']')?, b.more(first, b']')?) {
                    (true, true) if same(a, b)? => first = false,
                    (more_a, more_b) => return Ok(!more_a && !more_b),
                }
            }
        }
        (b'"', b'"') => Ok(a.string()? == b.string()?),
        _ => {
            let (a, b) = (a.raw()?, b.raw()?);
            let number = |text: &str| serde_json::from_str::<serde_json::Number>(text).ok();
            Ok(a == b || number(a).is_some_and(|a| Some(a) == number(b)))
        }
    }
}

/// Compares two objects field by field; `None` once their keys differ in a place.
fn same_in_order<'a>(a: &mut Scan<'a>, b: &mut Scan<'a>) -> Result<Option<bool>, ScanError> {
    a.open(b'{')?;
    b.open(b'{')?;
    let mut first = true;
    loop {
        match (a.more(first, b'}')?, b.more(first, b'}')?) {
            (true, true) => {}
            (false, false) => return Ok(Some(true)),
            _ => return Ok(Some(false)),
        }
        first = false;
        if a.key()? != b.key()? {
            return Ok(None);
        }
        if !same(a, b)? {
            return Ok(Some(false));
        }
    }
}

fn same_in_any_order<'a>(a: &mut Scan<'a>, b: &mut Scan<'a>) -> Result<bool, ScanError> {
    let (a, b) = (sorted(a)?, sorted(b)?);
    Ok(a.len() == b.len()
        && a.iter()
            .zip(&b)
            .all(|((key_a, value_a), (key_b, value_b))| {
                key_a == key_b && same_json(value_a, value_b)
            }))
}

fn sorted<'a>(scan: &mut Scan<'a>) -> Result<Vec<(Cow<'a, str>, &'a str)>, ScanError> {
    let mut fields = Vec::new();
    scan.open(b'{')?;
    let mut first = true;
    while scan.more(first, b'}')? {
        first = false;
        fields.push((scan.key()?, scan.raw()?));
    }
    fields.sort();
    Ok(fields)
}

/// Sets a field once; a second time is an error.
pub(crate) fn once<T>(
    place: &mut Option<T>,
    what: &'static str,
    value: T,
) -> Result<(), ScanError> {
    if place.replace(value).is_some() {
        return Err(ScanError::Duplicate(what));
    }
    Ok(())
}

const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// The high bit of each byte of `word` that equals `byte`; bits above the first match may be wrong.
const fn matches(word: u64, byte: u8) -> u64 {
    let zero = word ^ (LOW * byte as u64);
    zero.wrapping_sub(LOW) & !zero & HIGH
}

/// The place of the first quote or backslash at or after `at`, eight bytes at a time: most strings are short, where a
/// call into `memchr` costs more than it saves.
#[inline]
fn quote_or_backslash(bytes: &[u8], mut at: usize) -> Option<usize> {
    while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let word = u64::from_le_bytes(*chunk);
        let found = matches(word, b'"') | matches(word, b'\\');
        if found != 0 {
            return Some(at + (found.trailing_zeros() / 8) as usize);
        }
        at += 8;
    }
    let rest = bytes.get(at..)?;
    rest.iter()
        .position(|&byte| byte == b'"' || byte == b'\\')
        .map(|place| at + place)
}

#[cfg(test)]
mod tests;
