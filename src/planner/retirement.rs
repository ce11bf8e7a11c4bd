//! Aborted retirements: the counts before the shrink return.

use crate::api::{
    Replicas, Vector,
    status::{IntentKind, LastScaleDown, RetirementRef},
};

use super::{
    commit::Proposal,
    memory::{Memory, count_in},
    target::{Retirement, Target},
};

/// An aborted retirement that stands in the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Abort {
    /// It followed a commit of this scaler: its ordinal must be declared again.
    Ours,
    /// Somebody else removed the instance: it blocks shrinking until they declare it again.
    Foreign,
}

/// Whose abort stands in the target, if one does. One whose ordinal is declared again is nobody's: the target's operator
/// clears it.
///
/// It is ours when it began at or after our first commit under this binding; later commits do not take that away.
pub(super) fn abort(target: &Target, memory: &Memory) -> Option<Abort> {
    let retirement = target
        .retirement
        .as_ref()
        .filter(|retirement| retirement.aborted)?;
    let role = target.role(&retirement.role)?;
    if retirement.ordinal < u32::from(role.count.get()) {
        return None;
    }
    let since = memory.first_commit_generation.zip(retirement.generation);
    Some(if since.is_some_and(|(first, began)| began >= first) {
        Abort::Ours
    } else {
        Abort::Foreign
    })
}

/// The write that declares an aborted ordinal again.
///
/// Within what the last shrink removed, each role that it lowered returns to its count before, and no other role moves.
/// Otherwise (a rollback's own retirement aborted) that role alone returns.
pub(super) fn restoration(target: &Target, memory: &Memory) -> Option<Proposal> {
    let retirement = target.retirement.as_ref()?;
    let current = target.vector();
    let mut vector = current.clone();
    match memory
        .last_scale_down
        .as_ref()
        .filter(|last| removed(last, retirement))
    {
        Some(last) => {
            for (name, &before) in &last.pre_scale_down_vector {
                let lowered = count_in(&last.vector, name).is_some_and(|after| after < before);
                raise(&mut vector, name, before, lowered);
            }
        }
        None => raise(
            &mut vector,
            &retirement.role,
            Replicas::saturating(i64::from(retirement.ordinal) + 1),
            true,
        ),
    }
    if vector == current {
        return None;
    }
    let mut proposal = Proposal::new(IntentKind::Restore, current, vector);
    proposal.retirement = Some(RetirementRef {
        role: retirement.role.clone(),
        ordinal: i32::try_from(retirement.ordinal).unwrap_or(i32::MAX),
        started_at: retirement.started_at,
    });
    Some(proposal)
}

fn raise(vector: &mut Vector, role: &str, count: Replicas, applies: bool) {
    if let Some(current) = vector.get_mut(role).filter(|_| applies) {
        *current = (*current).max(count);
    }
}

/// Whether the last shrink removed this ordinal.
fn removed(last: &LastScaleDown, retirement: &Retirement) -> bool {
    let range = count_in(&last.vector, &retirement.role)
        .zip(count_in(&last.pre_scale_down_vector, &retirement.role));
    range.is_some_and(|(after, before)| {
        (u32::from(after.get())..u32::from(before.get())).contains(&retirement.ordinal)
    })
}
