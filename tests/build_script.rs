//! The build script never fails, and says as much as it can know.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::dir::Dir;

/// Runs build.rs in `tree` with nothing in its environment but `vars`; gives back the version line and the clock floor.
fn version(program: &Path, tree: &Path, vars: &[(&str, &str)]) -> (String, u64) {
    let path = std::env::var_os("PATH").expect("a PATH");
    let mut command = Command::new(program);
    command.current_dir(tree).env_clear().env("PATH", path).env("TARGET", "t").env("CARGO_PKG_VERSION", "9.8.7");
    let output = command.envs(vars.iter().copied()).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).expect("UTF-8");
    let value = |name: &str| {
        let prefix = format!("cargo:rustc-env={name}=");
        said.lines()
            .find_map(|line| line.strip_prefix(&prefix))
            .unwrap_or_else(|| panic!("{name} in {said}"))
            .to_owned()
    };
    (value("OVERLAYKEY_VERSION"), value("OVERLAYKEY_CLOCK_FLOOR").parse().expect("seconds"))
}

fn git(tree: &Path, args: &[&str]) {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=n", "-c", "user.email=e@example.org"]).args(args).current_dir(tree);
    command.env("GIT_COMMITTER_DATE", "@1700000000 +0000").env("GIT_AUTHOR_DATE", "@1700000000 +0000");
    assert!(command.output().expect("git").status.success(), "{args:?}");
}

#[test]
fn it_never_fails() {
    let dir = Dir::new();
    let program = dir.path("build");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("build.rs");
    let rustc = Command::new("rustc").args(["--edition=2024", "-o"]).arg(&program).arg(&source).output();
    assert!(rustc.expect("rustc").status.success());
    let tree = dir.path("tree");
    fs::create_dir(&tree).expect("a folder");

    // A tarball: neither git nor a date; the clock of this machine is all there is.
    let (line, floor) = version(&program, &tree, &[]);
    assert!(line.starts_with("overlaykey 9.8.7 (t, git unknown, 20"), "{line}");
    assert!(floor > 1_700_000_000, "{floor}");

    // A tarball that says what it is.
    let told = [("SOURCE_DATE_EPOCH", "951782400"), ("OVERLAYKEY_REV", "v9")];
    let expected = ("overlaykey 9.8.7 (t, git v9, 2000-02-29)".to_owned(), 951_782_400);
    assert_eq!(version(&program, &tree, &told), expected);
    for broken in ["", "soon", "-1"] {
        let (line, _) = version(&program, &tree, &[("SOURCE_DATE_EPOCH", broken)]);
        assert!(line.contains("git unknown, 20"), "{broken}: {line}");
    }

    // A clone: the commit's own date, so that the same commit gives the same binary.
    git(&tree, &["init", "-q"]);
    git(&tree, &["commit", "-q", "--allow-empty", "-m", "m"]);
    let (line, floor) = version(&program, &tree, &[]);
    assert!(line.starts_with("overlaykey 9.8.7 (t, git ") && line.ends_with(", 2023-11-14)"), "{line}");
    assert!(!line.contains("unknown"), "{line}");
    assert_eq!(floor, 1_700_000_000);
    assert_eq!(version(&program, &tree, &told), expected, "what is told outweighs git");
}
