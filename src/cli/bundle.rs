//! `fusewright compile --bundle`: the binaries of many graphs for several chips in one file.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use fusewright::build::Build;
use fusewright::compile::{Bundle, Cache, Compiled, Compiler, Options};
use fusewright::device::Device;
use fusewright::engine::HeuristicMode;
use fusewright::error::Error;
use fusewright::graph::FinalizedGraph;
use rayon::prelude::*;

use super::arguments::CompileOptions;
use super::compile::{Compilers, as_asked, chips, print};
use super::console::Console;
use super::extent::ExtentRange;
use super::files::{self, LoadedGraph};
use super::outcome::Result;
use super::tensor_file::ResultFile;
use super::{plain, units};

/// A graph's kernel for a chip.
struct Wanted {
    place: String,
    device: Device,
    build: Build,
}

pub(super) fn run(options: &CompileOptions, file: &Path, console: &mut Console) -> Result<()> {
    let result = ResultFile::create(file)?;
    let compiler = Compiler::new(Cache::from_environment(), Options::default());
    let wanted = wanted(options, &compiler, console)?;
    let bar = console.bar(wanted.len());
    let compile = |wanted: &Wanted| {
        let compiled = wanted.build.compile(&compiler).map_err(|error| files::locate(&wanted.place, error));
        bar.inc(1);
        compiled
    };
    let compiled: Vec<std::result::Result<Compiled, Error>> = wanted.par_iter().map(compile).collect();
    bar.finish_and_clear();
    let mut bundle = Bundle::new();
    for (Wanted { place, device, build }, compiled) in wanted.iter().zip(compiled) {
        match compiled {
            Ok(Compiled { cubin, .. }) => {
                print(place, device.capability, &cubin, console)?;
                bundle.put(&build.request(), device, cubin);
            }
            Err(error) => console.fail(&error),
        }
    }
    if bundle.is_empty() {
        return Ok(console.line(format_args!("{}: not written, as there is no binary", plain::path(file)))?);
    }
    let (text, binaries) = (bundle.to_json(), units::plural(bundle.len(), "binary"));
    result.write(text.as_bytes())?;
    Ok(console.line(format_args!("{}: {binaries}, {}", plain::path(file), units::bytes(text.len() as u64)))?)
}

/// The kernels that are wanted: of graphs that run, for chips that an NVRTC knows.
fn wanted(options: &CompileOptions, compiler: &Compiler, console: &mut Console) -> Result<Vec<Wanted>> {
    let mut compilers = Compilers::of(compiler);
    let mut wanted = Vec::new();
    files::for_each(&options.files, options.graph.as_ref(), console, |loaded, console| {
        let LoadedGraph { place, graph, .. } = loaded;
        let graph = as_asked(options, graph)?;
        for &capability in chips(options) {
            let device = Device::typical(capability);
            let all = match &options.extent {
                Some(range) => in_all_sizes(&place, &graph, range, (&device, options.mode), console),
                None => vec![Build::in_mode(&graph, &device, options.mode).map(|build| (place.clone(), build))],
            };
            for built in all {
                match built {
                    Ok((place, build)) if compilers.has(capability, console) => {
                        wanted.push(Wanted { place, device: device.clone(), build });
                    }
                    Ok(_) => {}
                    Err(error) => console.fail(&files::locate(&place, error)),
                }
            }
        }
        Ok(())
    })?;
    Ok(wanted)
}

/// The kernels of a graph in all sizes of a range, each text once, with the first size that it is of; of failures that of the smallest size.
fn in_all_sizes(
    place: &str,
    graph: &FinalizedGraph,
    range: &ExtentRange,
    (device, mode): (&Device, HeuristicMode),
    console: &Console,
) -> Vec<std::result::Result<(String, Build), Error>> {
    let sizes: Vec<i64> = range.extents().collect();
    let bar = console.bar(sizes.len());
    let texts: Mutex<BTreeMap<String, (i64, Build)>> = Mutex::default();
    let build = |&extent: &i64| {
        let built = range
            .resized(graph, extent)
            .and_then(|graph| Build::in_mode(&Arc::new(graph), device, mode))
            .map_err(|error| files::locate(&range.name(extent), error));
        bar.inc(1);
        let build = match built {
            Ok(build) => build,
            Err(error) => return Some((extent, error)),
        };
        let mut texts = texts.lock().unwrap_or_else(PoisonError::into_inner);
        let first = texts.get(&build.source.text).map(|known| known.0);
        if first.is_none_or(|first| extent < first) {
            texts.insert(build.source.text.clone(), (extent, build));
        }
        None
    };
    let failed = sizes.par_iter().filter_map(build).min_by_key(|failure| failure.0);
    bar.finish_and_clear();
    let mut texts: Vec<(i64, Build)> =
        texts.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect();
    texts.sort_by_key(|known| known.0);
    console.note(format_args!("{place}: {} sizes, {}", sizes.len(), units::plural(texts.len(), "binary")));
    let with_size = |extent| format!("{place} with {}", range.name(extent));
    let built = texts.into_iter().map(|(extent, build)| Ok((with_size(extent), build)));
    built.chain(failed.map(|failure| Err(failure.1))).collect()
}
