//! The disk cache under fire: eight processes of four threads build the same fifty graphs in one folder, are killed at
//! random moments, and meanwhile the folder is damaged in every way of [`Harm`].
//!
//! Every binary that a process gets is compared with what an undisturbed compilation gave, in the fire, too. After
//! each round all graphs are built in the folder as it was left; then again once the folder can be written; after
//! that every entry is right, and no lock and no unfinished file is left. No process may take longer than [`LIMIT`].
//!
//! Needs NVRTC: without one it is skipped; `FUSEWRIGHT_REQUIRE_NVRTC=1` makes that a failure.
//! `FUSEWRIGHT_FIRE_SEED` repeats the choices of a run, though not what the scheduler made of them.

#![expect(clippy::print_stderr, reason = "a skipped test says so, and a failed one how it went")]

mod chance;
mod graphs;
mod harm;

use std::collections::BTreeSet;
use std::env;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use fusewright::compile::{Cache, Compiler, Options};

use chance::Chance;
use graphs::{CAPABILITY, COUNT, Prepared, Tally, build_all};
use harm::{FOREIGN, Harm};

const PROCESSES: usize = 8;
const ROUNDS: usize = 8;
const KILLS_PER_ROUND: usize = 25;

/// A process that takes longer waits for ever; far above what fifty compilations take.
const LIMIT: Duration = Duration::from_secs(60);

/// Longest pause between two blows, in microseconds.
const PAUSE: u64 = 30_000;

const SIGKILL: i32 = 9;

/// Names the file with the prepared graphs, and makes the test process one that builds them.
const PREPARED: &str = "FUSEWRIGHT_TEST_FIRE_PREPARED";
const SEED: &str = "FUSEWRIGHT_FIRE_SEED";
const TASK: &str = "FUSEWRIGHT_TEST_FIRE_TASK";

/// How long a process in the fire goes on.
const LIFE: Duration = Duration::from_millis(400);

/// What a process does.
#[derive(Clone, Copy, Debug)]
enum Task {
    /// Builds everything again and again for [`LIFE`], each time with an empty memory.
    Burn,
    /// Builds everything.
    Build,
    /// Builds everything, and compiles nothing.
    Read,
}

#[test]
fn every_graph_builds_and_is_right_whatever_befalls_the_cache() {
    if let Some(prepared) = env::var_os(PREPARED) {
        return work(Path::new(&prepared));
    }
    let compiler = Compiler::new(Cache::memory_only(), Options::default());
    if let Err(error) = compiler.nvrtc(CAPABILITY) {
        let is_required = env::var_os("FUSEWRIGHT_REQUIRE_NVRTC").is_some_and(|value| value == "1");
        assert!(!is_required, "FUSEWRIGHT_REQUIRE_NVRTC=1, but {error}");
        eprintln!("skipped: no NVRTC ({error})");
        return;
    }
    let seed = seed();
    eprintln!("{SEED}={seed}");
    let work = tempfile::tempdir().expect("a temporary folder");
    let mut fire = Fire::new(work.path(), &compiler, seed);
    (0..ROUNDS).for_each(|round| fire.round(round));
    let spared: Vec<Harm> = Harm::ALL.into_iter().filter(|harm| !fire.done.contains(&(*harm as u8))).collect();
    assert!(spared.is_empty(), "never done: {spared:?}");
    eprintln!("in {} of {} kills a graph was being built", fire.kills_in_builds, ROUNDS * KILLS_PER_ROUND);
    assert!(fire.obstructed > 0, "every round left the folder in ruins");
    assert!(fire.kills_in_builds > 0, "no process was killed while it built");
}

/// `FUSEWRIGHT_FIRE_SEED`, or else one of this moment.
fn seed() -> u64 {
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    env::var(SEED).map_or_else(|_| now(), |text| text.parse().expect("a seed is a number"))
}

/// The [`Task`] of a process, which may be killed any time.
fn work(prepared: &Path) {
    let start = Instant::now();
    let prepared = fs::read(prepared).expect("the prepared graphs");
    let prepared: Vec<Prepared> = serde_json::from_slice(&prepared).expect("the prepared graphs");
    let mut chance = Chance(seed());
    // Keeps NVRTC loaded.
    let compiler = Compiler::new(Cache::from_environment(), Options::default());
    let tally = build_all(&compiler, &prepared, &mut chance);
    match env::var(TASK).as_deref() {
        Ok("Read") => assert_eq!(tally, Tally { from_disk: COUNT, compiled: 0 }),
        Ok("Build") => {}
        _ => {
            while start.elapsed() < LIFE {
                sleep(Duration::from_micros(chance.below(PAUSE)));
                let compiler = Compiler::new(Cache::from_environment(), Options::default());
                build_all(&compiler, &prepared, &mut chance);
            }
        }
    }
}

/// One cache and the processes that use it.
struct Fire {
    folder: PathBuf,
    prepared: PathBuf,
    chance: Chance,
    processes: Vec<Child>,
    /// Kinds of harm that were done.
    done: BTreeSet<u8>,
    /// Rounds after which obstacles of all kinds lay in the folder.
    obstructed: usize,
    /// Kills while some process held a lock.
    kills_in_builds: usize,
}

impl Fire {
    /// Compiles every graph in peace, and starts with an empty folder.
    fn new(work: &Path, compiler: &Compiler, seed: u64) -> Self {
        let prepared: Vec<Prepared> = (0..COUNT).map(|number| graphs::prepare(compiler, number)).collect();
        let hashes: BTreeSet<&String> = prepared.iter().map(|prepared| &prepared.hash).collect();
        assert_eq!(hashes.len(), COUNT, "no two graphs have the same binary");
        let file = work.join("prepared");
        let json = serde_json::to_vec(&prepared).expect("texts always serialize");
        fs::write(&file, json).expect("a temporary folder can be written");
        let (processes, done) = (Vec::new(), BTreeSet::new());
        Self {
            folder: work.join("cache"),
            prepared: file,
            chance: Chance(seed),
            processes,
            done,
            obstructed: 0,
            kills_in_builds: 0,
        }
    }

    fn round(&mut self, round: usize) {
        let start = Instant::now();
        let mut kills = 0;
        let mut blows = 0;
        while kills < KILLS_PER_ROUND {
            self.man_the_posts();
            sleep(Duration::from_micros(self.chance.below(PAUSE)));
            blows += usize::from(self.strike());
            kills += usize::from(self.kill_one());
        }
        let burnt = start.elapsed();
        if self.chance.below(2) == 0 {
            harm::mend(&self.folder);
        }
        while let Some(process) = self.processes.pop() {
            succeeded(wait(process));
        }
        self.settle();
        let took = start.elapsed();
        eprintln!("round {round}: {kills} kills and {blows} blows in {burnt:.1?}, all is well after {took:.1?}");
    }

    /// Replaces processes that ended, which must have been right.
    fn man_the_posts(&mut self) {
        for process in std::mem::take(&mut self.processes) {
            match ended(process) {
                Ok(status) => succeeded(status),
                Err(process) => self.processes.push(process),
            }
        }
        while self.processes.len() < PROCESSES {
            let process = self.start(Task::Burn);
            self.processes.push(process);
        }
    }

    /// Does some harm; says whether it was possible.
    fn strike(&mut self) -> bool {
        if self.chance.below(2) == 0 {
            harm::mend(&self.folder);
        }
        let harm = *self.chance.of(&Harm::ALL).expect("a list that is not empty");
        let is_done = harm.inflict(&self.folder, &mut self.chance).is_ok();
        if is_done {
            self.done.insert(harm as u8);
        }
        is_done
    }

    /// Kills a process; says whether it was still there.
    fn kill_one(&mut self) -> bool {
        let chosen = self.chance.below(PROCESSES as u64) as usize;
        let mut process = self.processes.swap_remove(chosen);
        let is_building = !self.ours(&["lock"]).is_empty();
        process.kill().expect("a process of ours");
        let status = wait(process);
        let is_hit = status.signal() == Some(SIGKILL);
        if !is_hit {
            succeeded(status);
        }
        self.kills_in_builds += usize::from(is_hit && is_building);
        is_hit
    }

    /// Everything builds in what is left of the folder, and once it can be written, all of it is right.
    fn settle(&mut self) {
        // Impossible where there is no folder; most rounds leave one.
        self.obstructed += usize::from(harm::put_obstacles(&self.folder).is_ok_and(|count| count == 6));
        succeeded(wait(self.start(Task::Build)));
        harm::mend(&self.folder);
        harm::add_foreign_files(&self.folder).expect("a folder that can be written");
        // What a process leaves that is killed while it writes, and right after.
        for path in self
            .ours(&["cubin"])
            .first()
            .map(|path| path.with_extension("lock"))
            .into_iter()
            .chain([self.folder.join(".tmpfire.part")])
        {
            fs::write(path, "").expect("a folder that can be written");
        }
        // A day later; what is missing makes the next process write.
        let yesterday = SystemTime::now() - Duration::from_secs(24 * 60 * 60);
        for path in self.ours(&["lock", "part"]) {
            File::open(&path).and_then(|file| file.set_modified(yesterday)).expect("a file of this user");
        }
        self.ours(&["cubin"]).last().map(fs::remove_file).transpose().expect("a folder that can be written");
        succeeded(wait(self.start(Task::Build)));
        succeeded(wait(self.start(Task::Read)));
        assert_eq!(self.ours(&["lock", "part"]), [] as [PathBuf; 0]);
        assert_eq!(self.ours(&["cubin"]).len(), COUNT);
        for (name, content) in FOREIGN {
            assert_eq!(fs::read_to_string(self.folder.join(name)).ok().as_deref(), Some(content), "{name}");
        }
        let mut verify = Command::new(env!("CARGO_BIN_EXE_fusewright"));
        let verify = verify.args(["cache", "verify"]).env("FUSEWRIGHT_CACHE_DIR", &self.folder).stdout(Stdio::null());
        succeeded(wait(verify.spawn().expect("the program starts")));
    }

    /// The cache's own files with these extensions.
    fn ours(&self, extensions: &[&str]) -> Vec<PathBuf> {
        let mut files = harm::files(&self.folder, extensions).unwrap_or_default();
        files.retain(|path| FOREIGN.iter().all(|(name, _)| !path.ends_with(name)));
        files
    }

    fn start(&mut self, task: Task) -> Child {
        let mut command = Command::new(env::current_exe().expect("this program"));
        command
            .args(["--exact", "every_graph_builds_and_is_right_whatever_befalls_the_cache", "--nocapture"])
            .env(PREPARED, &self.prepared)
            .env(SEED, self.chance.next().to_string())
            .env("FUSEWRIGHT_CACHE_DIR", &self.folder)
            .env_remove("FUSEWRIGHT_CACHE")
            .env(TASK, format!("{task:?}"))
            .stdout(Stdio::null());
        command.spawn().expect("this program starts again")
    }
}

impl Drop for Fire {
    /// After a failure nothing goes on in the background.
    fn drop(&mut self) {
        for process in &mut self.processes {
            // It may have ended.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

#[track_caller]
fn succeeded(status: ExitStatus) {
    assert!(status.success(), "a process ended with {status}; its message is above");
}

/// The status of a process that ended, or the process.
fn ended(mut process: Child) -> Result<ExitStatus, Child> {
    match process.try_wait().expect("a process of ours") {
        Some(status) => Ok(status),
        None => Err(process),
    }
}

/// Waits for a process, but not for ever.
#[track_caller]
fn wait(mut process: Child) -> ExitStatus {
    let deadline = Instant::now() + LIMIT;
    loop {
        process = match ended(process) {
            Ok(status) => return status,
            Err(process) => process,
        };
        if Instant::now() > deadline {
            process.kill().expect("a process of ours");
            panic!("a process was still waiting after {LIMIT:?}");
        }
        sleep(Duration::from_millis(2));
    }
}
