//! Small files that somebody else names.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Reads a file of at most `limit` bytes. Should the name lead to a device without end it is refused, and to
/// a pipe nobody writes to it is empty: neither memory nor time is lost.
///
/// # Errors
/// What the system says, or that the file is too long.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path)?;
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::other(format!("it is longer than {limit} bytes")));
    }
    Ok(bytes)
}

/// Reads a text file of at most `limit` bytes.
///
/// # Errors
/// As [`read`], or that it is not UTF-8.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    String::from_utf8(read(path, limit)?).map_err(|_| io::Error::other("it is not UTF-8 text"))
}

/// Makes the folder, if it is not there; its parent must be.
///
/// # Errors
/// What the system says.
pub fn make_dir(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Makes `text` the content of the file, by way of a new one beside it that takes its name, so that a reader
/// sees the old text or the new one. Whatever is in the way of the new one is removed, not followed.
///
/// # Errors
/// What the system says.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        make_dir(dir)?;
    }
    let new = path.with_extension("new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let written = OpenOptions::new().write(true).create_new(true).open(&new);
    written.and_then(|mut file| file.write_all(text.as_bytes()))?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_refused() {
        assert!(read(Path::new("/dev/zero"), 10).unwrap_err().to_string().contains("longer than 10"));
    }

    #[test]
    fn a_folder_and_a_missing_file_are_errors() {
        assert!(read(Path::new("/"), 10).is_err());
        assert!(read(Path::new("/no/such/file"), 10).is_err());
        assert_eq!(read(Path::new("/dev/null"), 10).unwrap(), b"");
    }

    #[test]
    fn what_is_in_the_way_of_the_new_file_is_not_followed() {
        let dir = std::env::temp_dir().join(format!("overlaykey-file-{}", std::process::id()));
        let path = dir.join("status.json");
        replace(&path, "one").unwrap();
        fs::write(dir.join("victim"), "safe").unwrap();
        std::os::unix::fs::symlink(dir.join("victim"), dir.join("status.new")).unwrap();
        replace(&path, "two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(fs::read_to_string(dir.join("victim")).unwrap(), "safe");
        fs::remove_dir_all(dir).unwrap();
    }
}
