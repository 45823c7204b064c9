//! `fusewright doctor`: what was found on this machine, and how to get what is missing.

use std::error::Error as _;
use std::path::Path;

use fusewright::compile::{Bundle, Cache, Nvrtc};
use fusewright::emulator;
use fusewright::error::Error;
use fusewright::plan::Driver;

use super::console::{Console, Style};
use super::outcome::{self, Outcome};
use super::{plain, units};

/// Looks for everything that could be used, in the order in which a graph meets it. The CPU engine is always there;
/// the outcome is bad where generated code can be neither compiled nor run.
pub(super) fn run(console: &mut Console) -> outcome::Result<()> {
    console.line(format_args!("fusewright   {}", env!("CARGO_PKG_VERSION")))?;
    let has_nvrtc = nvrtc(console)?;
    let has_gpu = driver(console)?;
    let has_emulator = emulator(console)?;
    cache(console)?;
    bundles(console)?;
    console.line(summary(has_nvrtc, has_gpu, has_emulator))?;
    if !has_nvrtc && !has_emulator {
        console.note_outcome(Outcome::Environment);
    }
    Ok(())
}

fn summary(has_nvrtc: bool, has_gpu: bool, has_emulator: bool) -> &'static str {
    match (has_nvrtc, has_gpu, has_emulator) {
        (true, true, _) => "graphs run on the GPU",
        (false, true, _) => "graphs cannot be compiled for the GPU without NVRTC; they run on the CPU engine",
        (_, false, true) => "graphs run on the CPU engine, and generated kernels in the emulator",
        (true, false, false) => "graphs run on the CPU engine; generated kernels can be compiled, not run",
        (false, false, false) => "graphs run on the CPU engine; generated kernels can be neither compiled nor run",
    }
}

fn nvrtc(console: &mut Console) -> outcome::Result<bool> {
    if let Err(error) = Nvrtc::load() {
        return absent(console, "NVRTC", &error).map(|()| false);
    }
    for nvrtc in [13, 12].map(Nvrtc::load_version).iter().flatten() {
        console.line(format_args!("NVRTC        {} in {}", nvrtc.version(), plain::path(nvrtc.path())))?;
    }
    Ok(true)
}

fn driver(console: &mut Console) -> outcome::Result<bool> {
    let driver = match Driver::load() {
        Ok(driver) => driver,
        Err(error) => return absent(console, "CUDA driver", &error).map(|()| false),
    };
    let (major, minor) = driver.version();
    console.line(format_args!("CUDA driver  for CUDA {major}.{minor}"))?;
    for ordinal in 0..driver.device_count() {
        match driver.device(ordinal) {
            Ok(device) => console.line(format_args!(
                "cuda:{ordinal}       {}, {}, {} multiprocessors, {} of shared memory a block, {} of L2",
                device.name,
                device.capability,
                device.sm_count,
                units::bytes(device.shared_bytes_per_block.into()),
                units::bytes(device.l2_bytes),
            ))?,
            Err(error) => absent(console, &format!("cuda:{ordinal}"), &error)?,
        }
    }
    Ok(true)
}

fn emulator(console: &mut Console) -> outcome::Result<bool> {
    match emulator::compiler_version() {
        Ok(version) => console.line(format_args!("C++ compiler {version}, for the emulator"))?,
        Err(error) => return absent(console, "C++ compiler", &error).map(|()| false),
    }
    Ok(true)
}

fn cache(console: &mut Console) -> outcome::Result<()> {
    let cache = Cache::from_environment();
    let Some(folder) = cache.folder() else {
        return Ok(console.line("disk cache   off (FUSEWRIGHT_CACHE, or no home folder): every process compiles anew")?);
    };
    match cache.prepare().and_then(|()| writable(folder)) {
        Ok(()) => console.line(format_args!("disk cache   {}", plain::path(folder)))?,
        Err(error) => {
            let cause = error.source().map(|cause| format!(" ({cause})")).unwrap_or_default();
            let message =
                format!("{error}{cause}; set FUSEWRIGHT_CACHE_DIR to a folder that you can write, and nobody else");
            absent(console, "disk cache", &Error::environment(message))?;
        }
    }
    Ok(())
}

/// The bundles that the environment names; those that are not read are told in the log.
fn bundles(console: &mut Console) -> outcome::Result<()> {
    Bundle::of_environment().iter().try_for_each(|bundle| {
        Ok(console.line(format_args!("bundle       {}", units::plural(bundle.len(), "binary")))?)
    })
}

/// Makes a file in the folder.
fn writable(folder: &Path) -> Result<(), Error> {
    tempfile::tempfile_in(folder).map(drop).map_err(|source| Error::Environment {
        message: format!("{} cannot be written", plain::path(folder)),
        source: Some(Box::new(source)),
    })
}

fn absent(console: &mut Console, what: &str, error: &Error) -> outcome::Result<()> {
    let word = console.paint(Style::Refused, "missing");
    let text = error.to_string();
    let short = shortened(&text);
    if short != text {
        console.note(format_args!("{what}: {text}"));
    }
    Ok(console.line(format_args!("{what:<12} {word}: {short}"))?)
}

/// A message without the places where nothing is; those that hold something that cannot be used stay.
fn shortened(message: &str) -> String {
    let Some((what, places)) = message.split_once("; looked ") else { return message.to_owned() };
    let is_empty = |reason: &&str| reason.ends_with("not there") || reason.contains("cannot open shared object file");
    let (empty, found): (Vec<&str>, Vec<&str>) = places.split("\n  ").skip(1).partition(is_empty);
    if empty.is_empty() {
        // No list of places: one line that says all.
        return if is_empty(&places) { format!("{what} (-v: where it was looked for)") } else { message.to_owned() };
    }
    let found: String = found.iter().map(|reason| format!("\n  {reason}")).collect();
    format!("{what} (-v: the {} places without one){found}", empty.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_that_hold_nothing_are_counted_and_what_cannot_be_used_is_told() {
        let message =
            "NVRTC was not found; install it; looked at:\n  /a: not there\n  /b: is version 11.8\n  /c: not there";
        assert_eq!(
            shortened(message),
            "NVRTC was not found; install it (-v: the 2 places without one)\n  /b: is version 11.8"
        );
        let message = "no driver; looked for libcuda.so: libcuda.so: cannot open shared object file";
        assert_eq!(shortened(message), "no driver (-v: where it was looked for)");
        assert_eq!(shortened("a stub"), "a stub");
        let message = "no driver; looked for libcuda.so: wrong ELF class";
        assert_eq!(shortened(message), message);
    }
}
