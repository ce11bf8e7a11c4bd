//! The commands of the binary, one file each.

pub(crate) mod run;
pub(crate) mod signals;
pub(crate) mod test;
