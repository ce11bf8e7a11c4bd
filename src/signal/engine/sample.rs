//! A sample: what one scrape of one Pod says, with copies and parts of totals left out.

use super::super::exposition::{self, Reader, Series};
use super::super::refusal::Refusal;
use super::identity::{Identity, Mode, Stream};
use super::{Engine, Families, Family, Name, Part, Shape, declared_family, sample_name};

/// Reads bodies into samples. One that is kept reads the next body without allocating room for its lines again.
#[derive(Debug, Default)]
pub struct Collector {
    entries: Vec<Entry>,
    last: Option<Entry>,
    seen: [Seen; 2],
    process_start: Option<f64>,
}

/// What a body showed of one engine.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    series: bool,
    declaration: bool,
    known: Families,
    damaged: Families,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    engine: Option<Engine>,
    family: Family,
    part: Part,
    identity: Identity,
    le: f64,
    value: f64,
}

/// One gauge of a Pod.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gauge {
    /// The sum over groups.
    pub sum: f64,
    /// Over how many series.
    pub series: u32,
    /// Whether no series of the family was missing: unreadable, NaN, infinite or negative.
    pub whole: bool,
}

/// One series that only grows, as it stood when the sample was taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The family.
    pub family: Family,
    /// Which part of it.
    pub part: Part,
    /// The scheduler that it is of.
    pub group: u64,
    /// The series, by its labels.
    pub series: u64,
    /// The bucket's upper bound; zero for what is no bucket.
    pub le: f64,
    /// The child of a split family.
    pub mode: Mode,
    /// Of streaming requests or of others.
    pub stream: Stream,
    /// The value.
    pub value: f64,
}

impl Point {
    /// The order of points in a sample, and what makes two points of two samples the same series.
    pub fn key_cmp(&self, other: &Self) -> std::cmp::Ordering {
        let key = |point: &Self| (point.family, point.part, point.group, point.series);
        key(self)
            .cmp(&key(other))
            .then_with(|| self.le.total_cmp(&other.le))
    }
}

/// What one scrape of one Pod says.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    engine: Engine,
    process_start: Option<f64>,
    /// Families that the body declares or has series of.
    known: Families,
    /// Families of which a series is missing.
    damaged: Families,
    gauges: [Gauge; GAUGES.len()],
    /// Groups, apart for the two producers of SGLang, sorted.
    groups: Vec<(bool, u64)>,
    points: Vec<Point>,
}

const GAUGES: [Family; 6] = [
    Family::Running,
    Family::Waiting,
    Family::TransferQueue,
    Family::PreallocQueue,
    Family::CacheUse,
    Family::OldCacheUse,
];

impl Sample {
    /// The engine that wrote it.
    pub fn engine(&self) -> Engine {
        self.engine
    }

    /// When the process began, in seconds since the epoch, where it says so.
    pub fn process_start(&self) -> Option<f64> {
        self.process_start
    }

    /// Whether the engine has `family`: declared, or with series. A family that is declared only has the value zero.
    pub fn knows(&self, family: Family) -> bool {
        self.known.contains(family)
    }

    /// Whether `family` is known and none of its series is missing.
    pub fn has_whole(&self, family: Family) -> bool {
        self.knows(family) && !self.damaged.contains(family)
    }

    /// The gauge `family`; `None` where the engine does not have it, or not a single series of it is a number.
    pub fn gauge(&self, family: Family) -> Option<Gauge> {
        let place = GAUGES.iter().position(|gauge| *gauge == family)?;
        let gauge = *self.gauges.get(place)?;
        (self.knows(family) && (gauge.series > 0 || gauge.whole)).then_some(gauge)
    }

    /// The mean of the fraction of the KV cache in use: its sum over groups, and their number.
    pub fn cache_use(&self) -> Option<Gauge> {
        let with_series = |family| self.gauge(family).filter(|gauge| gauge.series > 0);
        with_series(Family::CacheUse).or_else(|| with_series(Family::OldCacheUse))
    }

    /// The groups that one of the two producers showed.
    pub fn groups(&self, of_scheduler: bool) -> impl Iterator<Item = u64> {
        self.groups
            .iter()
            .filter(move |group| group.0 == of_scheduler)
            .map(|group| group.1)
    }

    /// Every series that only grows, in the order of [`Point::key_cmp`].
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// The points of one part of one family.
    pub fn part(&self, family: Family, part: Part) -> &[Point] {
        let from = self
            .points
            .partition_point(|point| (point.family, point.part) < (family, part));
        let to = self
            .points
            .partition_point(|point| (point.family, point.part) <= (family, part));
        self.points.get(from..to).unwrap_or_default()
    }
}

impl Reader for Collector {
    type Name = Name;

    fn name(&mut self, name: &[u8]) -> Option<Name> {
        if name == b"process_start_time_seconds" {
            return Some(Name {
                engine: None,
                family: Family::ProcessStart,
                part: Part::Value,
            });
        }
        let (engine, rest) = Engine::of(name)?;
        self.seen_mut(engine).series = true;
        sample_name(engine, rest)
    }

    fn declared(&mut self, family: &[u8]) {
        if let Some((engine, rest)) = Engine::of(family) {
            let seen = self.seen_mut(engine);
            seen.declaration = true;
            if let Some(family) = declared_family(engine, rest) {
                seen.known.insert(family);
            }
        }
    }

    fn series(&mut self, series: Series<'_, Name>) {
        let Name {
            engine,
            family,
            part,
        } = series.name;
        let Some(of) = engine else {
            self.process_start = Some(series.value).filter(|start| start.is_finite());
            return;
        };
        let identity = match self.last {
            Some(last) if series.again => last.identity,
            _ => Identity::read(engine, family, part, series.labels),
        };
        let le = if part == Part::Bucket {
            series.le.unwrap_or(f64::NAN)
        } else {
            0.0
        };
        let entry = Entry {
            engine,
            family,
            part,
            identity,
            le,
            value: series.value,
        };
        self.last = Some(entry);
        self.seen_mut(of).known.insert(family);
        self.entries.push(entry);
    }

    fn bad(&mut self, name: Name) {
        if let Some(engine) = name.engine {
            let seen = self.seen_mut(engine);
            seen.known.insert(name.family);
            seen.damaged.insert(name.family);
        }
    }
}

impl Collector {
    fn seen_mut(&mut self, engine: Engine) -> &mut Seen {
        let [vllm, sglang] = &mut self.seen;
        match engine {
            Engine::Vllm => vllm,
            Engine::Sglang => sglang,
        }
    }

    /// Reads a body. `declared` is the engine that the target runs, where it says so: it decides between two engines
    /// in one body.
    ///
    /// # Errors
    /// Those of [`exposition::read`], `NoEngineSeries` and `TwoEngines`.
    pub fn sample(&mut self, body: &[u8], declared: Option<Engine>) -> Result<Sample, Refusal> {
        self.entries.clear();
        self.last = None;
        self.seen = <[Seen; 2]>::default();
        self.process_start = None;
        // Room for all lines at once. Pages that are not touched cost nothing.
        self.entries
            .reserve_exact(usize::try_from(exposition::MAX_SAMPLES).unwrap_or_default());
        exposition::read(body, self)?;
        let engine = self.engine(declared)?;
        Ok(self.select(engine))
    }

    fn engine(&mut self, declared: Option<Engine>) -> Result<Engine, Refusal> {
        let [vllm, sglang] = self.seen;
        let between = |vllm: bool, sglang: bool| match (vllm, sglang) {
            (true, true) => declared.ok_or(Refusal::TwoEngines),
            (true, false) => Ok(Engine::Vllm),
            (false, true) => Ok(Engine::Sglang),
            (false, false) => Err(Refusal::NoEngineSeries),
        };
        match between(vllm.series, sglang.series) {
            Err(Refusal::NoEngineSeries) => between(vllm.declaration, sglang.declaration),
            decided => decided,
        }
    }

    fn select(&mut self, engine: Engine) -> Sample {
        let Seen {
            known, mut damaged, ..
        } = *self.seen_mut(engine);
        let entries = &mut self.entries;
        entries.retain(|entry| entry.engine == Some(engine));
        // Stably: of identical series the last one counts. Bodies come in sorted runs, which such a sort is quick with.
        entries.sort_by(|a, b| {
            let key = |entry: &Entry| {
                (
                    entry.family,
                    entry.part,
                    entry.identity.group,
                    entry.identity.copy,
                    entry.identity.exact,
                )
            };
            key(a).cmp(&key(b)).then_with(|| a.le.total_cmp(&b.le))
        });
        entries.dedup_by(|next, kept| {
            let same = (next.family, next.part) == (kept.family, kept.part)
                && next.identity == kept.identity
                && next.le.total_cmp(&kept.le).is_eq();
            if same {
                *kept = *next;
            }
            same
        });
        entries.retain(|entry| {
            let number = entry.value.is_finite() && entry.value >= 0.0 && !entry.le.is_nan();
            if !number {
                damaged.insert(entry.family);
            }
            number
        });
        one_copy(entries);
        let mut groups: Vec<(bool, u64)> = Vec::with_capacity(entries.len());
        groups.extend(entries.iter().map(|entry| {
            (
                engine == Engine::Sglang && entry.family.of_scheduler(),
                entry.identity.group,
            )
        }));
        groups.sort_unstable();
        groups.dedup();
        groups.shrink_to_fit();
        Sample {
            engine,
            process_start: self.process_start,
            known,
            damaged,
            gauges: GAUGES.map(|family| gauge(entries, family, damaged)),
            groups,
            points: points(entries),
        }
    }
}

/// Keeps one copy of each group's numbers, family by family: the smallest rank. Entries are sorted.
fn one_copy(entries: &mut Vec<Entry>) {
    let mut kept: Option<Entry> = None;
    entries.retain(|entry| {
        let key = |entry: &Entry| (entry.family, entry.part, entry.identity.group);
        match kept {
            Some(first) if key(&first) == key(entry) => first.identity.copy == entry.identity.copy,
            _ => {
                kept = Some(*entry);
                true
            }
        }
    });
}

fn gauge(entries: &mut [Entry], family: Family, damaged: Families) -> Gauge {
    let from = entries.partition_point(|entry| entry.family < family);
    let to = entries.partition_point(|entry| entry.family <= family);
    let mut sum = 0.0;
    let mut series = 0;
    let entries = entries.get_mut(from..to).unwrap_or_default();
    for group in entries.chunk_by_mut(|a, b| a.identity.group == b.identity.group) {
        group.sort_unstable_by_key(|entry| entry.identity.series);
        // SGLang with priorities: the series without one is the total of the others.
        let total = group.iter().any(|entry| !entry.identity.of_priority);
        for same in group.chunk_by(|a, b| a.identity.series == b.identity.series) {
            let part_of_total = total && same.iter().all(|entry| entry.identity.of_priority);
            if !part_of_total {
                // Several API servers of one engine: all but one show zero.
                sum += same.iter().map(|entry| entry.value).fold(0.0, f64::max);
                series += 1;
            }
        }
    }
    Gauge {
        sum,
        series,
        whole: !damaged.contains(family),
    }
}

/// What only grows, in the order of [`Point::key_cmp`]: that of the entries, as each group has one copy.
fn points(entries: &[Entry]) -> Vec<Point> {
    let growing = |entry: &&Entry| entry.family.shape() != Shape::Gauge;
    let mut points = Vec::with_capacity(entries.iter().filter(growing).count());
    points.extend(entries.iter().filter(growing).map(|entry| Point {
        family: entry.family,
        part: entry.part,
        group: entry.identity.group,
        series: entry.identity.exact,
        le: entry.le,
        mode: entry.identity.mode,
        stream: entry.identity.stream,
        value: entry.value,
    }));
    points
}
