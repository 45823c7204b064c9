use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

use super::*;

const NAME: &str = "00000000.x";

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Gives a file or folder to another user; only root may, elsewhere a test goes on without.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn give_away(path: &Path) -> bool {
    let is_given = chown(path, Some(65534), None).is_ok();
    if !is_given {
        eprintln!("skipped: only root gives files to other users");
    }
    is_given
}

#[track_caller]
fn is_distrusted(path: &Path, reason: &str) {
    for error in [PrivateFolder::open(path).unwrap_err(), PrivateFolder::create(path).unwrap_err()] {
        assert!(error.get_ref().is_some_and(|cause| cause.is::<Untrusted>()), "{error}");
        let message = error.to_string();
        assert!(message.contains(reason) && message.contains("FUSEWRIGHT_CACHE_DIR"), "{message}");
    }
    assert!(PrivateFolder::open_if_private(path).is_none());
}

#[test]
fn folders_are_made_for_their_user_alone() {
    let folder = tempfile::tempdir().unwrap();
    let made = PrivateFolder::create(&folder.path().join("a/b")).unwrap();
    made.create_subfolder("c").unwrap();
    made.create_subfolder("c").unwrap();
    made.write(NAME, b"content").unwrap();
    let modes = ["a", "a/b", "a/b/c"].map(|path| mode(&folder.path().join(path)));
    assert_eq!(modes, [0o700; 3]);
    assert_eq!(mode(&made.path().join(NAME)), 0o600);
    assert_eq!(made.read(NAME, 7), Some(Ok(b"content".to_vec())));
    assert_eq!(fs::read_dir(made.path()).unwrap().count(), 2, "nothing unfinished is left");
}

#[test]
fn a_folder_that_others_may_write_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    for shared in [0o777, 0o1777, 0o2770, 0o720, 0o702] {
        set_mode(folder.path(), shared);
        is_distrusted(folder.path(), &format!("mode {shared:04o}"));
    }
    for private in [0o700, 0o755, 0o500] {
        set_mode(folder.path(), private);
        PrivateFolder::open(folder.path()).unwrap();
    }
    let outer = PrivateFolder::open(folder.path()).unwrap();
    fs::create_dir(folder.path().join("shared")).unwrap();
    set_mode(&folder.path().join("shared"), 0o770);
    assert!(outer.subfolder("shared").is_err() && outer.create_subfolder("shared").is_err());
}

#[test]
fn a_folder_of_another_user_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    if give_away(folder.path()) {
        is_distrusted(folder.path(), "belongs to user 65534, not to user 0");
    }
}

#[test]
fn only_private_files_are_read() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = PrivateFolder::open(temporary.path()).unwrap();
    let path = temporary.path().join(NAME);
    let refused = || folder.read(NAME, 100).unwrap().unwrap_err();
    assert_eq!(folder.read(NAME, 100), None);

    fs::write(&path, "content").unwrap();
    set_mode(&path, 0o644);
    assert_eq!(folder.read(NAME, 100), Some(Ok(b"content".to_vec())));
    assert_eq!(folder.read(NAME, 6), Some(Err("is no file of ours".to_owned())), "it is longer");
    for shared in [0o620, 0o602] {
        set_mode(&path, shared);
        assert!(refused().contains(&format!("mode {shared:04o}")), "{}", refused());
    }
    set_mode(&path, 0o600);
    if give_away(&path) {
        assert!(refused().contains("belongs to user 65534"), "{}", refused());
    }

    let target = temporary.path().join("target");
    fs::rename(&path, &target).unwrap();
    symlink(&target, &path).unwrap();
    assert_eq!(refused(), "is a link");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert_eq!(refused(), "is no file of ours");
    assert!(folder.write(NAME, b"content").is_err());
    assert_eq!(folder.names(|name| is_ours(name, 8, UNFINISHED)).unwrap(), [] as [&str; 0]);
}

#[test]
fn a_pipe_does_not_block() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = PrivateFolder::open(temporary.path()).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(temporary.path().join(NAME)).status().unwrap().success());
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(folder.read(NAME, 100)));
    let read = is_done.recv_timeout(Duration::from_secs(10));
    assert_eq!(read, Ok(Some(Err("is no file of ours".to_owned()))));
}

/// Who may write the folder above can put another in its place, but not between the look and the use.
#[test]
fn what_was_looked_at_is_what_is_used() {
    let above = tempfile::tempdir().unwrap();
    let path = above.path().join("cache");
    let folder = PrivateFolder::create(&path).unwrap();
    folder.write(NAME, b"ours").unwrap();
    fs::rename(&path, above.path().join("away")).unwrap();
    fs::create_dir(&path).unwrap();
    fs::write(path.join(NAME), "planted").unwrap();
    assert_eq!(folder.read(NAME, 100), Some(Ok(b"ours".to_vec())));
    assert_eq!(fs::read(folder.path_to_load(NAME)).unwrap(), b"ours");
    folder.remove(NAME).unwrap();
    assert_eq!(fs::read(path.join(NAME)).unwrap(), b"planted");
}

/// Writes a file of 4,000 bytes that was used so many hours ago, without asking for its place.
fn add(folder: &PrivateFolder, name: &str, hours: u64) {
    fs::write(folder.path().join(name), [1; 4000]).unwrap();
    let used = SystemTime::now() - Duration::from_secs(3600 * hours);
    let times = fs::FileTimes::new().set_accessed(used).set_modified(used - Duration::from_secs(60));
    File::options().write(true).open(folder.path().join(name)).unwrap().set_times(times).unwrap();
}

#[test]
fn over_the_limit_the_oldest_go() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = PrivateFolder::open(temporary.path()).unwrap();
    let names = |extension: &str| {
        let mut names = folder.names(|name| name.ends_with(extension)).unwrap();
        names.sort();
        names
    };
    for (number, hours) in [(1, 9), (2, 30), (3, 20), (4, 40)] {
        add(&folder, &format!("0000000{number}.x"), hours);
    }
    let others = ["0000000a.lock", "old.x", ".tmp-9.part", "00000009.y"];
    others.iter().for_each(|name| add(&folder, name, 100));
    let written = "00000005.x";
    folder.write(written, &[1; 4000]).unwrap();
    folder.keep_within(Limit(None), written, 8, &["x"]);
    assert_eq!(names("x").len(), 6, "without a limit all stay");
    folder.keep_within(Limit(Some(20_000)), written, 8, &["x"]);
    assert_eq!(names("x").len(), 6, "below the limit all stay");
    assert_eq!(names("part"), [] as [&str; 0], "but what a killed process left");

    // 16,000 bytes are seven eighths of it at most: three files and the one that was written.
    folder.keep_within(Limit(Some(18_300)), written, 8, &["x"]);
    assert_eq!(names("x"), ["00000001.x", "00000002.x", "00000003.x", written, "old.x"]);
    // It is no longer read at every write: the count says that there is room.
    add(&folder, "00000006.x", 50);
    folder.keep_within(Limit(Some(1 << 20)), written, 8, &["x"]);
    assert_eq!(names("x").len(), 6);
    // Smaller than any file: what was written last stays.
    folder.keep_within(Limit(Some(10)), written, 8, &["x"]);
    assert_eq!(names("x"), [written, "old.x"]);
    assert!(others.iter().filter(|name| !name.ends_with("part")).all(|name| folder.stat(name).is_ok()));
}
