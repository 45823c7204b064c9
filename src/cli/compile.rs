//! `fusewright compile`: kernels through NVRTC, and what they need of the chip.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use fusewright::build::Build;
use fusewright::codegen::Source;
use fusewright::compile::{Cache, Compiler, Cubin, FunctionResources, Options};
use fusewright::device::{ComputeCapability, Device};
use fusewright::error::Error;
use fusewright::graph::FinalizedGraph;

use super::arguments::CompileOptions;
use super::console::{Console, Style};
use super::files::{self, LoadedGraph};
use super::outcome::Result;
use super::tensor_file::ResultFile;
use super::{plain, units};

pub(super) fn run(options: &CompileOptions, console: &mut Console) -> Result<()> {
    // No cache: the time shall be the compiler's.
    // A file has one image.
    let in_one_program = options.out.is_some();
    let compiler = Compiler::new(Cache::memory_only(), Options { in_one_program, ..Options::default() });
    let asked = chips(options);
    let mut compilers = Compilers::of(&compiler);
    let mut results = Results::default();
    files::for_each(&options.files, options.graph.as_ref(), console, |loaded, console| {
        let LoadedGraph { name, place, graph } = loaded;
        let graph = as_asked(options, graph)?;
        for &capability in asked {
            let build = match Build::in_mode(&graph, &Device::typical(capability), options.mode) {
                Ok(build) => build,
                Err(error) => {
                    console.fail(&files::locate(&place, error));
                    continue;
                }
            };
            if !compilers.has(capability, console) {
                continue;
            }
            let spinner = console.spinner(format!("{place} for {capability}"));
            let compiled = build.compile(&compiler).map_err(|error| files::locate(&place, error));
            spinner.finish_and_clear();
            match compiled {
                Ok(compiled) => {
                    print(&place, capability, &compiled.cubin, console)?;
                    results.add(&name, &place, capability, build.source, &compiled.cubin);
                }
                Err(error) => console.fail(&error),
            }
        }
        Ok(())
    })?;
    match &options.out {
        Some(folder) => Ok(results.write(folder)?),
        None => Ok(()),
    }
}

/// A graph, of dynamic shapes where these are asked for.
pub(super) fn as_asked(
    options: &CompileOptions,
    graph: FinalizedGraph,
) -> std::result::Result<Arc<FinalizedGraph>, Error> {
    let is_asked = options.dynamic || options.extent.is_some();
    let graph = if is_asked { graph.with_dynamic_shapes()? } else { graph };
    Ok(Arc::new(graph))
}

/// The chips that are compiled for.
pub(super) fn chips(options: &CompileOptions) -> &[ComputeCapability] {
    match &options.capabilities[..] {
        [] => &[ComputeCapability::SM_90],
        asked => asked,
    }
}

/// Which chips an NVRTC was found for: looked for once a graph needs it, and told once.
pub(super) struct Compilers<'a> {
    compiler: &'a Compiler,
    known: BTreeMap<ComputeCapability, bool>,
}

impl<'a> Compilers<'a> {
    pub(super) fn of(compiler: &'a Compiler) -> Self {
        Self { compiler, known: BTreeMap::new() }
    }

    /// Whether there is one; prints which, or why not, where that was not told yet.
    pub(super) fn has(&mut self, capability: ComputeCapability, console: &mut Console) -> bool {
        *self.known.entry(capability).or_insert_with(|| match self.compiler.nvrtc(capability) {
            Ok(nvrtc) => {
                console.note(format_args!("{capability}: NVRTC {} in {}", nvrtc.version(), plain::path(nvrtc.path())));
                true
            }
            Err(error) => {
                console.fail(&error);
                false
            }
        })
    }
}

pub(super) fn print(place: &str, capability: ComputeCapability, cubin: &Cubin, console: &mut Console) -> Result<()> {
    let milliseconds = cubin.milliseconds;
    let bytes = units::bytes(cubin.bytes());
    console.line(format_args!("{place} {capability}: {milliseconds:.1} ms, cubin of {bytes}"))?;
    for function in &cubin.resources {
        let FunctionResources { function, registers, spill_stores, spill_loads, stack, shared } = function;
        let spills = format!("{} bytes spilled", spill_stores + spill_loads);
        let spills = if spill_stores + spill_loads > 0 { console.paint(Style::Bad, spills) } else { spills };
        console.line(format_args!(
            "  {function}: {registers} registers, {spills}, {stack} bytes of stack, {shared} bytes of static shared memory"
        ))?;
    }
    for warning in &cubin.warnings {
        console.line(format_args!("  {}: {warning}", console.paint(Style::Bad, "warning")))?;
    }
    Ok(())
}

/// Files to be written once everything is compiled, by name; with the graph each belongs to.
#[derive(Default)]
struct Results {
    files: BTreeMap<String, (String, Vec<u8>)>,
    /// Two graphs that want the same file.
    clash: Option<String>,
}

impl Results {
    fn add(&mut self, name: &str, place: &str, capability: ComputeCapability, source: Source, cubin: &Cubin) {
        let stem = format!("{}.{}", file_stem(name), capability.target());
        for (suffix, content) in [("cu", source.text.into_bytes()), ("cubin", cubin.images.concat())] {
            let file = format!("{stem}.{suffix}");
            if let Some((other, _)) = self.files.get(&file) {
                self.clash = Some(format!("{place} and {other} both want the file {file}"));
            }
            self.files.insert(file, (place.to_owned(), content));
        }
    }

    /// Writes every file.
    ///
    /// # Errors
    /// [`Error::Input`] where two graphs want one file, before anything is written, or where the folder cannot be
    /// written; [`Error::Environment`] where the disk is full.
    fn write(self, folder: &Path) -> std::result::Result<(), Error> {
        let place = plain::path(folder);
        if let Some(clash) = self.clash {
            return Err(Error::input(place, format!("{clash}: name the graphs apart, or compile one with --graph")));
        }
        fs::create_dir_all(folder).map_err(|error| Error::input(&place, format!("cannot be made: {error}")))?;
        let ready =
            self.files.iter().map(|(file, (_, content))| Ok((ResultFile::create(&folder.join(file))?, content)));
        let ready = ready.collect::<std::result::Result<Vec<_>, Error>>()?;
        ready.into_iter().try_for_each(|(file, content)| file.write(content))
    }
}

/// A graph's name as a file's: letters, digits, `-`, `_` and inner dots stay.
fn file_stem(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.#".contains(c) { c } else { '_' };
    let stem: String = name.chars().map(plain).take(120).collect();
    if stem.starts_with('.') || stem.is_empty() { format!("_{stem}") } else { stem }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_files_cannot_leave_the_folder() {
        assert_eq!(file_stem("../etc/x y"), "_.._etc_x_y");
        assert_eq!(file_stem(""), "_");
        assert_eq!(file_stem("mm_bias.f16#2"), "mm_bias.f16#2");
        assert_eq!(file_stem(&"é".repeat(1000)).len(), 120);
    }
}
