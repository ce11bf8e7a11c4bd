//! Writing a directory of files the way the kubelet writes a Secret: all of them change at once, or none.
//!
//! ```text
//! tls.crt -> ..data/tls.crt      ..data -> ..1796134262000000000      ..1796134262000000000/tls.crt
//! ```
//!
//! A new folder is filled, then the link `..data` is renamed over the old one. A reader that follows `..data` once sees
//! one revision whole.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;

const DATA: &str = "..data";

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// Its owner: mode 0600.
    Owner,
    /// Everybody: mode 0644.
    All,
}

/// A file of a revision.
#[derive(Clone, Copy, Debug)]
pub struct File<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it holds.
    pub content: &'a [u8],
    /// Who may read it.
    pub readers: Readers,
}

/// Replaces the revision in `directory`, which is made when it is not there, by `files`. `revision` names the new folder
/// and must never have been used there; the time in nanoseconds does.
pub fn write(directory: &Path, revision: u128, files: &[File<'_>]) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let data = directory.join(DATA);
    let before = fs::read_link(&data).ok();

    let folder = format!("..{revision}");
    let full = directory.join(&folder);
    fs::create_dir(&full)?;
    fs::set_permissions(&full, Permissions::from_mode(0o755))?;
    for file in files {
        let mode = match file.readers {
            Readers::Owner => 0o600,
            Readers::All => 0o644,
        };
        // The mode is given at creation: a key is never readable, not even for a moment.
        let mut opened = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(full.join(file.name))?;
        opened.write_all(file.content)?;
        opened.sync_all()?;
    }
    let link = directory.join("..data_next");
    remove(&link)?;
    symlink(&folder, &link)?;
    fs::rename(&link, &data)?;
    for file in files {
        let name = directory.join(file.name);
        let target = Path::new(DATA).join(file.name);
        if fs::read_link(&name).is_ok_and(|found| found == target) {
            continue;
        }
        // Made beside and renamed, so that a plain file of the same name is replaced in one step.
        let next = directory.join(format!("..{}_next", file.name));
        remove(&next)?;
        symlink(&target, &next)?;
        fs::rename(&next, &name)?;
    }
    match before {
        // Only folders of this form are ours to remove.
        Some(before)
            if before.as_os_str() != folder.as_str() && before.components().count() == 1 =>
        {
            fs::remove_dir_all(directory.join(before))
        }
        _ => Ok(()),
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file<'a>(name: &'a str, content: &'a [u8], readers: Readers) -> File<'a> {
        File {
            name,
            content,
            readers,
        }
    }

    #[test]
    fn a_second_revision_replaces_the_first_and_removes_it() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("tls");
        write(&directory, 1, &[file("a", b"one", Readers::All)]).unwrap();
        write(
            &directory,
            2,
            &[
                file("a", b"two", Readers::All),
                file("b", b"new", Readers::Owner),
            ],
        )
        .unwrap();
        assert_eq!(fs::read(directory.join("a")).unwrap(), b"two");
        assert_eq!(fs::read(directory.join("b")).unwrap(), b"new");
        assert_eq!(
            fs::read_link(directory.join("..data")).unwrap(),
            Path::new("..2")
        );
        assert!(!directory.join("..1").exists());
        assert_eq!(
            fs::metadata(directory.join("b"))
                .unwrap()
                .permissions()
                .mode()
                & 0o777,
            0o600
        );
        assert_eq!(
            fs::metadata(directory.join("a"))
                .unwrap()
                .permissions()
                .mode()
                & 0o777,
            0o644
        );
    }

    #[test]
    fn a_plain_file_of_the_same_name_becomes_a_link() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("a"), "plain").unwrap();
        write(home.path(), 1, &[file("a", b"one", Readers::All)]).unwrap();
        assert_eq!(fs::read(home.path().join("a")).unwrap(), b"one");
        assert_eq!(
            fs::read_link(home.path().join("a")).unwrap(),
            Path::new("..data/a")
        );
    }

    #[test]
    fn a_revision_is_never_written_twice() {
        let home = tempfile::tempdir().unwrap();
        write(home.path(), 1, &[file("a", b"one", Readers::All)]).unwrap();
        let again = write(home.path(), 1, &[file("a", b"two", Readers::All)]).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(home.path().join("a")).unwrap(), b"one");
    }
}
