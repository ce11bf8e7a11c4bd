//! Names as Kubernetes has them.

/// Whether a text is a DNS-1123 label: lower-case letters, digits and inner dashes, 1 to 63 characters.
pub fn is_label(text: &str) -> bool {
    text.len() <= 63 && is_part(text)
}

/// Whether a text is a DNS-1123 subdomain: labels joined by dots, 1 to 253 characters.
pub fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_part)
}

fn is_part(text: &str) -> bool {
    let inner = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(inner)
        && bytes.last().is_some_and(inner)
        && bytes.iter().all(|b| inner(b) || *b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_subdomains_are_those_of_kubernetes() {
        for (text, label, subdomain) in [
            ("a", true, true),
            ("a-1", true, true),
            ("1a", true, true),
            ("a.b", false, true),
            ("", false, false),
            ("-a", false, false),
            ("a-", false, false),
            ("Server", false, false),
            ("a..b", false, false),
            ("a.", false, false),
            ("a_b", false, false),
            ("ä", false, false),
        ] {
            assert_eq!(
                (is_label(text), is_subdomain(text)),
                (label, subdomain),
                "{text}"
            );
        }
        assert!(is_label(&"a".repeat(63)) && !is_label(&"a".repeat(64)));
        assert!(is_subdomain(&"a".repeat(253)) && !is_subdomain(&"a".repeat(254)));
    }
}
