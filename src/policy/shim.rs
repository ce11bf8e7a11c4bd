use super::*; use crate::api::*; use serde_json::value::RawValue;
#[derive(Debug, Clone)] pub struct TargetShape { pub name: String, pub roles: Vec<TargetRole> }
#[derive(Debug, Clone)] pub struct TargetRole { pub name: String, pub kind: Option<RoleKind>, pub size: u32, pub count: Replicas, pub command: bool, pub elastic: bool, pub instance_type: Option<String> }
#[derive(Debug, Clone)] pub struct Reading { pub spec: ScalerSpec, pub faults: Vec<Fault> }
pub fn read(s: &RawValue) -> Reading { Reading { spec: serde_json::from_str(s.get()).unwrap_or_default(), faults: vec![] } }
pub fn check(r: &Reading) -> Result<Policy, Vec<Fault>> { Err(r.faults.clone()) }
pub fn fit(_: &Reading, _: &TargetShape) -> Vec<Fault> { vec![] }
