//! The Prometheus text format, and what engines make of it.
//!
//! One pass over the bytes. Nothing is copied and nothing is allocated: a [`Reader`] is shown the series that it wants
//! and borrows from the body. A line that cannot be read costs itself; a body that ends in the middle of a line costs
//! everything, because a number that was cut short is a smaller number, and looks like a counter that was reset.
//!
//! Read as well: `OpenMetrics` bodies with exemplars and `# EOF`, CRLF, blanks around braces, escapes, timestamps.
//! Format: Prometheus documentation, "Exposition formats"; `OpenMetrics` 1.0.

mod line;

use memchr::{memchr, memchr3};

use super::Refusal;
pub use line::Labels;
use line::{Bucket, Sample};

/// Bytes of a body that are read at most: 4 MiB.
pub const MAX_BODY: usize = 4 << 20;
/// Bytes of a line that are read at most: 64 KiB. A longer one is a bad line.
pub const MAX_LINE: usize = 64 << 10;
/// Wanted samples of a body that are read at most.
pub const MAX_SAMPLES: u32 = 20_000;
/// Bad lines of wanted series that a body may have.
pub const MAX_BAD_LINES: u32 = 5;

/// What is wanted of a body, and where it goes.
pub trait Reader {
    /// A wanted series name.
    type Name: Copy;

    /// The wanted series name that `name` is, if it is one. Asked once for lines of one name in a row.
    fn name(&mut self, name: &[u8]) -> Option<Self::Name>;

    /// A family that the body declares by HELP and TYPE lines; it may have no series. Told once for such lines in a row.
    fn declared(&mut self, family: &[u8]);

    /// A wanted series and its value, which may be NaN, infinite or negative.
    fn series(&mut self, series: Series<'_, Self::Name>);

    /// A line of a wanted name that could not be read.
    fn bad(&mut self, name: Self::Name);
}

/// One line of a wanted series.
#[derive(Clone, Copy, Debug)]
pub struct Series<'a, N> {
    /// The name, as the reader knows it.
    pub name: N,
    /// The labels. Where `again` is set, those of an earlier line: the same but for the value of `le`.
    pub labels: Labels<'a>,
    /// The label `le` as a number, where there is one.
    pub le: Option<f64>,
    /// The value.
    pub value: f64,
    /// Whether name and labels but for `le` are those of the series that was shown before this one.
    pub again: bool,
}

/// How much a body held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Wanted series that were read.
    pub samples: u32,
    /// Lines of wanted series that could not be read.
    pub bad: u32,
}

/// Shows `reader` every wanted series of `body`.
///
/// # Errors
/// `Truncated` when the body does not end in a newline, `TooLarge` above [`MAX_BODY`] bytes or [`MAX_SAMPLES`] samples,
/// `Malformed` above [`MAX_BAD_LINES`] bad lines. What the reader was shown before an error is worth nothing.
pub fn read<R: Reader>(body: &[u8], reader: &mut R) -> Result<Summary, Refusal> {
    if body.len() > MAX_BODY {
        return Err(Refusal::TooLarge);
    }
    if body.last().is_some_and(|&byte| byte != b'\n') {
        return Err(Refusal::Truncated);
    }
    let mut pass = Pass {
        reader,
        declared: b"",
        run: None,
        bucket: None,
        summary: Summary::default(),
    };
    let mut rest = body;
    while let Some(end) = memchr(b'\n', rest) {
        let (line, tail) = rest.split_at(end);
        rest = tail.get(1..).unwrap_or_default();
        if !pass.line(line)? {
            break;
        }
    }
    Ok(pass.summary)
}

/// Whether a body of `received` bytes is as long as its `Content-Length` says.
pub fn is_whole(received: usize, announced: Option<u64>) -> bool {
    announced
        .is_none_or(|announced| u64::try_from(received).is_ok_and(|received| received >= announced))
}

/// A run of lines of one name.
struct Run<'a, N> {
    /// The name with the byte that ends it, so that a longer name is no match.
    prefix: &'a [u8],
    /// Where the name ends.
    after: usize,
    name: Option<N>,
}

struct Pass<'a, 'r, R: Reader> {
    reader: &'r mut R,
    /// The family that was declared last: TYPE comes behind HELP.
    declared: &'a [u8],
    run: Option<Run<'a, R::Name>>,
    /// The last bucket that was read, and its labels, for [`Bucket::next`].
    bucket: Option<Bucket<'a>>,
    summary: Summary,
}

impl<'a, R: Reader> Pass<'a, '_, R> {
    /// Reads a line. False: the body says that it ends here.
    #[inline]
    fn line(&mut self, line: &'a [u8]) -> Result<bool, Refusal> {
        // Most lines are of the same name as the one before, and most names are not wanted. The byte that ends the name
        // tells most others apart at once.
        if let Some(run) = &self.run
            && let Some((end, _)) = run.prefix.split_last()
            && line.get(run.after) == Some(end)
            && line.starts_with(run.prefix)
        {
            return match run.name {
                None => Ok(true),
                Some(name) => self.wanted(line, run.after, name).map(|()| true),
            };
        }
        self.first_of_a_run(line)
    }

    fn first_of_a_run(&mut self, line: &'a [u8]) -> Result<bool, Refusal> {
        let line = line.trim_ascii_start();
        if let Some(comment) = line.strip_prefix(b"#") {
            return Ok(self.comment(comment));
        }
        let end = memchr3(b'{', b' ', b'\t', line).unwrap_or(line.len());
        let (name, _) = line.split_at(end);
        let wanted = self.reader.name(name.trim_ascii_end());
        self.bucket = None;
        self.run = line.get(..=end).map(|prefix| Run {
            prefix,
            after: end,
            name: wanted,
        });
        if let Some(wanted) = wanted {
            self.wanted(line, end, wanted)?;
        }
        Ok(true)
    }

    /// A comment, without its `#`. False: the end of an `OpenMetrics` body.
    fn comment(&mut self, comment: &'a [u8]) -> bool {
        // `#vllm:...` is a line that somebody commented out: keywords come after a blank.
        let Some(text) = comment
            .strip_prefix(b" ")
            .or_else(|| comment.strip_prefix(b"\t"))
        else {
            return true;
        };
        let text = text.trim_ascii();
        if let Some(rest) = text
            .strip_prefix(b"HELP ")
            .or_else(|| text.strip_prefix(b"TYPE "))
        {
            let family = rest.trim_ascii_start();
            let end = memchr3(b' ', b'\t', b'\r', family).unwrap_or(family.len());
            let (family, _) = family.split_at(end);
            if family != self.declared {
                self.declared = family;
                self.reader.declared(family);
            }
            return true;
        }
        text != b"EOF"
    }

    /// Reads a line of the wanted `name`, which ends at `after`.
    fn wanted(&mut self, line: &'a [u8], after: usize, name: R::Name) -> Result<(), Refusal> {
        if let Some((bucket, le, value)) = self.bucket.and_then(|bucket| bucket.next(line)) {
            return self.show(Series {
                name,
                labels: bucket.labels,
                le: Some(le),
                value,
                again: true,
            });
        }
        self.bucket = None;
        let sample = if line.len() > MAX_LINE {
            None
        } else {
            Sample::read(line, after)
        };
        let Some(sample) = sample else {
            self.summary.bad += 1;
            self.reader.bad(name);
            return if self.summary.bad > MAX_BAD_LINES {
                Err(Refusal::Malformed)
            } else {
                Ok(())
            };
        };
        self.bucket = sample.bucket();
        self.show(Series {
            name,
            labels: sample.labels,
            le: sample.le,
            value: sample.value,
            again: false,
        })
    }

    fn show(&mut self, series: Series<'a, R::Name>) -> Result<(), Refusal> {
        if self.summary.samples == MAX_SAMPLES {
            return Err(Refusal::TooLarge);
        }
        self.summary.samples += 1;
        self.reader.series(series);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
