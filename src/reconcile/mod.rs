//! The companion reconciler: observes, plans and commits through the fence.
