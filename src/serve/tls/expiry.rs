//! When a certificate expires: the one field of X.509 that is read here.
//!
//! rustls checks certificates and does not show this field; a whole X.509 parser for it would be six more crates.
//! DER: ITU-T X.690. The path to the field: RFC 5280, section 4.1.

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;

const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

/// The end of a certificate's validity in seconds since 1970; nothing when `der` is no certificate.
pub fn not_after(der: &[u8]) -> Option<i64> {
    let (certificate, _) = value(SEQUENCE, der)?;
    let (body, _) = value(SEQUENCE, certificate)?;
    let body = value(VERSION, body).map_or(body, |(_, rest)| rest);
    let (_serial, body) = value(INTEGER, body)?;
    let (_algorithm, body) = value(SEQUENCE, body)?;
    let (_issuer, body) = value(SEQUENCE, body)?;
    let (validity, _) = value(SEQUENCE, body)?;
    let (_tag, _not_before, rest) = element(validity)?;
    let (tag, text, _) = element(rest)?;
    time(tag, text)
}

/// Takes one element off `input`: its tag, its value, and what follows.
fn element(input: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = input.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        // A certificate is far below 2^32 bytes; 0x80 alone, the indefinite form, is not DER.
        let count = usize::from(first & 0x7f);
        if count == 0 || count > 4 {
            return None;
        }
        let (digits, rest) = rest.split_at_checked(count)?;
        (
            digits
                .iter()
                .fold(0, |length, &digit| length << 8 | usize::from(digit)),
            rest,
        )
    };
    let (value, rest) = rest.split_at_checked(length)?;
    Some((tag, value, rest))
}

fn value(expected: u8, input: &[u8]) -> Option<(&[u8], &[u8])> {
    let (tag, value, rest) = element(input)?;
    (tag == expected).then_some((value, rest))
}

/// `YYMMDDHHMMSSZ` up to 2049, `YYYYMMDDHHMMSSZ` after that (RFC 5280, section 4.1.2.5).
fn time(tag: u8, text: &[u8]) -> Option<i64> {
    let digits = text.strip_suffix(b"Z")?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = |digits: &[u8]| {
        digits
            .iter()
            .fold(0_i16, |n, digit| n * 10 + i16::from(digit - b'0'))
    };
    let pair = |digits: &[u8], at: usize| -> Option<i8> {
        i8::try_from(number(digits.get(at..at + 2)?)).ok()
    };
    let (year, rest) = match (tag, digits.len()) {
        (UTC_TIME, 12) => {
            let year = number(&digits[..2]);
            (
                if year < 50 { 2000 + year } else { 1900 + year },
                &digits[2..],
            )
        }
        (GENERALIZED_TIME, 14) => (number(&digits[..4]), &digits[4..]),
        _ => return None,
    };
    let (month, day) = (pair(rest, 0)?, pair(rest, 2)?);
    let (hour, minute, second) = (pair(rest, 4)?, pair(rest, 6)?, pair(rest, 8)?);
    let day = Date::new(year, month, day).ok()?;
    let time = Time::new(hour, minute, second, 0).ok()?;
    Some(
        day.to_datetime(time)
            .to_zoned(TimeZone::UTC)
            .ok()?
            .timestamp()
            .as_second(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn certificate(year: i32) -> Vec<u8> {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(["a".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(year, 3, 1);
        params.self_signed(&key).unwrap().der().to_vec()
    }

    fn seconds(year: i16) -> i64 {
        Date::new(year, 3, 1)
            .unwrap()
            .to_zoned(TimeZone::UTC)
            .unwrap()
            .timestamp()
            .as_second()
    }

    #[test]
    fn both_forms_of_time_are_read() {
        assert_eq!(not_after(&certificate(2031)), Some(seconds(2031)));
        assert_eq!(not_after(&certificate(2049)), Some(seconds(2049)));
        assert_eq!(not_after(&certificate(2050)), Some(seconds(2050)));
        assert_eq!(not_after(&certificate(9000)), Some(seconds(9000)));
    }

    #[test]
    fn impossible_times_are_no_times() {
        assert_eq!(time(UTC_TIME, b"310229000000Z"), None);
        assert_eq!(time(UTC_TIME, b"311301000000Z"), None);
        assert_eq!(time(UTC_TIME, b"310301250000Z"), None);
        assert_eq!(time(UTC_TIME, b"310301000000"), None);
        assert_eq!(time(UTC_TIME, b"20310301000000Z"), None);
        assert_eq!(
            time(GENERALIZED_TIME, b"20310301000001Z"),
            Some(seconds(2031) + 1)
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = not_after(&bytes);
        }

        #[test]
        fn a_damaged_certificate_does_not_make_it_panic(at in any::<proptest::sample::Index>(), byte in any::<u8>(), cut in any::<proptest::sample::Index>()) {
            use std::sync::LazyLock;
            static DER: LazyLock<Vec<u8>> = LazyLock::new(|| certificate(2040));
            let mut der = DER.clone();
            let index = at.index(der.len());
            der[index] = byte;
            let _ = not_after(&der);
            let _ = not_after(&der[..cut.index(der.len())]);
        }
    }
}
