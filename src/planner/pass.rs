//! One pass: from policy, target, observations and memory to a vector.

use crate::{
    algorithm::{Reason, RoleMemory, RoleView, recommend},
    api::{
        Replicas, RoleKind, Time, Vector,
        status::{IntentKind, RebalanceReason},
    },
    policy::Policy,
};

use super::{
    clock,
    cohort::{self, Standing},
    commit::{Proposal, over},
    condition::{self, ConditionReason, Verdict},
    constraint::Constraint,
    decide::{Conflict, Shape},
    guard::{self, Guards},
    history::{self, Wish},
    memory::Memory,
    rebalance::{self, Release, Search, Stand},
    retirement::{self, Abort},
    target::Target,
};

/// What a pass is given.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The checked policy.
    pub policy: &'a Policy,
    /// Generation of the scaler's spec.
    pub generation: i64,
    /// The target as it was read.
    pub target: &'a Target,
    /// What the last pass left.
    pub memory: &'a Memory,
    /// Whether the scaler owns the target: recovery runs, and a proposal is meant to be committed.
    pub owner: bool,
    /// The time.
    pub now: Time,
}

/// What a pass decides.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What to write, if anything.
    pub proposal: Option<Proposal>,
    /// One entry per role of the policy; empty when the pass ended before it judged them.
    pub roles: Vec<RolePlan>,
    /// `MetricsReady`, if this pass judged it.
    pub metrics_ready: Option<Verdict>,
    /// `Blocked`.
    pub blocked: Verdict,
    /// What the next pass needs.
    pub memory: Memory,
}

/// What a pass decides about one role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolePlan {
    /// Name of the role.
    pub name: String,
    /// The count that the algorithm asks for; `None` for a follower.
    pub raw: Option<Replicas>,
    /// The count that is left of it.
    pub constrained: Replicas,
    /// The count that it would have without steps, windows and guards.
    pub ideal: Replicas,
    /// The word in `status.roles[].reason`.
    pub reason: &'static str,
    /// What the algorithm said.
    pub advised: Reason,
    /// The step, window or guard that keeps it from its ideal count.
    pub paced_by: Option<Constraint>,
    /// No latency guards it, because none is reported.
    pub unguarded: bool,
    /// A latency that the guard needs was not read.
    pub blind: bool,
}

/// Plans one pass. Pure: the same input gives the same plan.
pub fn plan(input: &Input<'_>) -> Plan {
    let mut memory = input.memory.clone();
    clock::settle(&mut memory, input.policy, input.now);
    let names: Vec<_> = input
        .policy
        .roles
        .iter()
        .map(|role| role.name.as_str())
        .collect();
    memory.keep_roles(&names);
    let shape = Shape::new(input.policy, input.target);
    let mut expired = false;
    if input.owner {
        rebalance::end_episode(&mut memory, input.target, input.generation);
        match recover(input, shape.as_ref().ok(), &mut memory) {
            Recovery::Nothing => {}
            Recovery::Expired => expired = true,
            Recovery::Commit(proposal, blocked) => {
                return Plan {
                    proposal: Some(*proposal),
                    roles: vec![],
                    metrics_ready: None,
                    blocked,
                    memory,
                };
            }
        }
    }
    match shape.and_then(|shape| shape.check(input.target).map(|()| shape)) {
        Err(conflict) => conflicted(conflict, memory),
        Ok(shape) => Pass {
            input,
            shape,
            memory,
            expired,
        }
        .run(),
    }
}

fn conflicted(conflict: Conflict, memory: Memory) -> Plan {
    let (reason, message) = match conflict {
        Conflict::Bounds(message) => (ConditionReason::BoundsConflict, message),
        Conflict::Ratio(message) => (ConditionReason::RatioConflict, message),
    };
    let metrics_ready = Some(Verdict::unknown(
        reason,
        "signals were not judged: resolve the conflict first",
    ));
    Plan {
        proposal: None,
        roles: vec![],
        metrics_ready,
        blocked: Verdict::holds(reason, message),
        memory,
    }
}

enum Recovery {
    Nothing,
    Expired,
    Commit(Box<Proposal>, Verdict),
}

/// Recovery comes first, also while the policy conflicts: an edit in the middle of a cohort must not freeze it.
fn recover(input: &Input<'_>, shape: Option<&Shape>, memory: &mut Memory) -> Recovery {
    let Input {
        policy,
        target,
        now,
        ..
    } = *input;
    if retirement::abort(target, memory) == Some(Abort::Ours)
        && let Some(proposal) = retirement::restoration(target, memory)
    {
        let message = "a retirement aborted: the counts before it are restored, and nothing shrinks until the cooldown ends";
        return Recovery::Commit(
            Box::new(proposal),
            Verdict::holds(ConditionReason::ScaleDownAborted, message),
        );
    }
    if let Some(pending) = memory.cohort.clone() {
        match cohort::standing(&pending, target, policy, now) {
            (Standing::Waiting, _) => {}
            (Standing::Admitted, _) => cohort::admitted(memory),
            (Standing::TimedOut, admitted) => {
                match cohort::rollback(&pending, target, shape, admitted) {
                    Some(proposal) => {
                        let message = format!(
                            "added replicas were not admitted within {} s: the counts before are restored",
                            policy.pending_timeout
                        );
                        return Recovery::Commit(
                            Box::new(proposal),
                            Verdict::holds(ConditionReason::ResourceExhausted, message),
                        );
                    }
                    None => memory.cohort = None,
                }
            }
        }
    }
    let Some(transaction) = memory
        .rebalance
        .clone()
        .filter(|r| r.reason == Some(RebalanceReason::DonorRelease))
    else {
        return Recovery::Nothing;
    };
    match rebalance::release(&transaction, target, shape, policy, now) {
        Release::Waiting => Recovery::Nothing,
        Release::Idle => {
            over(memory);
            Recovery::Nothing
        }
        Release::Expired => {
            over(memory);
            Recovery::Expired
        }
        Release::Gone(proposal) => {
            let message = "a donated replica is gone: the transaction goes on";
            Recovery::Commit(
                proposal,
                Verdict::holds(ConditionReason::ResourceExhausted, message),
            )
        }
    }
}

/// A pass over a policy that fits the target, in the order of the policy's roles.
struct Pass<'a> {
    input: &'a Input<'a>,
    shape: Shape,
    memory: Memory,
    expired: bool,
}

/// What is known of a role before the vector is decided.
struct Draft {
    current: Replicas,
    advice: crate::algorithm::Recommendation,
    wish: Option<Wish>,
    guards: Guards,
    /// What the step allows, and what is left of it by the guards.
    lowest: Replicas,
    highest: Replicas,
}

impl Pass<'_> {
    fn run(mut self) -> Plan {
        let drafts = self.drafts();
        let current: Vec<Replicas> = drafts.iter().map(|draft| draft.current).collect();
        let wishes: Vec<Option<Replicas>> = drafts
            .iter()
            .map(|draft| draft.wish.map(|wish| wish.count))
            .collect();
        let raws: Vec<Option<Replicas>> = drafts.iter().map(|draft| draft.advice.raw).collect();
        let ideal = self.shape.goal(&current, &raws);
        let goal = self.shape.goal(&current, &wishes);
        let vector = self.within_allowance(&current, &goal, &drafts);
        let roles = self.report(&drafts, &ideal, &goal, &vector);
        let mut proposal = (vector != current).then(|| {
            Proposal::new(
                IntentKind::Scale,
                self.input.target.vector(),
                self.named(&vector),
            )
        });
        let searched = if proposal.is_none() {
            self.rebalance(&drafts)
        } else {
            None
        };
        let mut unable = None;
        match searched {
            Some(Search::Found(donation)) => proposal = Some(*donation),
            Some(Search::NotApplicable) => unable = Some(false),
            Some(Search::Blocked) => unable = Some(true),
            Some(Search::Content) | None => {}
        }
        if let Some(blocked) = unable {
            let reason = if blocked {
                RebalanceReason::RebalanceBlocked
            } else {
                RebalanceReason::RebalanceNotApplicable
            };
            rebalance::note(&mut self.memory, reason);
        }
        let blocked = self.blocked(&roles, unable);
        let metrics_ready = Some(condition::metrics(&roles, self.input.target));
        Plan {
            proposal,
            roles,
            metrics_ready,
            blocked,
            memory: self.memory,
        }
    }

    /// Recommends, remembers, stabilizes, and draws each role's interval.
    fn drafts(&mut self) -> Vec<Draft> {
        let Input {
            policy,
            target,
            now,
            ..
        } = *self.input;
        let found: Vec<_> = policy
            .roles
            .iter()
            .filter_map(|role| target.role(&role.name))
            .collect();
        let views: Vec<RoleView<'_>> = found
            .iter()
            // A kind that this release does not know has no demand of its own.
            .map(|role| RoleView {
                kind: role.kind.unwrap_or(RoleKind::Encode),
                current: role.count,
                seen: &role.seen,
                at: role.seen_at,
            })
            .collect();
        let remembered: Vec<RoleMemory> = found
            .iter()
            .map(|role| {
                self.memory
                    .roles
                    .get(&role.name)
                    .map(|past| past.algorithm.clone())
                    .unwrap_or_default()
            })
            .collect();
        let advice = recommend(policy, &views, &remembered, now);
        let gap = 2 * i64::from(policy.interval) + i64::from(policy.pending_timeout);
        found
            .iter()
            .zip(advice)
            .map(|(role, (advice, algorithm))| {
                let past = self.memory.roles.entry(role.name.clone()).or_default();
                past.algorithm = algorithm;
                let wish = advice.raw.map(|raw| {
                    past.history.push(now, raw, gap);
                    history::stabilize(
                        &past.history,
                        raw,
                        role.count,
                        policy.scale_up.stabilization,
                        policy.scale_down.stabilization,
                        now,
                    )
                });
                let guards = guard::guards(policy, target, role, advice, &self.memory, now);
                let up = policy.scale_up.step.of(role.count);
                let down = policy.scale_down.step.of(role.count);
                let count = i64::from(role.count);
                Draft {
                    current: role.count,
                    advice,
                    wish,
                    guards,
                    lowest: if guards.down.is_some() {
                        role.count
                    } else {
                        Replicas::saturating(count - down)
                    },
                    highest: if guards.up.is_some() {
                        role.count
                    } else {
                        Replicas::saturating(count + up)
                    },
                }
            })
            .collect()
    }

    /// The pass towards the goal; while an exhaustion lasts, no more growth than was admitted last time, but at least the
    /// smallest that the bands allow.
    fn within_allowance(
        &self,
        current: &[Replicas],
        goal: &[Replicas],
        drafts: &[Draft],
    ) -> Vec<Replicas> {
        let lowest: Vec<Replicas> = drafts.iter().map(|draft| draft.lowest).collect();
        let highest: Vec<Replicas> = drafts.iter().map(|draft| draft.highest).collect();
        let full = self.shape.pass(current, goal, &lowest, &highest);
        let Some(exhaustion) = &self.memory.exhaustion else {
            return full;
        };
        let allowed = cohort::allowance(exhaustion.admitted);
        if growth(current, &full) <= allowed {
            return full;
        }
        let capped = |cap: i64| {
            let highest: Vec<Replicas> = current
                .iter()
                .zip(&highest)
                .map(|(&c, &h)| h.min(Replicas::saturating(i64::from(c) + cap)))
                .collect();
            self.shape.pass(current, goal, &lowest, &highest)
        };
        // Growth rises with the cap: the largest that is allowed, else the smallest that there is.
        let mut best = None;
        for cap in 1..=i64::from(Replicas::MAX) {
            let vector = capped(cap);
            let grown = growth(current, &vector);
            if grown > allowed {
                return best.unwrap_or(vector);
            }
            if grown > 0 {
                best = Some(vector);
            }
        }
        best.unwrap_or(full)
    }

    fn named(&self, vector: &[Replicas]) -> Vector {
        let mut named = self.input.target.vector();
        named.extend(
            self.input
                .policy
                .roles
                .iter()
                .zip(vector)
                .map(|(role, &count)| (role.name.clone(), count)),
        );
        named
    }

    fn report(
        &self,
        drafts: &[Draft],
        ideal: &[Replicas],
        goal: &[Replicas],
        vector: &[Replicas],
    ) -> Vec<RolePlan> {
        drafts
            .iter()
            .enumerate()
            .map(|(index, draft)| {
                let (reason, paced_by) = self.decided(index, draft, goal[index], vector[index]);
                RolePlan {
                    name: self.input.policy.roles[index].name.clone(),
                    raw: draft.advice.raw,
                    constrained: vector[index],
                    ideal: ideal[index],
                    reason: reason.map_or(draft.advice.reason.as_str(), Constraint::as_str),
                    advised: draft.advice.reason,
                    paced_by,
                    unguarded: draft.advice.unguarded,
                    blind: draft.advice.blind,
                }
            })
            .collect()
    }

    /// The constraint that changed the count last, on its way from the raw count to the vector, and the last one of those
    /// that are a step, a window or a guard. A hold of the algorithm keeps the algorithm's own reason.
    fn decided(
        &self,
        index: usize,
        draft: &Draft,
        goal: Replicas,
        decided: Replicas,
    ) -> (Option<Constraint>, Option<Constraint>) {
        let (mut reason, mut paced) = (None, None);
        let mut count = draft.advice.raw.unwrap_or(goal);
        if let Some(wish) = draft.wish {
            if wish.delayed {
                let word = if count > wish.count {
                    Constraint::StabilizingUp
                } else {
                    Constraint::StabilizingDown
                };
                (reason, paced) = (Some(word), Some(word));
            }
            count = wish.count;
            let (low, high) = self.shape.bounds(index);
            if count > high || count < low {
                reason = Some(if count > high {
                    Constraint::BoundedByMax
                } else {
                    Constraint::BoundedByMin
                });
                count = count.clamp(low, high);
            }
            if count != goal {
                reason = Some(Constraint::RatioBand);
            }
        }
        count = goal;
        let reached = count.clamp(draft.lowest, draft.highest);
        if reached != count {
            let guard = if count > reached {
                draft.guards.up
            } else {
                draft.guards.down
            };
            let word = guard.unwrap_or(Constraint::StepLimited);
            paced = Some(word);
            reason = if word == Constraint::Held {
                None
            } else {
                Some(word)
            };
            count = reached;
        }
        if count != decided {
            // A neighbour that is paced, or the allowance of an exhaustion, holds this role too.
            let word = if self.memory.exhaustion.is_some() && decided < count {
                Constraint::ExhaustionBackoff
            } else {
                Constraint::RatioBand
            };
            reason = Some(word);
            paced = Some(word);
        }
        (reason, paced)
    }

    fn rebalance(&self, drafts: &[Draft]) -> Option<Search> {
        let Input {
            policy,
            target,
            owner,
            ..
        } = *self.input;
        let open = self.memory.exhaustion.is_some()
            && self.memory.cohort.is_none()
            && !guard::under_way(&self.memory);
        if !owner
            || !open
            || self.expired
            || policy.rebalance == crate::policy::RebalanceOrder::Disabled
        {
            return None;
        }
        let stands: Vec<Stand> = drafts
            .iter()
            .map(|draft| Stand {
                wish: draft.wish.map_or(draft.current, |wish| wish.count),
                may_grow: !policy.scale_up.step.is_zero(),
                may_shrink: !policy.scale_down.step.is_zero() && draft.guards.down.is_none(),
                strained: matches!(
                    draft.advice.reason,
                    Reason::Panic | Reason::LatencyGuardScaleUp | Reason::LatencyGuardHold
                ),
            })
            .collect();
        Some(rebalance::search(
            policy,
            target,
            &self.shape,
            &self.memory,
            &stands,
        ))
    }

    /// The first that applies, in the order of the conditions' table.
    fn blocked(&self, roles: &[RolePlan], unable: Option<bool>) -> Verdict {
        let Input {
            policy,
            target,
            now,
            ..
        } = *self.input;
        if retirement::abort(target, &self.memory) == Some(Abort::Foreign)
            && let Some(abort) = &target.retirement
        {
            let message = format!(
                "a retirement of {} ordinal {} that is not this scaler's aborted: suspend the scaler, declare {} replicas, resume",
                abort.role,
                abort.ordinal,
                abort.ordinal + 1
            );
            return Verdict::holds(ConditionReason::ScaleDownAborted, message);
        }
        if guard::cools_down(policy, &self.memory, now) {
            let until = self
                .memory
                .last_scale_down
                .as_ref()
                .and_then(|last| last.cooldown_until);
            let message = until.map_or_else(String::new, |until| {
                format!("a retirement aborted and was restored: nothing shrinks before {until}")
            });
            return Verdict::holds(ConditionReason::ScaleDownAborted, message);
        }
        if self.expired {
            let message =
                "a donated replica did not go in time: it stays released, and growth is free again";
            return Verdict::holds(ConditionReason::RebalanceBlocked, message);
        }
        if let Some(blocked) = unable {
            return condition::unable(policy, blocked);
        }
        if let Some(exhaustion) = &self.memory.exhaustion {
            let message = format!(
                "added replicas found no resources {} time(s): the next attempt is due at {}, with up to {} replica(s) at first; free resources or quota",
                exhaustion.attempts,
                exhaustion.next_attempt_at,
                cohort::allowance(exhaustion.admitted)
            );
            return Verdict::holds(ConditionReason::ResourceExhausted, message);
        }
        condition::paced(roles).unwrap_or_else(|| {
            Verdict::fails(ConditionReason::Ready, "nothing holds the recommendation")
        })
    }
}

fn growth(current: &[Replicas], vector: &[Replicas]) -> i64 {
    current
        .iter()
        .zip(vector)
        .map(|(&from, &to)| (i64::from(to) - i64::from(from)).max(0))
        .sum()
}
