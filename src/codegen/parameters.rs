//! Spells the parameter list of a function.

use super::sections::Used;
use super::{names, told};
use crate::graph::FinalizedGraph;
use crate::kernel::{Function, Parameter, Register};

/// Characters of parameters on one line; where there are more, each has a line of its own.
const LINE: usize = 110;

/// `const fw_f16* __restrict__ p_t0, fw_f16* __restrict__ p_t2_add, …` in the order of the launch's parameters.
pub(super) fn spell(graph: &FinalizedGraph, function: &Function, used: &mut Used) -> String {
    let (loaded, stored) = function.body.touched();
    let mut partials = 0;
    let mut maps = 0;
    let spelled = function.launch.parameters.iter().map(|parameter| match *parameter {
        Parameter::Tensor(id) | Parameter::Intermediate { tensor: id, .. } => {
            used.add(names::storage_section(graph.tensor(id).data_type));
            let storage = names::storage_type(graph.tensor(id).data_type);
            let pointer = names::pointer(graph, id);
            match (loaded.contains(&id), stored.contains(&id)) {
                (true, true) => format!("{storage}* {pointer}"),
                (true, false) => format!("const {storage}* __restrict__ {pointer}"),
                (false, _) => format!("{storage}* __restrict__ {pointer}"),
            }
        }
        Parameter::Scalar(id) | Parameter::Constant { tensor: id, .. } => {
            let register = names::register_type(Register::of(graph.tensor(id).data_type));
            format!("const {register} {}", graph.canonical_name(id))
        }
        Parameter::Accumulators { is_integer, .. } => {
            let element = if is_integer { "int" } else { "float" };
            format!("{element}* __restrict__ accumulators")
        }
        Parameter::TensorMap(_) | Parameter::IntermediateMap { .. } => {
            used.add("fw_tensor_map");
            maps += 1;
            format!("const __grid_constant__ fw_tensor_map map{}", maps - 1)
        }
        Parameter::OwnRank { .. } => "const int own_rank".to_owned(),
        Parameter::AbsentRank => "unsigned* absent_rank".to_owned(),
        Parameter::FirstHead(_) => "const int first_head".to_owned(),
        // what is told comes last, and is spelled with the text that reads it
        Parameter::Int(_) | Parameter::Long(_) => String::new(),
        Parameter::TileCounter { .. } => "unsigned* tile_counter".to_owned(),
        Parameter::Workspace { .. } => {
            partials += 1;
            format!("float* __restrict__ partial{}", partials - 1)
        }
    });
    let spelled: Vec<String> = spelled.collect();
    let length: usize = spelled.iter().map(|parameter| parameter.len() + 2).sum();
    let spelled = spelled.join(if length > LINE { ",\n" } else { ", " });
    if graph.is_dynamic() { told::with_room(&spelled) } else { spelled }
}
