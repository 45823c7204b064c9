//! What goes wrong between the library's memory and its file, and how it is noticed (section 10).

use std::collections::BTreeSet;

use super::envelope::Dialect;
use super::error::Failure;
use super::node::NodeReading;
use super::tensors::{Entry, TensorTable};
use crate::graph::{Attributes, Port, ResampleMode};

/// Which nodes write and read each tensor object.
#[derive(Debug, Default)]
pub(super) struct Uses {
    producers: Vec<Vec<usize>>,
    /// One entry a port.
    consumers: Vec<Vec<usize>>,
}

impl Uses {
    pub(super) fn add(&mut self, node: usize, reading: &NodeReading) {
        reading.inputs.iter().for_each(|&(_, entry)| push(&mut self.consumers, entry, node));
        reading.outputs.iter().for_each(|&(_, entry)| push(&mut self.producers, entry, node));
    }

    /// Whether a node writes it and a node reads it.
    pub(super) fn is_intermediate(&self, entry: Entry) -> bool {
        !nodes(&self.producers, entry).is_empty() && !nodes(&self.consumers, entry).is_empty()
    }

    /// Refuses tensors that stand for several: names and whole objects are not unique in the first dialects
    /// (FEJ-31, FEJ-39).
    pub(super) fn check(&self, table: &TensorTable<'_>, dialect: Dialect) -> Result<(), Failure> {
        if dialect == Dialect::V2 {
            return Ok(());
        }
        (0..table.len()).try_for_each(|entry| self.check_tensor(entry, table, dialect))
    }

    fn check_tensor(&self, entry: Entry, table: &TensorTable<'_>, dialect: Dialect) -> Result<(), Failure> {
        let (producers, consumers) = (nodes(&self.producers, entry), nodes(&self.consumers, entry));
        let name = table.object(entry).text("name")?.unwrap_or_default();
        let ambiguous = |rule, nodes: &[usize]| Failure::new(rule, ambiguity(name, nodes));
        if producers.len() > 1 {
            return Err(ambiguous("FEJ-31", producers));
        }
        let own = producers.iter().find(|producer| consumers.contains(producer));
        if let Some(own) = own.filter(|_| table.uid(entry, dialect).is_none()) {
            let message = format!("ambiguous tensor name '{}': node {own} reads its own output", name.escape_debug());
            return Err(Failure::new("FEJ-31", message));
        }
        let is_nameless = name.is_empty() && table.uid(entry, dialect).is_none();
        if !is_nameless || producers.len() + consumers.len() < 2 {
            return Ok(());
        }
        let users: Vec<usize> = producers.iter().chain(consumers).copied().collect();
        match dialect {
            // Equal text is the same tensor where only one node can have made it, or where it is a constant.
            Dialect::V1A if producers.len() == 1 && table.is_virtual(entry) => Ok(()),
            Dialect::V1A if producers.is_empty() && table.is_constant(entry) => Ok(()),
            Dialect::V1A => Err(ambiguous("FEJ-39", &users)),
            _ => Err(ambiguous("FEJ-31", &users)),
        }
    }
}

fn push(uses: &mut Vec<Vec<usize>>, entry: Entry, node: usize) {
    if uses.len() <= entry {
        uses.resize(entry + 1, Vec::new());
    }
    uses[entry].push(node);
}

fn nodes(uses: &[Vec<usize>], entry: Entry) -> &[usize] {
    uses.get(entry).map_or(&[], Vec::as_slice)
}

fn ambiguity(name: &str, nodes: &[usize]) -> String {
    let shown: Vec<String> = nodes.iter().take(8).map(usize::to_string).collect();
    let more = if nodes.len() > shown.len() { ", …" } else { "" };
    format!("ambiguous tensor name '{}' (nodes {}{more})", name.escape_debug(), shown.join(", "))
}

/// What a node gives cause to say.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) warnings: Vec<String>,
    pub(super) not_in_dump: BTreeSet<&'static str>,
    pub(super) may_lack_ragged_offsets: bool,
}

/// First frontend version in which the block mask and the epsilon of a backward layer norm have ports of their own.
const PORTS_REPAIRED: i64 = 12400;
/// First frontend version that writes ragged offsets.
const RAGGED_OFFSETS_WRITTEN: i64 = 12000;
/// First frontend version whose pointwise result is the broadcast of all inputs.
const BROADCAST_OF_ALL: i64 = 10600;

/// Looks for the known hazards of one node.
pub(super) fn check_node(node: &NodeReading, table: &TensorTable<'_>, version: i64) -> Result<Findings, Failure> {
    let mut findings = Findings { not_in_dump: lost(node), ..Findings::default() };
    let tag = node.attributes.tag();
    if version < PORTS_REPAIRED && tag.starts_with("SDPA") && is_block_mask(node, table)? {
        let message = "port Q holds a block mask, which hid Q; log with frontend 1.24 or later";
        return Err(Failure::new("FEJ-34", message));
    }
    if version < PORTS_REPAIRED && tag == "LAYER_NORM_BPROP" && is_single_element(&dim(node, Port::DY, table)?) {
        let message = "port DY holds one element: epsilon hid DY; log with frontend 1.24 or later";
        return Err(Failure::new("FEJ-35", message));
    }
    if let Attributes::Other(other) = &node.attributes {
        let is_padded = other.attributes.get("padding_mask") == Some(&serde_json::Value::Bool(true));
        findings.may_lack_ragged_offsets = is_padded && version < RAGGED_OFFSETS_WRITTEN;
    }
    if version < BROADCAST_OF_ALL && tag == "POINTWISE" && is_first_input_broadcast(node, table)? {
        let older = "frontends before 1.6 gave the result the dims of IN_0";
        findings.warnings.push(format!("IN_0 is broadcast; {older}, here it has those of all inputs [FEJ-23]"));
    }
    Ok(findings)
}

fn entry(ports: &[(Port, Entry)], port: Port) -> Option<Entry> {
    ports.iter().find(|slot| slot.0 == port).map(|slot| slot.1)
}

fn dim(node: &NodeReading, port: Port, table: &TensorTable<'_>) -> Result<Vec<i64>, Failure> {
    entry(&node.inputs, port).map_or(Ok(Vec::new()), |entry| table.object(entry).integers("dim"))
}

/// Q is a mask if its type is UINT8, or its head size is not K's, however K is laid out (FEJ-34).
fn is_block_mask(node: &NodeReading, table: &TensorTable<'_>) -> Result<bool, Failure> {
    let Some(q) = entry(&node.inputs, Port("Q")) else { return Ok(false) };
    let (q_dim, k_dim) = (dim(node, Port("Q"), table)?, dim(node, Port("K"), table)?);
    let is_misfit =
        q_dim.last().is_some_and(|size| !k_dim.is_empty() && !k_dim.iter().rev().take(2).any(|k| k == size));
    Ok(is_misfit || table.object(q).text("data_type")? == Some("UINT8"))
}

fn is_single_element(dim: &[i64]) -> bool {
    !dim.is_empty() && dim.iter().all(|&extent| extent == 1)
}

/// Whether the result's dims are to be inferred, and IN_0 is smaller than another input (FEJ-23).
fn is_first_input_broadcast(node: &NodeReading, table: &TensorTable<'_>) -> Result<bool, Failure> {
    let result = entry(&node.outputs, Port::OUT_0);
    let is_known = result.map_or(Ok(true), |entry| table.object(entry).integers("dim").map(|dim| !dim.is_empty()))?;
    let first = dim(node, Port::IN_0, table)?;
    if is_known || first.is_empty() {
        return Ok(false);
    }
    for port in [Port::IN_1, Port::IN_2] {
        let other = dim(node, port, table)?;
        let is_larger = other.len() > first.len() || other.iter().rev().zip(first.iter().rev()).any(|(o, f)| o > f);
        if is_larger {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What the library does not write for a node of this kind (FEJ-37).
fn lost(node: &NodeReading) -> BTreeSet<&'static str> {
    let has_fractions = |mode| matches!(mode, ResampleMode::Bilinear | ResampleMode::Nearest);
    let mut lost = BTreeSet::new();
    match &node.attributes {
        Attributes::ResampleForward(resample) if has_fractions(resample.mode) => {
            lost.insert("denominators of fractional windows and strides (taken as 1)");
        }
        Attributes::Other(other) if other.tag.starts_with("SDPA") => {
            lost.insert("score modifiers of attention");
            if other.tag.ends_with("BWD") {
                lost.insert("use_dbias of backward attention");
            }
        }
        Attributes::Other(other) if other.tag == "BLOCK_SCALE_QUANTIZE" => {
            lost.insert("the transpose flag of block-scale quantisation");
        }
        _ => {}
    }
    lost
}
