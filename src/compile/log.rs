//! Reading NVRTC's log.
//!
//! With `--ptxas-options=-v` the log of a compilation that succeeded reads, per function,
//!
//! ```text
//! ptxas info    : Compiling entry function 'k' for 'sm_90a'
//! ptxas info    : Function properties for k
//! ptxas         .     800 bytes stack frame, 948 bytes spill stores, 1004 bytes spill loads
//! ptxas info    : Used 32 registers, used 1 barriers, 256 bytes smem
//! ```
//!
//! Unknown lines and missing numbers are passed over: the log is a courtesy, not an interface.

use super::FunctionResources;

/// The functions of a log, in its order.
pub(super) fn resources(log: &str) -> Vec<FunctionResources> {
    let mut functions: Vec<FunctionResources> = Vec::new();
    // A device function that was not inlined has properties, but is no entry and has no line of registers.
    let mut entry = None;
    for line in log.lines() {
        if let Some(name) = between(line, "Compiling entry function '", "'") {
            functions.push(named(name));
            entry = Some(functions.len() - 1);
        } else if let Some(name) = between(line, "Function properties for ", "\n") {
            if functions.last().is_none_or(|last| last.function != name) {
                functions.push(named(name));
            }
        } else if line.contains("bytes stack frame") {
            if let Some(function) = functions.last_mut() {
                function.stack = number_before(line, " bytes stack frame");
                function.spill_stores = number_before(line, " bytes spill stores");
                function.spill_loads = number_before(line, " bytes spill loads");
            }
        } else if line.contains("Used ")
            && let Some(function) = entry.and_then(|entry| functions.get_mut(entry))
        {
            function.registers = number_before(line, " registers");
            function.shared = number_before(line, " bytes smem");
        }
    }
    functions
}

/// The lines that carry an assembler message `C75xx`.
pub(super) fn warnings(log: &str) -> Vec<String> {
    log.lines().filter(|line| has_c75_code(line)).map(|line| line.trim().to_owned()).collect()
}

fn has_c75_code(line: &str) -> bool {
    let starts_with_two_digits = |rest: &str| rest.bytes().take(2).filter(u8::is_ascii_digit).count() == 2;
    line.split("C75").skip(1).any(starts_with_two_digits)
}

fn named(name: &str) -> FunctionResources {
    FunctionResources { function: name.to_owned(), ..FunctionResources::default() }
}

/// The text after `start` up to `end`, or up to the end of the line.
fn between<'a>(line: &'a str, start: &str, end: &str) -> Option<&'a str> {
    let rest = line.split_once(start)?.1;
    Some(rest.split_once(end).map_or(rest, |pair| pair.0).trim())
}

/// The number that ends right before `unit`; 0 where there is none.
fn number_before(line: &str, unit: &str) -> u32 {
    let Some((before, _)) = line.split_once(unit) else { return 0 };
    let digits = before.len() - before.bytes().rev().take_while(u8::is_ascii_digit).count();
    before[digits..].parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'heavy' for 'sm_90a'
ptxas info    : Function properties for heavy
ptxas         .     800 bytes stack frame, 948 bytes spill stores, 1004 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 800 bytes cumulative stack size, 256 bytes smem, 364 bytes cmem[0]
ptxas info    : Compile time = 68.435 ms
ptxas info    : Compiling entry function 'scale' for 'sm_90a'
ptxas info    : Function properties for scale
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 1 barriers
ptxas info    : Function properties for _Z6helperPf
ptxas         .     16 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
";

    #[test]
    fn every_function_is_read() {
        let functions = resources(LOG);
        let heavy = FunctionResources {
            function: "heavy".to_owned(),
            registers: 32,
            spill_stores: 948,
            spill_loads: 1004,
            stack: 800,
            shared: 256,
        };
        let scale = FunctionResources { registers: 10, ..named("scale") };
        let helper = FunctionResources { stack: 16, ..named("_Z6helperPf") };
        assert_eq!(functions, [heavy, scale, helper]);
    }

    #[test]
    fn strange_logs_give_nothing() {
        assert_eq!(resources(""), []);
        assert_eq!(resources("Used 99999999999999999999 registers\n 4 bytes stack frame"), []);
        let huge = resources("Compiling entry function 'k\nUsed 99999999999999999999 registers, é bytes smem");
        assert_eq!(huge, [named("k")]);
    }

    #[test]
    fn only_c75_codes_are_warnings() {
        let log =
            "ptxas info : (C7508) Potential Performance Loss: wgmma is serialized\nptxas info : C75 C751x C8412\n";
        assert_eq!(warnings(log), ["ptxas info : (C7508) Potential Performance Loss: wgmma is serialized"]);
    }
}
