//! The latency guard: what p95 latencies say about growing and shrinking.

use crate::{
    api::{RoleKind, quantity::Nanos},
    policy::TokenPolicy,
    signal::{Latency, Observation},
};

use super::number::above;

/// Growth is asked for above this multiple of a target.
const SCALE_UP: f64 = 1.2;

/// A latency over its target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Breach {
    /// At most the target.
    #[default]
    None,
    /// Above the target: no shrinking.
    Hold,
    /// Above 1.2 times the target: one replica more.
    ScaleUp,
}

/// What the guard says of a role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    /// The larger relative breach of the latencies that guard the role's kind.
    pub breach: Breach,
    /// A latency is not known although there is work: no shrinking.
    pub blind: bool,
    /// No latency guards this role, because neither it nor the target's Decode role reports one.
    pub off: bool,
}

impl Guard {
    /// Whether the guard forbids shrinking.
    pub const fn holds(self) -> bool {
        self.blind || !matches!(self.breach, Breach::None)
    }

    /// Judges a role: TTFT guards Prefill, ITL guards Decode, both guard Server, nothing guards Encode.
    ///
    /// `pair` is the target's Decode role, whose TTFT stands in for that of an SGLang Prefill engine, which has none.
    pub fn judge(
        kind: RoleKind,
        seen: &Observation,
        pair: Option<&Observation>,
        policy: &TokenPolicy,
    ) -> Self {
        let mut guard = Self::default();
        if matches!(kind, RoleKind::Prefill | RoleKind::Server) {
            let ttft = match (seen.ttft, pair) {
                (Latency::Unreported, Some(decode)) => decode.ttft,
                (own, _) => own,
            };
            guard.read(ttft, policy.ttft_target);
        }
        if matches!(kind, RoleKind::Decode | RoleKind::Server) {
            guard.read(seen.itl, policy.itl_target);
        }
        guard
    }

    fn read(&mut self, latency: Latency, target: Nanos) {
        match latency {
            Latency::Unreported => self.off = true,
            Latency::Missing => self.blind = true,
            Latency::Idle => {}
            Latency::P95(value) => {
                let target = target.to_f64();
                let breach = if above(value.get(), SCALE_UP * target) {
                    Breach::ScaleUp
                } else if above(value.get(), target) {
                    Breach::Hold
                } else {
                    Breach::None
                };
                self.breach = self.breach.max(breach);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{algorithm::recommend::tests::token_policy, signal::Milliseconds};

    fn p95(ms: f64) -> Latency {
        Latency::P95(Milliseconds::new(ms).unwrap())
    }

    fn seen(ttft: Latency, itl: Latency) -> Observation {
        Observation {
            ttft,
            itl,
            ..Observation::default()
        }
    }

    #[test]
    fn one_and_six_fifths_of_the_target_are_not_above() {
        let policy = token_policy();
        for (ms, breach) in [
            (500.0, Breach::None),
            (500.1, Breach::Hold),
            (600.0, Breach::Hold),
            (600.1, Breach::ScaleUp),
        ] {
            let guard = Guard::judge(
                RoleKind::Prefill,
                &seen(p95(ms), Latency::Missing),
                None,
                &policy,
            );
            assert_eq!(
                guard,
                Guard {
                    breach,
                    ..Guard::default()
                },
                "{ms} ms to the first token"
            );
        }
        for (ms, breach) in [
            (50.0, Breach::None),
            (60.0, Breach::Hold),
            (60.1, Breach::ScaleUp),
        ] {
            let guard = Guard::judge(
                RoleKind::Decode,
                &seen(Latency::Missing, p95(ms)),
                None,
                &policy,
            );
            assert_eq!(guard.breach, breach, "{ms} ms between tokens");
        }
    }

    #[test]
    fn a_server_takes_the_larger_breach_of_both() {
        let guard = Guard::judge(
            RoleKind::Server,
            &seen(p95(510.0), p95(61.0)),
            None,
            &token_policy(),
        );
        assert_eq!(guard.breach, Breach::ScaleUp);
        let guard = Guard::judge(
            RoleKind::Server,
            &seen(p95(700.0), Latency::Missing),
            None,
            &token_policy(),
        );
        assert_eq!((guard.breach, guard.blind), (Breach::ScaleUp, true));
    }

    #[test]
    fn an_idle_role_is_a_measured_zero_and_holds_nothing() {
        assert!(
            !Guard::judge(
                RoleKind::Server,
                &seen(Latency::Idle, Latency::Idle),
                None,
                &token_policy()
            )
            .holds()
        );
        assert!(
            Guard::judge(
                RoleKind::Server,
                &seen(Latency::Idle, Latency::Missing),
                None,
                &token_policy()
            )
            .holds()
        );
    }

    #[test]
    fn an_sglang_prefill_is_guarded_by_the_pair_or_not_at_all() {
        let decode = seen(p95(700.0), p95(1.0));
        let prefill = seen(Latency::Unreported, Latency::Missing);
        assert_eq!(
            Guard::judge(RoleKind::Prefill, &prefill, Some(&decode), &token_policy()).breach,
            Breach::ScaleUp
        );
        let alone = Guard::judge(RoleKind::Prefill, &prefill, None, &token_policy());
        assert!(alone.off && !alone.holds());
    }
}
