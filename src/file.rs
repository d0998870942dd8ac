//! Reading small files that somebody else names.

use std::fs::OpenOptions;
use std::io::{self, Read};
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
}
