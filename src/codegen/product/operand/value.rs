//! Spells the function that gives an operand's piece: an element, or a vector in registers.

use std::collections::BTreeSet;

use serde::Serialize;

use super::Side;
use super::pairs::{self, Pairs};
use crate::codegen::index::index_type;
use crate::codegen::names;
use crate::codegen::sections::Used;
use crate::codegen::sweep::SweepSpeller;
use crate::codegen::template::{self, template};
use crate::error::Error;
use crate::graph::DataType;
use crate::kernel::{Fetch, MmaType, Multiply, Register, Variable, Wgmma};

/// What `product/operand/value.cuh` reads.
#[derive(Serialize)]
struct ValueText {
    /// `a` or `b`.
    name: &'static str,
    title: String,
    /// What it gives, in words.
    piece: String,
    arguments: String,
    result: String,
    /// Condition under which the piece exists, where it chooses between the value and zero.
    choice: Option<String>,
    coordinates: Vec<String>,
    /// Condition under which the piece exists, where zero is returned early.
    guard: Option<String>,
    zero: &'static str,
    before: Vec<String>,
    points: Option<PointsText>,
    value: String,
}

/// The loop over the points of a vector.
#[derive(Serialize)]
struct PointsText {
    /// Declaration of what collects them.
    room: String,
    count: i64,
    body: Vec<String>,
    /// Statement that keeps a point.
    keep: String,
}

/// How the function of an operand is called.
pub(in crate::codegen::product) struct Call {
    /// The function, declared.
    pub(in crate::codegen::product) function: String,
    /// Type of a piece.
    pub(in crate::codegen::product) result: String,
}

/// The function `operand_a` or `operand_b`.
///
/// # Errors
/// [`Error::Generated`] if the template fails: a defect of ours.
pub(in crate::codegen::product) fn value(used: &mut Used, side: Side<'_>) -> Result<Call, Error> {
    let (kernel, operand) = (side.kernel, side.operand());
    let vector = operand.sweep.vector;
    let element = Element::of(kernel.multiply);
    let values = Values::spell(used, side, &element);
    let storage = element.storage();
    let result = match vector {
        _ if values.pack.is_some() => format!("fw_vector<unsigned, {}>", vector / 2),
        1 => storage.to_owned(),
        _ => format!("fw_vector<{storage}, {vector}>"),
    };
    if vector > 1 {
        used.add("fw_vector");
    }
    let placement = side.placement(&values.uses);
    let mut record = ValueText {
        name: side.name(),
        title: side.title(),
        piece: if vector > 1 { format!("{vector} elements") } else { "one element".to_owned() },
        arguments: arguments(side),
        choice: placement.choice,
        coordinates: placement.lines,
        guard: placement.guard,
        zero: if vector > 1 { "{}" } else { element.zero() },
        before: Vec::new(),
        points: None,
        value: String::new(),
        result,
    };
    values.fill(&mut record, vector);
    let result = record.result.clone();
    Ok(Call { function: template::render(template!("product/operand/value.cuh"), &record)?, result })
}

/// How the values of an operand come about.
struct Values {
    /// Function that rounds them two at a time.
    pack: Option<&'static str>,
    /// Whether a point is a pair of elements in one register.
    in_pairs: bool,
    before: Vec<String>,
    body: Vec<String>,
    /// The value of a point: an element, or a pair.
    value: String,
    /// The coordinates that all of this reads.
    uses: BTreeSet<Variable>,
}

impl Values {
    fn spell(used: &mut Used, side: Side<'_>, element: &Element) -> Self {
        let (graph, operand) = (side.graph, side.operand());
        let raw = match operand.fetch {
            Fetch::Transformed(map) | Fetch::Fragments(map) => Some((map.tensor, "raw".to_owned())),
            _ => None,
        };
        let variables = operand.coordinates.iter().map(|coordinate| coordinate.quantity);
        let mut speller = SweepSpeller::new(graph, used, &operand.sweep, &[]);
        speller = speller.with_variables(variables).with_reads_from(raw);
        let pack = pack(side, element);
        if pack.is_none() {
            speller.speller.consume(operand.tensor);
        }
        if let Some(pairs) = pack.and_then(|_| pairs::pairs(&mut speller, operand.tensor)) {
            let Pairs { before, body, value } = pairs;
            return Self { pack, in_pairs: true, before, body, value, uses: speller.uses };
        }
        let (before, body) = speller.values_alone();
        let value = match pack {
            Some(pack) => {
                let value = speller.speller.unrounded(operand.tensor);
                speller.speller.used.add(pack);
                speller.speller.used.add(names::storage_section(element.data_type()));
                value
            }
            None => {
                let value = speller.speller.value(operand.tensor);
                let register = Register::of(graph.tensor(operand.tensor).data_type);
                let used = &mut *speller.speller.used;
                let value = element.spell(used, register, &value);
                rounded(used, &side.kernel.multiply, value)
            }
        };
        Self { pack, in_pairs: false, before, body, value, uses: speller.uses }
    }

    /// Says how a piece of so many elements is computed.
    fn fill(self, record: &mut ValueText, vector: i64) {
        record.before = self.before;
        let result = &record.result;
        let pairs = format!("{result} out;");
        let (room, keep, out) = match (self.in_pairs, self.pack) {
            (true, _) if vector == 2 => {
                record.before.extend(self.body);
                let pair = self.value;
                record.value = match &record.choice {
                    Some(choice) => format!("{{{choice} ? {pair} : 0}}"),
                    None => format!("{{{pair}}}"),
                };
                return;
            }
            // never chosen: what comes in boxes is computed in vectors
            (false, _) if vector == 1 => {
                record.before.extend(self.body);
                record.value = self.value;
                return;
            }
            (false, Some(pack)) => {
                (format!("float out[{vector}];"), format!("out[e] = {};", self.value), format!("{pack}(out)"))
            }
            _ => (pairs, format!("out.at[e] = {};", self.value), "out".to_owned()),
        };
        record.value = match &record.choice {
            Some(choice) => format!("{choice} ? {out} : {result}{{}}"),
            None => out,
        };
        let count = if self.in_pairs { vector / 2 } else { vector };
        record.points = Some(PointsText { room, count, body: self.body, keep });
    }
}

/// Values of a stage in the type in which they are multiplied, FP16 or BF16, are rounded two at a time.
fn pack(side: Side<'_>, element: &Element) -> Option<&'static str> {
    let operand = side.operand();
    let data_type = side.graph.tensor(operand.tensor).data_type;
    let is_computed = matches!(operand.fetch, Fetch::Vector | Fetch::Transformed(_) | Fetch::Fragments(_));
    let of_matrix_instructions = !matches!(side.kernel.multiply, Multiply::Fma(_));
    let pairs = is_computed && of_matrix_instructions && operand.sweep.vector % 2 == 0;
    match data_type {
        DataType::Half if pairs && element.data_type() == data_type => Some("fw_pack_f16"),
        DataType::BFloat16 if pairs && element.data_type() == data_type => Some("fw_pack_bf16"),
        _ => None,
    }
}

/// What `wgmma` reads as TF32 is rounded on its way to shared memory; the tensor core alone would cut bits off.
fn rounded(used: &mut Used, multiply: &Multiply, value: String) -> String {
    match multiply {
        Multiply::Wgmma(Wgmma { operand: MmaType::Tf32, .. }) => {
            used.add("fw_as_tf32");
            format!("fw_as_tf32({value})")
        }
        _ => value,
    }
}

/// The parameters of the function: m and k, or k and n, and where in shared memory the piece lies that is transformed.
fn arguments(side: Side<'_>) -> String {
    let index = index_type(side.kernel.wide_index);
    let at = match side.slot {
        0 if side.takes_column() => format!("{index} m, {index} k0, {index} column"),
        0 => format!("{index} m, {index} k"),
        _ => format!("{index} k, {index} n"),
    };
    match side.operand().fetch {
        Fetch::Transformed(map) | Fetch::Fragments(map) => {
            let storage = names::storage_type(side.graph.tensor(map.tensor).data_type);
            format!("{at}, const {storage}* raw")
        }
        _ => at,
    }
}

/// What is in shared memory.
enum Element {
    Register(Register),
    Mma(MmaType),
}

impl Element {
    fn of(multiply: Multiply) -> Self {
        match multiply {
            Multiply::Fma(fma) => Self::Register(fma.accumulator),
            Multiply::Mma(mma) => Self::Mma(mma.operand),
            Multiply::Wgmma(wgmma) => Self::Mma(wgmma.operand),
        }
    }

    fn data_type(&self) -> DataType {
        match self {
            Self::Register(Register::Float) | Self::Mma(MmaType::Tf32) => DataType::Float,
            Self::Register(_) => DataType::Int32,
            Self::Mma(MmaType::F16) => DataType::Half,
            Self::Mma(MmaType::Bf16) => DataType::BFloat16,
            Self::Mma(MmaType::S8 | MmaType::Fp8) => DataType::Int8,
        }
    }

    fn storage(&self) -> &'static str {
        names::storage_type(self.data_type())
    }

    fn zero(&self) -> &'static str {
        match self.data_type() {
            DataType::Half | DataType::BFloat16 => "{}",
            _ => "0",
        }
    }

    /// A value of the operand tensor as an element of the tile.
    fn spell(&self, used: &mut Used, register: Register, value: &str) -> String {
        let data_type = self.data_type();
        let same =
            matches!((register, data_type), (Register::Float, DataType::Float) | (Register::Int, DataType::Int32));
        used.add(names::storage_section(data_type));
        if same {
            return value.to_owned();
        }
        if register != Register::Float && data_type != DataType::Int8 {
            used.add("fw_f32");
            return names::to_storage(data_type, &names::to_storage(DataType::Float, value));
        }
        names::to_storage(data_type, value)
    }
}
