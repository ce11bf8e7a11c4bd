//! Shows each request as it is sent and each answer as it comes back, and checks that it is the promised one.

use crate::cluster::{Answer, Cluster, Patch};
use anyhow::{Context, bail};
use serde_json::Value;
use std::io::Write;

/// Somebody who sends requests.
#[derive(Clone, Debug)]
pub struct Speaker {
    /// What the tour calls them.
    pub name: &'static str,
    /// The cluster as they see it.
    pub cluster: Cluster,
}

/// What is asked of an object.
#[derive(Clone, Copy, Debug)]
pub enum Ask<'a> {
    /// It is created.
    Create,
    /// It is applied, server-side.
    Apply,
    /// It is changed.
    Change(Patch, &'a Value),
    /// Its status is changed.
    ChangeStatus(&'a Value),
    /// It is deleted.
    Delete,
}

/// Tells the tour.
pub struct Teller<'a> {
    out: &'a mut (dyn Write + Send),
    colour: bool,
    steps: u32,
    checks: u32,
}

impl<'a> Teller<'a> {
    /// Tells it to `out`, in colour or not.
    pub fn new(out: &'a mut (dyn Write + Send), colour: bool) -> Self {
        Self {
            out,
            colour,
            steps: 0,
            checks: 0,
        }
    }

    /// How many answers were checked.
    pub fn checks(&self) -> u32 {
        self.checks
    }

    /// Begins a step.
    pub fn step(&mut self, title: &str) -> anyhow::Result<()> {
        self.steps += 1;
        let line = format!("{}. {title}", self.steps);
        let line = self.paint("1", &line);
        writeln!(self.out, "\n{line}")?;
        Ok(())
    }

    /// Says something in between.
    pub fn say(&mut self, text: &str) -> anyhow::Result<()> {
        writeln!(self.out)?;
        for line in text.lines() {
            writeln!(self.out, "   {line}")?;
        }
        Ok(())
    }

    /// Sends a request and shows both sides; of an object that comes back, the parts at these pointers.
    pub async fn ask(
        &mut self,
        speaker: &Speaker,
        object: &Value,
        ask: Ask<'_>,
        parts: &[&str],
    ) -> anyhow::Result<Answer> {
        let cluster = &speaker.cluster;
        let at = match ask {
            Ask::Create => cluster.collection(object).await?,
            Ask::ChangeStatus(_) => format!("{}/status", cluster.path(object).await?),
            _ => cluster.path(object).await?,
        };
        let (verb, body) = match ask {
            Ask::Create => ("POST", Some(object)),
            Ask::Apply => ("PATCH (server-side apply)", Some(object)),
            Ask::Change(Patch::Merge, patch) => ("PATCH (merge)", Some(patch)),
            Ask::Change(_, patch) | Ask::ChangeStatus(patch) => ("PATCH (JSON patch)", Some(patch)),
            Ask::Delete => ("DELETE", None),
        };
        let request = self.paint("36", &format!("{} > {verb} {at}", speaker.name));
        writeln!(self.out, "\n   {request}")?;
        if let Some(body) = body {
            self.yaml(body)?;
        }
        let answer = match ask {
            Ask::Create => cluster.send("POST", &at, Some(object)).await?,
            Ask::Apply => cluster.patch_at(&at, Patch::Apply, object).await?,
            Ask::Change(kind, patch) => cluster.patch_at(&at, kind, patch).await?,
            Ask::ChangeStatus(patch) => cluster.patch_at(&at, Patch::Json, patch).await?,
            Ask::Delete => cluster.send("DELETE", &at, None).await?,
        };
        self.answer(&answer, parts)?;
        Ok(answer)
    }

    fn answer(&mut self, answer: &Answer, parts: &[&str]) -> anyhow::Result<()> {
        for warning in &answer.warnings {
            let line = self.paint("33", &format!("< Warning: {warning}"));
            writeln!(self.out, "   {line}")?;
        }
        if answer.is_success() {
            let line = self.paint("32", &format!("< {}", answer.status));
            writeln!(self.out, "   {line}")?;
            for part in parts {
                let value = answer
                    .body
                    .pointer(part)
                    .with_context(|| format!("the answer has no {part}"))?;
                let name = part.rsplit('/').next().unwrap_or(part).replace("~1", "/");
                self.yaml(&Value::Object(
                    [(name, value.clone())].into_iter().collect(),
                ))?;
            }
            return Ok(());
        }
        let line = self.paint("31", &format!("< {} {}", answer.status, answer.reason()));
        writeln!(self.out, "   {line}")?;
        let causes = answer.causes();
        if causes.is_empty() {
            self.lines(answer.message())?;
        }
        for cause in causes {
            self.lines(&format!("{}: {}", cause.field, cause.message))?;
        }
        Ok(())
    }

    /// Checks a promise; a broken one ends the tour.
    pub fn check(&mut self, kept: bool, promise: &str) -> anyhow::Result<()> {
        if !kept {
            bail!("step {}: not so: {promise}", self.steps);
        }
        self.checks += 1;
        let line = self.paint("32", &format!("ok: {promise}"));
        writeln!(self.out, "   {line}")?;
        Ok(())
    }

    /// Checks a refusal by its code and its word.
    pub fn refused(&mut self, answer: &Answer, code: u16, reason: &str) -> anyhow::Result<()> {
        let found = format!("{} {}", answer.status, answer.reason());
        if found != format!("{code} {reason}") {
            bail!(
                "step {}: expected {code} {reason}, got {found} {}",
                self.steps,
                answer.message()
            );
        }
        self.check(true, &format!("refused as {reason}"))
    }

    /// Checks that a request was carried out.
    pub fn done(&mut self, answer: Answer, promise: &str) -> anyhow::Result<Value> {
        let step = self.steps;
        let object = answer
            .ok()
            .with_context(|| format!("step {step}: {promise}"))?;
        self.check(true, promise)?;
        Ok(object)
    }

    fn yaml(&mut self, value: &Value) -> anyhow::Result<()> {
        let text = serde_saphyr::to_string(value)?;
        self.lines(text.trim_end())
    }

    fn lines(&mut self, text: &str) -> anyhow::Result<()> {
        for line in text.lines() {
            writeln!(self.out, "     {line}")?;
        }
        Ok(())
    }

    fn paint(&self, colour: &str, text: &str) -> String {
        if self.colour {
            format!("\u{1b}[{colour}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }
}
