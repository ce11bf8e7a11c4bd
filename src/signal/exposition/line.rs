//! One line of the text format: labels, value, and what may follow.

use std::str;

use memchr::memchr;

/// The labels of a series, in the order of the body. Values are as written, with their escapes: labels are compared
/// and not shown, and a value has one spelling in one exposition.
#[derive(Clone, Copy, Debug, Default)]
pub struct Labels<'a> {
    /// From the first label to the closing brace; known to be well formed.
    text: &'a [u8],
}

impl<'a> Labels<'a> {
    /// Each label, by name and by value as written.
    pub fn iter(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let mut rest = self.text;
        std::iter::from_fn(move || match label(&mut rest)? {
            Token::Label { name, value, .. } => Some((name, value)),
            Token::End => None,
        })
    }
}

/// A line that was read.
pub(super) struct Sample<'a> {
    pub(super) labels: Labels<'a>,
    pub(super) le: Option<f64>,
    pub(super) value: f64,
    line: &'a [u8],
    /// Where the value of `le` begins and ends in the line, where there is one.
    le_at: Option<(usize, usize)>,
    /// Where the number begins.
    value_at: usize,
}

impl<'a> Sample<'a> {
    /// Reads a line whose name ends at `after`. `None`: a bad line.
    pub(super) fn read(line: &'a [u8], after: usize) -> Option<Self> {
        let (_, rest) = line.split_at_checked(after)?;
        let mut rest = skip_blanks(rest);
        let mut labels = Labels::default();
        let mut le = None;
        let mut le_at = None;
        if let Some(text) = rest.strip_prefix(b"{") {
            labels.text = text;
            rest = text;
            while let Token::Label {
                name,
                value,
                behind,
            } = label(&mut rest)?
            {
                if name == b"le" {
                    let end = line.len().checked_sub(behind + 1)?;
                    le = Some(number(value)?);
                    le_at = Some((end.checked_sub(value.len())?, end));
                }
            }
        }
        let rest = skip_blanks(rest);
        let value_at = line.len() - rest.len();
        let value = value(rest)?;
        Some(Self {
            labels,
            le,
            value,
            line,
            le_at,
            value_at,
        })
    }

    /// What the next line is compared with, where this one is a bucket of a histogram.
    pub(super) fn bucket(&self) -> Option<Bucket<'a>> {
        let (start, end) = self.le_at?;
        let (head, _) = self.line.split_at_checked(start)?;
        let tail = self.line.get(end..self.value_at)?;
        Some(Bucket {
            head,
            tail,
            labels: self.labels,
        })
    }
}

/// A bucket line that was read, around its `le`.
#[derive(Clone, Copy)]
pub(super) struct Bucket<'a> {
    /// From the name to the opening quote of `le`.
    head: &'a [u8],
    /// From the closing quote of `le` to the number.
    tail: &'a [u8],
    pub(super) labels: Labels<'a>,
}

impl Bucket<'_> {
    /// The fast path: reads `line` as the next bucket of the same series. `None`: read it in full instead.
    ///
    /// Safe to take, because the bytes before the value of `le` and from its closing quote to the number are those of a
    /// line that was read in full: they mean the same again. The one thing between them, the value of `le`, ends at the
    /// first quote, since one that held an escape is no number and leads to the full reading.
    #[inline]
    pub(super) fn next(self, line: &[u8]) -> Option<(Self, f64, f64)> {
        let rest = line.strip_prefix(self.head)?;
        let (le, rest) = rest.split_at(memchr(b'"', rest)?);
        let rest = rest.strip_prefix(self.tail)?;
        Some((self, number(le)?, value(rest)?))
    }
}

enum Token<'a> {
    Label {
        name: &'a [u8],
        value: &'a [u8],
        /// How many bytes follow the closing quote.
        behind: usize,
    },
    End,
}

/// Takes the next label and its comma, or the closing brace, from the front of `text`. `None`: neither stands there.
fn label<'a>(text: &mut &'a [u8]) -> Option<Token<'a>> {
    let rest = skip_blanks(text);
    if let Some(after) = rest.strip_prefix(b"}") {
        *text = after;
        return Some(Token::End);
    }
    let length = rest.iter().position(|byte| !is_of_a_name(*byte))?;
    if length == 0 {
        return None;
    }
    let (name, rest) = rest.split_at(length);
    let rest = skip_blanks(skip_blanks(rest).strip_prefix(b"=")?).strip_prefix(b"\"")?;
    // Values are short: looking at each byte is faster than getting ready to look at many.
    let mut escaped = false;
    let end = rest.iter().position(|byte| {
        let quote = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        quote
    })?;
    let (value, quoted) = rest.split_at_checked(end)?;
    let after = quoted.get(1..)?;
    let rest = skip_blanks(after);
    *text = match rest.strip_prefix(b",") {
        Some(next) => next,
        None if rest.starts_with(b"}") => rest,
        None => return None,
    };
    Some(Token::Label {
        name,
        value,
        behind: after.len(),
    })
}

/// Whether a label's name may have this byte.
fn is_of_a_name(byte: u8) -> bool {
    const OF_A_NAME: [bool; 256] = {
        let mut table = [false; 256];
        let mut byte = 0;
        while byte < 128_u8 {
            table[byte as usize] = byte.is_ascii_alphanumeric() || byte == b'_';
            byte += 1;
        }
        table
    };
    OF_A_NAME
        .get(usize::from(byte))
        .is_some_and(|of_a_name| *of_a_name)
}

/// The value at the front of `text`, with what may follow it: a timestamp, an exemplar, blanks, a carriage return.
#[inline]
fn value(text: &[u8]) -> Option<f64> {
    let end = text
        .iter()
        .position(|byte| matches!(byte, b' ' | b'\t' | b'\r'))
        .unwrap_or(text.len());
    let (token, rest) = text.split_at(end);
    let value = number(token)?;
    if !rest.is_empty() {
        let rest = rest.trim_ascii();
        let timestamp = rest
            .iter()
            .position(|byte| matches!(byte, b' ' | b'\t'))
            .unwrap_or(rest.len());
        let (timestamp, exemplar) = rest.split_at(timestamp);
        let exemplar = exemplar.trim_ascii_start();
        let followed = timestamp.is_empty()
            || timestamp.starts_with(b"#")
            || (number(timestamp).is_some() && (exemplar.is_empty() || exemplar.starts_with(b"#")));
        if !followed {
            return None;
        }
    }
    Some(value)
}

/// A number as the format writes it: decimal, with an exponent, `NaN`, `Inf` with a sign, in any case.
#[inline]
fn number(token: &[u8]) -> Option<f64> {
    whole(token).or_else(|| str::from_utf8(token).ok()?.parse().ok())
}

/// A short count such as `9278` or `9278.0`, which nearly all numbers of an engine are. Exact, as every step stays below
/// 2^53.
#[inline]
fn whole(token: &[u8]) -> Option<f64> {
    let digits = token.strip_suffix(b".0").unwrap_or(token);
    if digits.is_empty() || digits.len() > 15 {
        return None;
    }
    digits.iter().try_fold(0.0, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit <= 9).then(|| value * 10.0 + f64::from(digit))
    })
}

#[inline]
fn skip_blanks(text: &[u8]) -> &[u8] {
    match text.first() {
        Some(b' ' | b'\t') => {
            let blanks = text
                .iter()
                .take_while(|byte| matches!(byte, b' ' | b'\t'))
                .count();
            text.get(blanks..).unwrap_or_default()
        }
        _ => text,
    }
}
