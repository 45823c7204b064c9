//! Where NVRTC may be, in the order in which it is asked.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::library::containing_file;

/// Major versions, the preferred one first.
const MAJORS: [u32; 2] = [13, 12];

/// Folders below a chosen folder that may hold the library: as in a toolkit, in NVIDIA's wheels, and in the `.nv/` that
/// `scripts/fetch-nvrtc.sh` fills.
const BELOW: [&str; 8] = [
    "",
    "lib64",
    "lib",
    "targets/x86_64-linux/lib",
    "nvidia/cu13/lib",
    "nvidia/cuda_nvrtc/lib",
    "13/nvidia/cu13/lib",
    "12/nvidia/cuda_nvrtc/lib",
];

/// Something to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Candidate {
    /// By bare name: the loader searches its library path, its cache and what is loaded already.
    Name(String),
    /// A file; passed over where it does not exist.
    File(PathBuf),
}

impl Candidate {
    /// What the loader is given, or nothing for a file that does not exist.
    pub(super) fn to_open(&self) -> Option<&OsStr> {
        match self {
            Self::Name(name) => Some(OsStr::new(name)),
            Self::File(path) => path.is_file().then_some(path.as_os_str()),
        }
    }

    /// Where it was looked for: the folder of a file.
    pub(super) fn place(&self) -> String {
        match self {
            Self::File(path) => shown(path.parent().unwrap_or(path)),
            Self::Name(_) => self.to_string(),
        }
    }
}

impl std::fmt::Display for Candidate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(name) => write!(f, "{name} on the library path"),
            Self::File(path) => f.write_str(&shown(path)),
        }
    }
}

/// A path as messages name it: on one line.
fn shown(path: &Path) -> String {
    path.display().to_string().escape_debug().to_string()
}

/// What the search reads of the process, so that tests can give another. Where the process works plays no part: the
/// working directory may be a stranger's.
pub(super) struct Surroundings<'a> {
    pub(super) variable: &'a dyn Fn(&str) -> Option<OsString>,
    /// The program's file, all links resolved.
    pub(super) executable: Option<PathBuf>,
    /// The file that this code is in: the program's, or that of a library that the program loaded.
    pub(super) library: Option<PathBuf>,
}

/// The folders of a list as in `PATH`, without those that depend on the working directory; an empty one means itself.
pub(crate) fn absolute_paths(list: &OsStr) -> impl Iterator<Item = PathBuf> {
    std::env::split_paths(list).filter(|path| path.is_absolute())
}

impl Surroundings<'_> {
    /// Those of this process.
    pub(super) fn of_process() -> Self {
        Self {
            variable: &|name: &str| std::env::var_os(name).filter(|value| !value.is_empty()),
            executable: std::env::current_exe().and_then(std::fs::canonicalize).ok(),
            library: containing_file((Self::of_process as fn() -> Self as *const ()).cast()),
        }
    }

    fn paths(&self, variable: &str) -> Vec<PathBuf> {
        (self.variable)(variable).map(|list| absolute_paths(&list).collect()).unwrap_or_default()
    }

    fn path(&self, variable: &str) -> Option<PathBuf> {
        (self.variable)(variable).map(PathBuf::from).filter(|path| path.is_absolute())
    }
}

/// What `FUSEWRIGHT_NVRTC` names. It names NVRTC and nothing else, so a relative path there is meant: it is one of the
/// working directory, and made absolute, as the loader would search for a bare name.
pub(super) fn chosen(around: &Surroundings<'_>) -> Vec<Candidate> {
    let list = (around.variable)("FUSEWRIGHT_NVRTC").unwrap_or_default();
    // An empty element names nothing.
    let named = std::env::split_paths(&list).filter_map(|path| std::path::absolute(path).ok());
    named.flat_map(|path| at(&path)).collect()
}

/// Every other place: the loader's own search (`LD_LIBRARY_PATH` included), the toolkit that `CUDA_HOME` or
/// `CUDA_PATH` names, `/usr/local/cuda`, conda and Python's packages, and what was fetched into the repository that the
/// program was built in. Relative paths are passed over.
pub(super) fn usual(around: &Surroundings<'_>) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = MAJORS.map(|major| Candidate::Name(library(major))).into();
    for variable in ["CUDA_HOME", "CUDA_PATH"] {
        found.extend(around.path(variable).into_iter().flat_map(|home| in_folder(&home.join("lib64"))));
    }
    found.extend(in_folder(Path::new("/usr/local/cuda/lib64")));
    found.extend(around.path("CONDA_PREFIX").into_iter().flat_map(|prefix| in_folder(&prefix.join("lib"))));
    for packages in python_packages(around) {
        found.extend(in_folder(&packages.join("nvidia/cu13/lib")));
        found.extend(in_folder(&packages.join("nvidia/cuda_nvrtc/lib")));
    }
    found.extend(around.executable.as_deref().and_then(fetched).into_iter().flat_map(|folder| at(&folder)));
    found
}

/// `.nv/` of the repository whose `target/` holds the program: whoever can write there can write the program.
fn fetched(executable: &Path) -> Option<PathBuf> {
    let target = executable.ancestors().find(|folder| folder.file_name() == Some(OsStr::new("target")))?;
    let repository = target.parent().filter(|repository| repository.join("Cargo.toml").is_file())?;
    Some(repository.join(".nv")).filter(|folder| folder.is_dir())
}

/// The file itself, or the library in a folder or one of the usual folders below it.
fn at(path: &Path) -> Vec<Candidate> {
    if path.is_dir() {
        BELOW.iter().flat_map(|below| in_folder(&path.join(below))).collect()
    } else {
        vec![Candidate::File(path.to_owned())]
    }
}

fn in_folder(folder: &Path) -> impl Iterator<Item = Candidate> + use<> {
    MAJORS.map(|major| Candidate::File(folder.join(library(major)))).into_iter()
}

fn library(major: u32) -> String {
    format!("libnvrtc.so.{major}")
}

/// Package folders of the Pythons in sight: the one that this library is installed in, active environments, those on `PATH`, the user's and the system's.
fn python_packages(around: &Surroundings<'_>) -> Vec<PathBuf> {
    let mut prefixes: Vec<PathBuf> =
        ["VIRTUAL_ENV", "CONDA_PREFIX"].iter().filter_map(|name| around.path(name)).collect();
    for folder in around.paths("PATH") {
        let python = folder.join("python3");
        // As it is named, for environments, and as it resolves, for links into an installation.
        for python in [std::fs::canonicalize(&python).ok(), python.is_file().then_some(python)].into_iter().flatten() {
            prefixes.extend(python.ancestors().nth(2).map(Path::to_owned));
        }
    }
    prefixes.extend(around.path("HOME").map(|home| home.join(".local")));
    prefixes.extend(["/usr/local", "/usr"].map(PathBuf::from));

    // as part of a Python package: what is installed beside it
    let is_packages = |folder: &&Path| folder.ends_with("site-packages") || folder.ends_with("dist-packages");
    let own = around.library.as_deref().and_then(|file| file.ancestors().find(is_packages));
    let mut packages: Vec<PathBuf> = own.map(Path::to_owned).into_iter().collect();
    packages.extend(around.paths("PYTHONPATH"));
    packages.extend(prefixes.iter().flat_map(|prefix| package_folders(prefix)));
    let mut seen = BTreeSet::new();
    packages.retain(|folder| seen.insert(std::fs::canonicalize(folder).unwrap_or_else(|_| folder.clone())));
    packages
}

/// `lib/python3*/site-packages` and `dist-packages` that exist below a prefix, newest name last.
fn package_folders(prefix: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(prefix.join("lib")) else { return Vec::new() };
    let mut pythons: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"python3")))
        .collect();
    pythons.sort();
    let folders = pythons.iter().flat_map(|python| [python.join("site-packages"), python.join("dist-packages")]);
    folders.filter(|folder| folder.is_dir()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn search(variables: &[(&str, &Path)]) -> Vec<Candidate> {
        let variables: BTreeMap<&str, &Path> = variables.iter().copied().collect();
        let variable = |name: &str| variables.get(name).map(|path| path.as_os_str().to_owned());
        let around = Surroundings { variable: &variable, executable: None, library: None };
        chosen(&around).into_iter().chain(usual(&around)).collect()
    }

    #[test]
    fn the_chosen_place_comes_first() {
        let here = tempfile::tempdir().unwrap();
        let found = search(&[("FUSEWRIGHT_NVRTC", here.path()), ("CUDA_HOME", Path::new("/cuda"))]);
        assert_eq!(found[0], Candidate::File(here.path().join("libnvrtc.so.13")));
        let position = |wanted: Candidate| found.iter().position(|candidate| *candidate == wanted).unwrap();
        let fetched = position(Candidate::File(here.path().join("12/nvidia/cuda_nvrtc/lib/libnvrtc.so.12")));
        let by_name = position(Candidate::Name("libnvrtc.so.13".to_owned()));
        let toolkit = position(Candidate::File("/cuda/lib64/libnvrtc.so.13".into()));
        let usual = position(Candidate::File("/usr/local/cuda/lib64/libnvrtc.so.12".into()));
        assert!(fetched < by_name && by_name < toolkit && toolkit < usual);
    }

    #[test]
    fn what_is_installed_beside_a_python_package_is_found() {
        let prefix = tempfile::tempdir().unwrap();
        let packages = prefix.path().join("lib/python3.12/site-packages");
        let library = Some(packages.join("fusewright/_core.abi3.so"));
        let around = Surroundings { variable: &|_| None, executable: None, library };
        assert!(usual(&around).contains(&Candidate::File(packages.join("nvidia/cu13/lib/libnvrtc.so.13"))));
    }

    #[test]
    fn what_was_fetched_into_the_program_s_repository_is_found() {
        let repository = tempfile::tempdir().unwrap();
        let program = repository.path().join("target/release/deps/fusewright");
        std::fs::create_dir_all(repository.path().join(".nv/13/nvidia/cu13/lib")).unwrap();
        assert_eq!(fetched(&program), None, "a folder above the program is no repository");
        std::fs::write(repository.path().join("Cargo.toml"), "").unwrap();
        let around = Surroundings { variable: &|_| None, executable: Some(program), library: None };
        let library = Candidate::File(repository.path().join(".nv/13/nvidia/cu13/lib/libnvrtc.so.13"));
        assert_eq!(usual(&around).iter().filter(|candidate| **candidate == library).count(), 1);
        assert_eq!(fetched(&repository.path().join("bin/fusewright")), None, "an installed program has none");
    }

    #[test]
    fn a_chosen_file_is_taken_as_it_is() {
        let found = search(&[("FUSEWRIGHT_NVRTC", Path::new("/nowhere/my-nvrtc.so"))]);
        assert_eq!(found[0], Candidate::File("/nowhere/my-nvrtc.so".into()));
        assert_eq!(found[0].to_open(), None, "a file that does not exist is passed over");
    }

    #[test]
    fn only_what_is_chosen_may_be_relative() {
        // Unit tests run in the repository, where these folders are.
        let relative = [("PYTHONPATH", "src"), ("VIRTUAL_ENV", "src"), ("CONDA_PREFIX", "."), ("HOME", ".")];
        let others = [("PATH", ":src:."), ("CUDA_HOME", "src"), ("CUDA_PATH", ".")];
        let variables: Vec<(&str, &Path)> =
            relative.iter().chain(&others).map(|(name, path)| (*name, Path::new(*path))).collect();
        let found = search(&variables);
        assert_eq!(found, search(&[]));
        let is_absolute = |candidate: &Candidate| match candidate {
            Candidate::File(path) => path.is_absolute(),
            Candidate::Name(_) => true,
        };
        assert!(found.iter().all(is_absolute), "{found:?}");
        let chosen = search(&[("FUSEWRIGHT_NVRTC", Path::new(":src:mine.so"))]);
        let here = std::env::current_dir().unwrap();
        assert_eq!(chosen[0], Candidate::File(here.join("src/libnvrtc.so.13")));
        assert!(chosen.contains(&Candidate::File(here.join("mine.so"))) && chosen.iter().all(is_absolute));
    }

    #[test]
    fn python_packages_of_an_environment_are_searched_once() {
        let prefix = tempfile::tempdir().unwrap();
        let packages = prefix.path().join("lib/python3.12/site-packages");
        std::fs::create_dir_all(&packages).unwrap();
        std::fs::create_dir_all(prefix.path().join("lib/ruby/site-packages")).unwrap();
        let found = search(&[("VIRTUAL_ENV", prefix.path()), ("CONDA_PREFIX", prefix.path())]);
        let library = Candidate::File(packages.join("nvidia/cuda_nvrtc/lib/libnvrtc.so.12"));
        assert_eq!(found.iter().filter(|candidate| **candidate == library).count(), 1);
        assert!(!found.iter().any(|candidate| candidate.to_string().contains("ruby")));
    }
}
