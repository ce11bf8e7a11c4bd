//! The commands of the binary, one file each.

pub(crate) mod test;
