//! `fusewright compile --bundle`: the binaries of many graphs for several chips in one file.

use std::path::Path;
use std::sync::Arc;

use fusewright::build::Build;
use fusewright::compile::{Bundle, Cache, Compiled, Compiler, Options};
use fusewright::device::Device;
use fusewright::error::Error;
use rayon::prelude::*;

use super::arguments::CompileOptions;
use super::compile::{Compilers, chips, print};
use super::console::Console;
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
        let graph = Arc::new(graph);
        for &capability in chips(options) {
            let device = Device::typical(capability);
            match Build::in_mode(&graph, &device, options.mode) {
                Ok(build) if compilers.has(capability, console) => {
                    wanted.push(Wanted { place: place.clone(), device, build });
                }
                Ok(_) => {}
                Err(error) => console.fail(&files::locate(&place, error)),
            }
        }
        Ok(())
    })?;
    Ok(wanted)
}
