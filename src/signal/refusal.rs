//! Why a scrape is no sample.

use std::fmt;

/// Why the answer of an engine, or its absence, is no sample. The words are the values of the metric
/// `mds_scrape_errors_total{reason}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// No connection could be made, or it broke before an answer came.
    Refused,
    /// No whole answer within the deadline.
    Timeout,
    /// The certificate of an https endpoint did not verify.
    Certificate,
    /// An HTTP status other than 200.
    Status(u16),
    /// A body that says that it is no text: JSON, HTML, a compressed one.
    NotText,
    /// A body that ends in the middle of a line, or before its announced length.
    Truncated,
    /// More bytes, or more wanted samples, than a believable engine sends.
    TooLarge,
    /// A text in which no series of an engine appears.
    NoEngineSeries,
    /// Series of two engines in one body, and the target does not say which it runs.
    TwoEngines,
    /// More lines of wanted series than a slip explains could not be read.
    Malformed,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => f.write_str("refused"),
            Self::Timeout => f.write_str("timeout"),
            Self::Certificate => f.write_str("certificate"),
            Self::Status(code) => write!(f, "status {code}"),
            Self::NotText => f.write_str("not text"),
            Self::Truncated => f.write_str("truncated"),
            Self::TooLarge => f.write_str("too large"),
            Self::NoEngineSeries => f.write_str("no engine series"),
            Self::TwoEngines => f.write_str("two engines"),
            Self::Malformed => f.write_str("malformed"),
        }
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::Refusal;

    #[test]
    fn a_refusal_reads_as_the_reason_that_users_see() {
        assert_eq!(Refusal::Status(404).to_string(), "status 404");
        assert_eq!(Refusal::NoEngineSeries.to_string(), "no engine series");
    }
}
