use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::*;
use crate::compile::{Cubin, Request};
use crate::device::ComputeCapability;
use crate::engine;
use crate::graph::{DataType, Graph, PointwiseMode, Tensor};
use crate::tuning::Sampled;

/// `relu(x)` over so many columns: three configs.
pub(in crate::tuning) fn selection(columns: i64) -> Selection {
    let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
    let x = graph.tensor(Tensor::new("x").row_major([1, 64, columns]));
    let y = graph.pointwise("relu", PointwiseMode::ReluFwd, &[x]);
    graph.set_output(y);
    engine::select(&Arc::new(graph.finalize().unwrap()), ComputeCapability::SM_90).unwrap()
}

pub(in crate::tuning) fn hopper() -> Device {
    Device::typical(ComputeCapability::SM_90)
}

/// A store with the last config of `selection(64)` as its winner on [`hopper`], and that config.
fn stored(folder: &Path) -> (TuningStore, EngineConfig) {
    let store = TuningStore::beside(&Cache::at(folder));
    let winner = tuned(&selection(64));
    store.put(&selection(64), &hopper(), &winner).unwrap();
    (store, winner.ranked.config)
}

/// The config that the model likes least.
fn tuned(selection: &Selection) -> Tuned {
    let ranked = selection.candidates(&hopper()).pop().unwrap();
    Tuned { ranked, sampled: Sampled { median_ms: 0.125, runs: 100 } }
}

fn only_file(store: &TuningStore) -> PathBuf {
    let [stored] = &store.entries().unwrap()[..] else { panic!("one entry") };
    stored.path.clone()
}

#[test]
fn a_winner_is_found_again_by_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let (_, winner) = stored(folder.path());
    let store = TuningStore::beside(&Cache::at(folder.path()));
    assert_eq!(store.winner(&selection(64), &hopper()), Some(winner.clone()));
    assert_eq!(store.config(&selection(64), &hopper()).unwrap(), winner);
    let entry = store.entries().unwrap().remove(0).content.unwrap();
    assert_eq!((entry.config, entry.median_ms), (winner.to_string(), 0.125));
}

#[test]
fn times_beside_another_library_are_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let (store, winner) = stored(folder.path());
    let graph = selection(64).supported().graph().key();
    let times = Rivals { ours_ms: 0.1 + 0.2, theirs_ms: 1e-3 };
    assert_eq!(store.rivals(graph, "cudnn 91900", &hopper()), None);
    store.put_rivals(graph, "cudnn 91900", &hopper(), times).unwrap();
    assert_eq!(store.rivals(graph, "cudnn 91900", &hopper()), Some(times));
    assert_eq!(store.rivals(graph, "cudnn 92801", &hopper()), None);
    assert_eq!(store.winner(&selection(64), &hopper()), Some(winner));
    assert_eq!(store.entries().unwrap().iter().filter(|entry| entry.content.is_ok()).count(), 2);
}

/// Bundles that name these configs for `selection(64)` on [`hopper`], without binaries that anybody asks for.
fn bundles(configs: &[&str]) -> Vec<Arc<Bundle>> {
    let bundle = |config: &&str| {
        let graph = selection(64).supported().graph().key();
        let request = Request { graph, engine: "scalar", config, source: "", capability: hopper().capability };
        let (images, log, resources, warnings) = Default::default();
        let mut bundle = Bundle::new();
        bundle.put(&request, &hopper(), Arc::new(Cubin { images, log, resources, warnings, milliseconds: 0.0 }));
        Arc::new(bundle)
    };
    configs.iter().map(bundle).collect()
}

#[test]
fn what_a_bundle_has_comes_before_winners_and_what_the_model_likes() {
    let folder = tempfile::tempdir().unwrap();
    let (_, winner) = stored(folder.path());
    let configs: Vec<_> = selection(64).candidates(&hopper());
    let [first, second] = [0, 1].map(|place| configs[place].config.clone());
    assert!(winner != second && first != second);
    let store = |names: &[&str]| TuningStore::beside(&Cache::at(folder.path()).with_bundles(bundles(names)));
    // a bundle whose config the engine does not offer is passed over
    let second_name = second.to_string();
    let of_second = store(&["scalar threads=1", &second_name]);
    assert_eq!(of_second.config(&selection(64), &hopper()).unwrap(), second);
    assert_eq!(store(&["scalar threads=1"]).config(&selection(64), &hopper()).unwrap(), winner);
    let mut ordered = configs.clone();
    of_second.put_bundled_first(&selection(64), &hopper(), &mut ordered);
    let expected = [&configs[1..2], &configs[..1], &configs[2..]].concat();
    assert_eq!(ordered, expected);
    store(&["scalar threads=1"]).put_bundled_first(&selection(64), &hopper(), &mut ordered);
    assert_eq!(ordered, expected);
}

#[test]
fn without_a_winner_the_model_chooses() {
    let folder = tempfile::tempdir().unwrap();
    let first = selection(64).candidates(&hopper()).swap_remove(0).config;
    for cache in [Cache::memory_only(), Cache::at(folder.path().join("absent"))] {
        let store = TuningStore::beside(&cache);
        assert_eq!(store.winner(&selection(64), &hopper()), None);
        assert_eq!(store.config(&selection(64), &hopper()).unwrap(), first);
        assert!(store.entries().unwrap().is_empty());
        assert_eq!(store.clear().unwrap(), 0);
    }
}

#[test]
fn a_device_that_no_config_fits_is_an_error() {
    let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
    let [a, b] = ["a", "b"].map(|name| graph.tensor(Tensor::new(name).row_major([1, 64, 64])));
    let c = graph.matmul("mm", a, b);
    graph.set_output(c);
    let selection = engine::select(&Arc::new(graph.finalize().unwrap()), ComputeCapability::SM_90).unwrap();
    let tiny = Device { shared_bytes_per_block: 1, ..hopper() };
    let error = TuningStore::beside(&Cache::memory_only()).config(&selection, &tiny).unwrap_err();
    assert!(
        matches!(&error, Error::NotSupported(cause) if cause.to_string().contains("1 bytes of shared memory")),
        "{error}"
    );
}

#[test]
fn without_a_disk_nothing_is_kept() {
    let store = TuningStore::beside(&Cache::memory_only());
    store.put(&selection(64), &hopper(), &tuned(&selection(64))).unwrap();
    assert_eq!(store.winner(&selection(64), &hopper()), None);
}

#[test]
fn a_winner_holds_for_its_graph_and_device_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (store, winner) = stored(folder.path());
    assert_eq!(store.winner(&selection(128), &hopper()), None);
    let others = [
        Device { name: "another".to_owned(), ..hopper() },
        Device { sm_count: 66, ..hopper() },
        Device { l2_bytes: 30 << 20, ..hopper() },
        Device { shared_bytes_per_block: 1 << 16, ..hopper() },
    ];
    for other in others {
        assert_eq!(store.winner(&selection(64), &other), None, "{other:?}");
    }
    // Bandwidth is a measurement, which never comes out the same.
    let measured = Device { bytes_per_second: 1e12, ..hopper() };
    assert_eq!(store.winner(&selection(64), &measured), Some(winner));
}

#[test]
fn a_later_winner_replaces_an_earlier_one() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = stored(folder.path());
    let ranked = selection(64).candidates(&hopper()).swap_remove(1);
    let later = Tuned { ranked, ..tuned(&selection(64)) };
    store.put(&selection(64), &hopper(), &later).unwrap();
    assert_eq!(store.winner(&selection(64), &hopper()), Some(later.ranked.config));
    assert_eq!(store.entries().unwrap().len(), 1);
}

#[test]
fn a_damaged_entry_is_a_miss_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (store, winner) = stored(folder.path());
    let file = only_file(&store);
    let good = fs::read(&file).unwrap();
    for bad in [&good[..good.len() - 2], b"", b"something else\n", &vec![b'x'; 1 << 17], b"\xff\n\n"] {
        fs::write(&file, bad).unwrap();
        assert_eq!(store.winner(&selection(64), &hopper()), None);
        assert!(store.entries().unwrap()[0].content.is_err());
        stored(folder.path());
        assert_eq!(store.winner(&selection(64), &hopper()), Some(winner.clone()));
    }
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert_eq!(store.winner(&selection(64), &hopper()), None);
}

#[test]
fn a_foreign_entry_under_the_right_name_is_a_miss() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = stored(folder.path());
    let of_64 = only_file(&store);
    store.put(&selection(128), &hopper(), &tuned(&selection(128))).unwrap();
    let mut files = store.entries().unwrap().into_iter().map(|stored| stored.path);
    fs::copy(&of_64, files.find(|path| *path != of_64).unwrap()).unwrap();
    assert_eq!(store.winner(&selection(128), &hopper()), None);
    let damages = store.entries().unwrap().into_iter().filter_map(|stored| stored.content.err());
    assert_eq!(damages.collect::<Vec<_>>(), ["is the entry of another key"]);
}

#[test]
fn a_config_that_the_engine_does_not_offer_is_a_miss() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = stored(folder.path());
    for text in ["scalar threads=7", "scalar", "warpgroup_mma tile_m=128", "scalar threads=x", ""] {
        let mut entry = store.entries().unwrap().remove(0).content.unwrap();
        entry.config = text.to_owned();
        fs::write(only_file(&store), entry.encode()).unwrap();
        assert_eq!(store.winner(&selection(64), &hopper()), None, "{text}");
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_an_error_of_the_environment() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let store = TuningStore::beside(&Cache::at(file.path()));
    let error = store.put(&selection(64), &hopper(), &tuned(&selection(64))).unwrap_err();
    assert_eq!(error.exit_code(), 3);
    assert_eq!(store.winner(&selection(64), &hopper()), None);
}

#[test]
fn a_folder_that_others_may_write_is_neither_read_nor_written() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (store, winner) = stored(folder.path());
    for path in [folder.path().to_owned(), folder.path().join(FOLDER)] {
        fs::set_permissions(&path, fs::Permissions::from_mode(0o770)).unwrap();
        assert_eq!(store.winner(&selection(64), &hopper()), None);
        for error in [
            store.put(&selection(128), &hopper(), &tuned(&selection(128))).unwrap_err(),
            store.entries().unwrap_err(),
            store.clear().unwrap_err(),
        ] {
            let cause = std::error::Error::source(&error).unwrap().to_string();
            assert!(cause.contains("mode 0770"), "{cause}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    }
    assert_eq!(store.winner(&selection(64), &hopper()), Some(winner));
    assert_eq!(store.entries().unwrap().len(), 1);
}

#[test]
fn clear_leaves_other_files_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = stored(folder.path());
    let tuning = folder.path().join(FOLDER);
    fs::write(tuning.join("notes.txt"), "mine").unwrap();
    fs::write(tuning.join(".tmpabc.part"), "half").unwrap();
    assert_eq!(store.clear().unwrap(), 1);
    let left: Vec<_> = fs::read_dir(&tuning).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["notes.txt"]);
}

#[test]
fn the_folder_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    stored(&folder.path().join("cache"));
    for made in ["cache", "cache/tuning"] {
        assert_eq!(folder.path().join(made).metadata().unwrap().permissions().mode() & 0o777, 0o700, "{made}");
    }
}
