//! What must be true of machine code whatever the assembler makes of a kernel's text.

use fusewright::codegen::Source;
use libtest_mimic::Failed;
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection};

/// Bytes of an instruction, from sm_70 on.
const INSTRUCTION: usize = 16;

/// The bits that tell what an instruction does, without the form of its operands.
const OPERATION: u16 = 0x1ff;

/// `ACQBULK`, the wait for the launch before (`griddepcontrol.wait`).
const WAIT: u16 = 0x02e;

/// Every way into global memory, by the names that nvdisasm gives them.
const MEMORY: &[(u16, &str)] = &[
    (0x180, "LD"),
    (0x181, "LDG"),
    (0x185, "ST"),
    (0x186, "STG"),
    (0x18a, "ATOM"),
    (0x18e, "RED"),
    (0x1a6, "RED of floats"),
    (0x1a8, "ATOMG"),
    (0x1a9, "ATOMG.CAS"),
    (0x1ae, "LDGSTS"),
    (0x1b4, "UTMALDG"),
    (0x1b5, "UTMASTG"),
];

/// Every launch that may start before the one before it has finished waits for that before it touches memory, also where
/// the assembler could move a load of read-only memory up.
pub(crate) fn waits_before_memory(source: &Source, images: &[Vec<u8>]) -> Result<(), Failed> {
    let files = images.iter().map(|image| ElfFile64::<object::Endianness>::parse(&**image));
    let files = files.collect::<Result<Vec<_>, _>>()?;
    for launch in source.launches.iter().filter(|launch| launch.starts_early) {
        let section = format!(".text.{}", launch.function);
        let found = files.iter().find_map(|file| file.section_by_name(&section));
        let code = found.ok_or_else(|| format!("no section {section}"))?.data()?;
        first_is_wait(code).map_err(|problem| format!("{}: {problem}", launch.function))?;
    }
    Ok(())
}

fn first_is_wait(code: &[u8]) -> Result<(), String> {
    let operations = code.chunks_exact(INSTRUCTION).map(|word| u16::from_le_bytes([word[0], word[1]]) & OPERATION);
    for (number, operation) in operations.enumerate() {
        if operation == WAIT {
            return Ok(());
        }
        if let Some((_, name)) = MEMORY.iter().find(|(memory, _)| *memory == operation) {
            return Err(format!("instruction {number}, {name}, comes before the wait for the launch before"));
        }
    }
    Err("it does not wait for the launch before".to_owned())
}
