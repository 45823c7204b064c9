//! From a graph object of any dialect to a [`Graph`]: nodes in their order, tensors in the order of first use.

use std::collections::BTreeSet;

use serde_json::Value;

use super::envelope::{self, Dialect, Envelope};
use super::error::{Failure, MOST};
use super::fields::{Fields, Object};
use super::hazards::{self, Uses};
use super::numbering::Numbering;
use super::tensors::{self, Entry, TensorTable};
use super::{node, python};
use crate::graph::{DataType, Graph, Operation, Port, Tensor, TensorHandle};

/// A graph, and what there is to say about its file.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) graph: Graph,
    pub(super) warnings: Vec<String>,
    pub(super) not_in_dump: BTreeSet<&'static str>,
    pub(super) ignored_keys: BTreeSet<String>,
    /// Ragged offsets were not written by this version, and the graph may have some (FEJ-36).
    pub(super) may_lack_ragged_offsets: bool,
}

/// Reads a graph object. Nothing is inferred: what is unset stays unset.
pub(super) fn read(root: &Object) -> Result<Reading, Failure> {
    let envelope = envelope::read(root)?;
    if envelope.dialect == Dialect::Python {
        let translated = python::translate(root)?;
        return read_translated(&translated, envelope);
    }
    read_translated(root, envelope)
}

fn read_translated(root: &Object, envelope: Envelope) -> Result<Reading, Failure> {
    let mut reader = Reader {
        table: TensorTable::new(root.get("tensors"), envelope.dialect)?,
        numbering: Numbering::default(),
        uses: Uses::default(),
        reading: Reading {
            graph: Graph::new(),
            warnings: envelope.warnings,
            not_in_dump: BTreeSet::new(),
            ignored_keys: envelope.ignored_keys.into_iter().collect(),
            may_lack_ragged_offsets: false,
        },
        dialect: envelope.dialect,
        version: envelope.version,
    };
    envelope::read_context(root, &mut reader.reading.graph)?;
    let mut failures = Vec::new();
    for (index, node) in Fields(root).array("nodes")?.iter().enumerate() {
        if let Err(failure) = reader.read_node(node, index) {
            failures.push(failure.at_node(|| node::describe(node, index)));
            if failures.len() == MOST {
                break;
            }
            reader.number_references(node);
        }
    }
    if failures.is_empty() {
        // Who uses what is known of complete nodes alone.
        reader.uses.check(&reader.table, envelope.dialect)?;
    }
    reader.read_tensors(&mut failures);
    Failure::of_all(failures)?;
    reader.report_ignored();
    Ok(reader.reading)
}

struct Reader<'a> {
    table: TensorTable<'a>,
    numbering: Numbering,
    uses: Uses,
    reading: Reading,
    dialect: Dialect,
    version: i64,
}

impl<'a> Reader<'a> {
    fn read_node(&mut self, node: &'a Value, index: usize) -> Result<(), Failure> {
        let reading = node::read(node, &mut self.table, self.dialect)?;
        let found = hazards::check_node(&reading, &self.table, self.version)?;
        self.reading
            .warnings
            .extend(found.warnings.iter().map(|text| format!("{}: {text}", node::describe(node, index))));
        self.reading.may_lack_ragged_offsets |= found.may_lack_ragged_offsets;
        self.reading.not_in_dump.extend(found.not_in_dump);
        self.uses.add(index, &reading);
        let mut numbered = |ports: Vec<(Port, Entry)>| -> Vec<(Port, TensorHandle)> {
            ports.into_iter().map(|(port, entry)| (port, self.numbering.id(entry))).collect()
        };
        let (inputs, outputs) = (numbered(reading.inputs), numbered(reading.outputs));
        self.reading.ignored_keys.extend(reading.ignored_keys);
        self.reading.graph.operation(Operation {
            name: reading.name,
            attributes: reading.attributes,
            compute_data_type: reading.compute_data_type,
            inputs,
            outputs,
        });
        Ok(())
    }

    /// Numbers what a node refers to that cannot be read, so that its tensors are read all the same.
    fn number_references(&mut self, node: &'a Value) {
        for entry in node::references(node, &mut self.table, self.dialect) {
            self.numbering.id(entry);
        }
    }

    /// Reads the tensors that nodes use, then those that tensors use as ragged offsets.
    fn read_tensors(&mut self, failures: &mut Vec<Failure>) {
        let mut unlisted = Vec::new();
        let mut without_value = Vec::new();
        let mut index = 0;
        while let Some(entry) = self.numbering.entry(index)
            && failures.len() < MOST
        {
            index += 1;
            let read = self.read_tensor(entry).and_then(|read| Ok((read, self.ragged_offset(entry)?)));
            let ((tensor, lacks_value), offset) = match read {
                Ok(read) => read,
                Err(failure) => {
                    failures.push(failure.at_tensor(|| self.table.describe(entry, self.dialect)));
                    // Keeps the numbers of the tensors behind it.
                    self.reading.graph.tensor(Tensor::default());
                    continue;
                }
            };
            if lacks_value {
                without_value.push(self.table.describe(entry, self.dialect));
            }
            let id = self.reading.graph.tensor(tensor);
            match offset {
                Some(RaggedOffset::Listed(offset)) => {
                    self.reading.graph.tensor_mut(id).ragged_offset = Some(self.numbering.id(offset));
                }
                Some(RaggedOffset::Unlisted(offset)) => unlisted.push((id, offset)),
                None => {}
            }
        }
        self.report(index, &without_value);
        for (id, offset) in unlisted {
            let offset = self.reading.graph.tensor(offset);
            self.reading.graph.tensor_mut(id).ragged_offset = Some(offset);
        }
    }

    /// Keys of nodes and tensors that mean nothing here: a file may be newer, or a key mistyped.
    fn report_ignored(&mut self) {
        let keys: Vec<String> =
            self.reading.ignored_keys.iter().map(|key| format!("`{}`", key.escape_debug())).collect();
        if !keys.is_empty() {
            let word = if keys.len() == 1 { "key is" } else { "keys are" };
            self.reading.warnings.push(format!("{} {word} not read: {} [FEJ-11]", keys.len(), keys.join(", ")));
        }
    }

    fn read_tensor(&mut self, entry: Entry) -> Result<(Tensor, bool), Failure> {
        let (dialect, io) = (self.dialect, self.reading.graph.io_data_type);
        let reading = tensors::read(self.table.object(entry), dialect, self.version, io)?;
        self.reading.ignored_keys.extend(tensors::ignored(self.table.object(entry)));
        let describe = || self.table.describe(entry, dialect);
        self.reading.warnings.extend(reading.warnings.iter().map(|text| format!("tensor {}: {text}", describe())));
        let mut tensor = reading.tensor;
        if matches!(tensor.data_type, Some(DataType::Int8x4 | DataType::UInt8x4 | DataType::Int8x32)) {
            self.reading.not_in_dump.insert("vector counts and dimensions of packed integers");
        }
        if reading.lacks_is_virtual && tensor.uid.is_none() && self.uses.is_intermediate(entry) {
            tensor.is_virtual = true;
            self.reading.warnings.push(format!("tensor {}: guessed to be virtual [FEJ-13]", describe()));
        }
        Ok((tensor, reading.lacks_value))
    }

    fn ragged_offset(&self, entry: Entry) -> Result<Option<RaggedOffset>, Failure> {
        let fields = self.table.object(entry);
        let uid = fields.integer("ragged_offset_uid")?;
        let name = fields.text("ragged_offset_name")?;
        if uid.is_none() && name.is_none() {
            return Ok(None);
        }
        // In V1 an unassigned uid is written as 0, and the offset tensor is listed only where a node uses it too.
        let uid = uid.filter(|&uid| uid != 0 || self.dialect == Dialect::V2);
        let by_uid = uid.and_then(|uid| self.table.by_uid(uid).ok());
        let listed = by_uid.or_else(|| self.table.by_name(name?).ok());
        Ok(Some(match listed {
            Some(entry) => RaggedOffset::Listed(entry),
            None => RaggedOffset::Unlisted(Tensor { uid, ..Tensor::new(name.unwrap_or_default()) }),
        }))
    }

    /// Notes what concerns the tensors as a whole, once each.
    fn report(&mut self, used: usize, without_value: &[String]) {
        if let Some(first) = without_value.first() {
            let others = without_value.len() - 1;
            let more = if others > 0 { format!(" and {others} more") } else { String::new() };
            self.reading
                .warnings
                .push(format!("host scalar {first}{more} without a value: given at run time [FEJ-10]"));
        }
        if self.table.len() > used {
            let unused = self.table.len() - used;
            self.reading.warnings.push(format!(
                "{unused} listed {}, and left out",
                if unused == 1 { "tensor is used by no node" } else { "tensors are used by no node" }
            ));
        }
        if self.version < 13000 {
            self.reading.not_in_dump.insert("pointer alignments (taken as 16 bytes)");
        }
    }
}

enum RaggedOffset {
    Listed(Entry),
    Unlisted(Tensor),
}
