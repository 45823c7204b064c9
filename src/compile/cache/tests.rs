use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::compile::testing::{cubin, key};

/// Gets a key's binary from a fresh cache over the folder, and says where it came from.
fn get(folder: &Path, source: &str, image: &[u8]) -> (Vec<u8>, Origin) {
    get_from(&Cache::at(folder), source, image)
}

fn get_from(cache: &Cache, source: &str, image: &[u8]) -> (Vec<u8>, Origin) {
    let (found, origin) = cache.get_or_compile(&key(source), || Ok(cubin(image))).unwrap();
    (found.images.concat(), origin)
}

fn only_file(folder: &Path) -> PathBuf {
    let files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let [file] = &files[..] else { panic!("one file is left, not {files:?}") };
    file.clone()
}

#[test]
fn compiled_then_memory_then_disk() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path().join("a/b"));
    assert_eq!(get_from(&cache, "s", b"1"), (b"1".to_vec(), Origin::Compiled));
    assert_eq!(get_from(&cache, "s", b"2"), (b"1".to_vec(), Origin::Memory));
    assert_eq!(get_from(&cache, "t", b"3"), (b"3".to_vec(), Origin::Compiled));
    assert_eq!(get(cache.folder().unwrap(), "s", b"2"), (b"1".to_vec(), Origin::Disk));
}

#[test]
fn everything_a_cubin_says_survives_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    get(folder.path(), "s", b"1");
    let (found, _) = Cache::at(folder.path()).get_or_compile(&key("s"), || unreachable!()).unwrap();
    assert_eq!(*found, cubin(b"1"));
}

#[test]
fn without_disk_nothing_outlives_the_cache() {
    let cache = Cache::memory_only();
    assert_eq!(get_from(&cache, "s", b"1").1, Origin::Compiled);
    assert_eq!(get_from(&cache, "s", b"1").1, Origin::Memory);
    assert_eq!(cache.folder(), None);
    assert!(cache.entries().unwrap().is_empty());
    cache.clear().unwrap();
    assert_eq!(get_from(&cache, "s", b"2").1, Origin::Compiled);
}

#[test]
fn a_damaged_truncated_or_empty_entry_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    get(folder.path(), "s", b"image");
    let file = only_file(folder.path());
    let good = std::fs::read(&file).unwrap();
    let mut flipped = good.clone();
    *flipped.last_mut().unwrap() ^= 1;
    for bad in [&flipped[..], &good[..good.len() - 1], &good[..60], b"", b"something else"] {
        std::fs::write(&file, bad).unwrap();
        let [entry] = &Cache::at(folder.path()).entries().unwrap()[..] else { panic!("one entry") };
        assert!(entry.content.is_err(), "{entry:?}");
        assert_eq!(get(folder.path(), "s", b"image"), (b"image".to_vec(), Origin::Compiled));
        assert_eq!(get(folder.path(), "s", b"other").1, Origin::Disk);
        assert_eq!(std::fs::read(&file).unwrap(), good);
    }
}

#[test]
fn a_foreign_entry_under_the_right_name_is_a_miss() {
    let folder = tempfile::tempdir().unwrap();
    get(folder.path(), "s", b"s");
    let of_s = only_file(folder.path());
    let of_t = folder.path().join(key("t").file_stem()).with_extension("cubin");
    std::fs::copy(&of_s, &of_t).unwrap();
    let entries = Cache::at(folder.path()).entries().unwrap();
    let of_t_entry = entries.iter().find(|entry| entry.path == of_t).unwrap();
    assert_eq!(of_t_entry.content, Err("is the entry of another key".to_owned()));
    assert_eq!(get(folder.path(), "t", b"t"), (b"t".to_vec(), Origin::Compiled));
    assert_eq!(get(folder.path(), "t", b"u"), (b"t".to_vec(), Origin::Disk));
}

#[test]
fn a_folder_in_place_of_an_entry_is_a_miss() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(key("s").file_stem()).with_extension("cubin");
    std::fs::create_dir(path).unwrap();
    assert_eq!(get(folder.path(), "s", b"1").1, Origin::Compiled);
    assert!(Cache::at(folder.path()).entries().unwrap()[0].content.is_err());
}

#[test]
fn a_folder_that_cannot_be_made_or_written_costs_only_the_compilation() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    for impossible in [file.join("below"), file, PathBuf::from("/proc/fusewright-no-such-folder")] {
        let cache = Cache::at(&impossible);
        assert_eq!(get_from(&cache, "s", b"1"), (b"1".to_vec(), Origin::Compiled), "{}", impossible.display());
        assert_eq!(get_from(&cache, "s", b"2"), (b"1".to_vec(), Origin::Memory));
    }
}

#[test]
fn a_read_only_folder_still_gives_its_entries() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    get(folder.path(), "s", b"1");
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o500)).unwrap();
    assert_eq!(get(folder.path(), "s", b"2"), (b"1".to_vec(), Origin::Disk));
    assert_eq!(get(folder.path(), "t", b"2"), (b"2".to_vec(), Origin::Compiled));
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn a_folder_that_others_may_write_is_neither_read_nor_written() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    get(folder.path(), "s", b"1");
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(get(folder.path(), "s", b"2"), (b"2".to_vec(), Origin::Compiled));
    assert_eq!(get(folder.path(), "t", b"3"), (b"3".to_vec(), Origin::Compiled));
    only_file(folder.path());
    let cache = Cache::at(folder.path());
    for error in [cache.prepare().unwrap_err(), cache.entries().unwrap_err(), cache.clear().unwrap_err()] {
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(cause.contains("mode 0777") && cause.contains("chmod go-w"), "{cause}");
    }
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(get(folder.path(), "s", b"2"), (b"1".to_vec(), Origin::Disk));
}

#[test]
fn an_entry_behind_a_link_or_that_others_may_write_is_replaced() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    get(folder.path(), "s", b"1");
    let file = only_file(folder.path());
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
    assert_eq!(get(folder.path(), "s", b"2"), (b"2".to_vec(), Origin::Compiled));
    let elsewhere = tempfile::tempdir().unwrap();
    let target = elsewhere.path().join("entry");
    std::fs::rename(&file, &target).unwrap();
    std::os::unix::fs::symlink(&target, &file).unwrap();
    assert_eq!(get(folder.path(), "s", b"3"), (b"3".to_vec(), Origin::Compiled));
    assert!(std::fs::symlink_metadata(file).unwrap().is_file());
    assert_eq!(get(folder.path(), "s", b"4").1, Origin::Disk);
}

#[test]
fn a_cache_keeps_within_its_limit() {
    let folder = tempfile::tempdir().unwrap();
    let image = [1; 100_000];
    let cache = Cache::at(folder.path()).with_limit(Some(450_000));
    for number in 0..20 {
        get_from(&cache, &number.to_string(), &image);
        let bytes: u64 = cache.entries().unwrap().iter().map(|entry| entry.bytes).sum();
        assert!(bytes <= 450_000, "{bytes} bytes after {number}");
    }
    assert_eq!(get(folder.path(), "19", b"").1, Origin::Disk, "the last stays");
    assert_eq!(get(folder.path(), "0", b"").1, Origin::Compiled, "the first went");
}

#[test]
fn caches_keep_within_their_limits_while_threads_write_to_others() {
    let writes = || {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).with_limit(Some(4500));
        for number in 0..200 {
            get_from(&cache, &number.to_string(), &[1; 1000]);
            let bytes: u64 = cache.entries().unwrap().iter().map(|entry| entry.bytes).sum();
            assert!(bytes <= 4500, "{bytes} bytes after {number}");
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(writes))));
}

#[test]
fn a_failed_compilation_is_not_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path());
    let failed = cache.get_or_compile(&key("s"), || Err(Error::environment("no compiler")));
    assert_eq!(failed.unwrap_err().to_string(), "no compiler");
    assert_eq!(get_from(&cache, "s", b"1").1, Origin::Compiled);
}

#[test]
fn a_panicking_compilation_leaves_the_cache_usable() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path());
    let compile = || -> Result<Cubin, Error> { std::panic::resume_unwind(Box::new("compiler bug")) };
    let panicking = std::panic::AssertUnwindSafe(|| cache.get_or_compile(&key("s"), compile));
    assert!(std::panic::catch_unwind(panicking).is_err());
    assert_eq!(get_from(&cache, "s", b"1").1, Origin::Compiled);
}

/// What a process leaves that is killed while it writes the entry of `t`.
fn leave_behind(folder: &Path) -> [PathBuf; 2] {
    let left = [folder.join(key("t").file_stem()).with_extension("lock"), folder.join(".tmpabc.part")];
    left.iter().for_each(|path| std::fs::write(path, "half").unwrap());
    left
}

#[test]
fn the_list_shows_keys_and_clear_leaves_other_files_alone() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path());
    get_from(&cache, "s", b"1");
    get_from(&cache, "t", b"2");
    leave_behind(folder.path());
    let foreign = ["notes.txt", "Cargo.lock", "kernel.cubin", "film.part"].map(|name| folder.path().join(name));
    foreign.iter().for_each(|path| std::fs::write(path, "mine").unwrap());
    let obstacle = folder.path().join(key("u").file_stem()).with_extension("lock");
    std::fs::create_dir(&obstacle).unwrap();

    let entries = cache.entries().unwrap();
    let mut sources: Vec<&str> = entries.iter().map(|entry| entry.content.as_ref().unwrap().source.as_str()).collect();
    sources.sort_unstable();
    assert_eq!(sources, ["s", "t"]);
    let bytes: u64 = entries.iter().map(|entry| entry.bytes).sum();
    assert_eq!(cache.clear().unwrap(), Cleared { entries: 2, bytes: bytes + 8 });
    std::fs::remove_dir(obstacle).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), foreign.len());
    assert!(foreign.iter().all(|path| path.is_file()));
    assert_eq!(get_from(&cache, "s", b"3"), (b"3".to_vec(), Origin::Compiled));
}

#[test]
fn what_killed_processes_left_is_removed_once_it_is_old() {
    let folder = tempfile::tempdir().unwrap();
    let left = leave_behind(folder.path());
    get(folder.path(), "s", b"1");
    assert!(left.iter().all(|path| path.is_file()), "they may be in use");
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
    let foreign = folder.path().join("Cargo.lock");
    std::fs::write(&foreign, "mine").unwrap();
    for path in left.iter().chain([&foreign]) {
        std::fs::File::open(path).unwrap().set_modified(long_ago).unwrap();
    }
    get(folder.path(), "s", b"1");
    assert!(left.iter().all(|path| path.is_file()), "who only reads sweeps nothing");
    get(folder.path(), "u", b"2");
    assert!(left.iter().all(|path| !path.exists()));
    assert!(foreign.is_file());
}

#[test]
fn an_absent_folder_is_empty() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path().join("absent"));
    assert!(cache.entries().unwrap().is_empty());
    assert_eq!(cache.clear().unwrap(), Cleared::default());
}

#[test]
fn threads_compile_a_key_once() {
    let folder = tempfile::tempdir().unwrap();
    // One cache shared by threads, and one a thread, as separate processes would have.
    let shared = Cache::at(folder.path().join("shared"));
    let compilations = AtomicUsize::new(0);
    let compile = || {
        compilations.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(std::time::Duration::from_millis(20));
        Ok(cubin(b"1"))
    };
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| shared.get_or_compile(&key("s"), compile).unwrap());
            let own = Cache::at(folder.path().join("own"));
            scope.spawn(move || own.get_or_compile(&key("s"), compile).unwrap());
        }
    });
    assert_eq!(compilations.load(Ordering::Relaxed), 2);
    assert_eq!(only_file(&folder.path().join("own")).extension().unwrap(), "cubin");
}

/// Variable that turns a test process into one of the processes below.
const CHILD: &str = "FUSEWRIGHT_TEST_CACHE_CHILD";

#[test]
fn processes_compile_a_key_once() {
    if let Some(folder) = std::env::var_os(CHILD) {
        return child(Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    let this = std::env::current_exe().unwrap();
    let spawn = |_| {
        let mut command = std::process::Command::new(&this);
        command.args(["--exact", "compile::cache::tests::processes_compile_a_key_once"]).env(CHILD, folder.path());
        command.stdout(std::process::Stdio::null()).spawn().unwrap()
    };
    let children: Vec<_> = (0..4).map(spawn).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let compilations = std::fs::read(folder.path().join("compilations.log")).unwrap();
    assert_eq!(compilations.len(), 1);
}

/// Gets a key, and leaves a byte where it had to compile.
fn child(folder: &Path) {
    use std::io::Write;
    let compiled = Cell::new(false);
    let compile = || {
        compiled.set(true);
        let mut log = std::fs::OpenOptions::new().append(true).create(true).open(folder.join("compilations.log"))?;
        log.write_all(b"x")?;
        std::thread::sleep(std::time::Duration::from_millis(50));
        Ok::<Cubin, std::io::Error>(cubin(b"1"))
    };
    let cache = Cache::at(folder);
    let (found, origin) = cache.get_or_compile(&key("s"), || Ok(compile().unwrap())).unwrap();
    assert_eq!(found.images, [b"1"]);
    assert_eq!(origin == Origin::Compiled, compiled.get());
}
