//! The backward pass of an attention: one operation that carries its definition ([`AttentionBackward`]).

use super::{
    ALIGNMENT, FP8_BACKWARD, LEFT, RIGHT, SAID_BY_PORTS, SCALE_VALUE, alibi, dropout, mask, obstacle_of, scale, turn,
};
use crate::graph::backward_scaling::{FACTORS, LARGEST};
use crate::graph::draft::Draft;
use crate::graph::{AttentionBackward, Composite, Dropout, Malformed, Operation, OperationId, Port};

/// Ports of a node that the operation has, too.
const INPUTS: [Port; 11] = [
    Port::Q,
    Port::K,
    Port::V,
    Port::O,
    Port::DO,
    Port::STATS,
    Port::ATTN_SCALE,
    Port::ATTENTION_BIAS,
    Port::SEQ_LEN_Q,
    Port::SEQ_LEN_KV,
    Port::SINK_TOKEN,
];
const OUTPUTS: [Port; 5] = [Port::DQ, Port::DK, Port::DV, Port::ATTENTION_DBIAS, Port::DSINK_TOKEN];

/// Results are the same from run to run whatever is asked for (AT-P44).
const DETERMINISTIC: &str = "is_deterministic_algorithm";

/// What keeps a node from becoming the operation.
pub(super) fn obstacle(draft: &Draft, id: OperationId, operation: &Operation) -> Option<String> {
    let known = [SCALE_VALUE, LEFT, RIGHT, ALIGNMENT, DETERMINISTIC, alibi::FLAG];
    let mut keys: Vec<&str> = known.into_iter().chain(SAID_BY_PORTS).collect();
    let mut inputs = INPUTS.to_vec();
    let mut outputs = OUTPUTS.to_vec();
    if let Some(dropped) = dropout::dropped(operation) {
        keys.push(dropout::PROBABILITY);
        inputs.extend(dropout::INPUTS);
        outputs.extend((dropped != 0.0).then_some(Port::RNG_DUMP));
    } else {
        inputs.extend(dropout::MASK);
    }
    if operation.tag() == FP8_BACKWARD {
        inputs.extend(FACTORS);
        outputs.extend(LARGEST);
    }
    obstacle_of(draft, id, operation, [&inputs, &outputs], &keys)
}

/// The operation of a node; K and V lie as they are stored.
pub(super) fn operation(draft: &mut Draft, id: OperationId, node: &Operation) -> Result<Operation, Malformed> {
    let scale = scale(draft, id, node)?;
    let dropping = dropout::Dropping::of(draft, id, node)?;
    for port in [Port::K, Port::V] {
        turn(draft, node, port, false);
    }
    let dim = |port| node.input(port).map_or(&[][..], |id| &draft.tensor(id).dim);
    let scores = [dim(Port::Q)[0], dim(Port::Q)[1], dim(Port::Q)[2], dim(Port::K)[2]];
    // a sink is part of the statistics; but for its own gradient nobody asks for it
    let has_sink = node.output(Port::DSINK_TOKEN).is_some();
    let is_read =
        |port: Port| INPUTS.contains(&port) && port != Port::ATTN_SCALE && (has_sink || port != Port::SINK_TOKEN);
    let factors = FACTORS.into_iter().filter_map(|port| Some((port, node.input(port)?)));
    let given = node.inputs.iter().filter(|slot| is_read(slot.0)).copied();
    let mut inputs: Vec<_> = given.chain(scale.map(|scale| (Port::ATTN_SCALE, scale))).collect();
    inputs.sort_by_key(|slot| INPUTS.iter().position(|port| *port == slot.0));
    if dropping.is_none() {
        inputs.extend(dropout::masked(draft, node));
    }
    let dropout = dropping.map(|dropping| {
        inputs.extend(dropping.inputs);
        Dropout { kept: dropping.kept }
    });
    inputs.extend(factors);
    let mut outputs = node.outputs.clone();
    let order = || OUTPUTS.into_iter().chain([Port::RNG_DUMP]).chain(LARGEST);
    outputs.sort_by_key(|slot| order().position(|port| port == slot.0));
    let backward = AttentionBackward { mask: mask(node, &scores), dropout, alibi: alibi::is_set(node) };
    Ok(Operation {
        attributes: crate::graph::Attributes::Composite(Composite::AttentionBackward(backward)),
        compute_data_type: node.compute_data_type.or(Some(crate::graph::DataType::Float)),
        inputs,
        outputs,
        ..node.clone()
    })
}
