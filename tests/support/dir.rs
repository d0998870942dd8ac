//! A folder of a test's own, gone with the test.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process};

/// A temporary folder, removed when dropped.
pub struct Dir(PathBuf);

impl Dir {
    /// Makes a folder that no other test of this or another run has.
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("overlaykey-test-{}-{number}", process::id()));
        fs::create_dir_all(&path).expect("a temporary folder");
        Self(path)
    }

    /// The path of `name` in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.0
    }

    /// Writes a file at once: a reader finds the old text or the new one, never half of either.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let (path, draft) = (self.path(name), self.path(&format!("{name}.draft")));
        fs::write(&draft, text).expect("write a draft");
        fs::rename(&draft, &path).expect("put it in place");
        path
    }

    /// A file's text; none if it is not there.
    pub fn read(&self, name: &str) -> Option<String> {
        let bytes = fs::read(self.path(name)).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        if env::var_os("OVERLAYKEY_TEST_KEEP").is_none() {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}
