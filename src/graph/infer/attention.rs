//! Attention: statistics of the softmax (frontend-json.md section 8; carried, not executed).

use super::layout::Layout;
use super::node::Node;
use crate::graph::Malformed;
use crate::graph::Port;

/// `Stats`, `Max` and `Sum_exp` are `[b, h, s, 1]` of Q, row-major; maxima for scaling are one value. The gradients, and
/// O, must be given.
pub(super) fn infer(node: &mut Node) -> Result<(), Malformed> {
    let query = node.dim(Port("Q"))?;
    if query.len() != 4 {
        let message =
            format!("dims {query:?} have rank {}; required 4: batch, heads, sequence, head size", query.len());
        return Err(node.fault_at("SDPA-SHAPE", Port("Q"), message));
    }
    let statistics = vec![query[0], query[1], query[2], 1];
    for &(port, _) in &node.operation.outputs {
        match port.0 {
            "Stats" | "Max" | "Sum_exp" => node.complete(port, statistics.clone(), &Layout::RowMajor),
            name if name.starts_with("Amax_") => node.complete(port, vec![1; 4], &Layout::RowMajor),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::graph::samples::{half_graph, input, other, refusal, shape_of};
    use crate::graph::{Attributes, Graph, Other, Tensor};

    fn attention(tag: &'static str, query: &[i64], outputs: &[&'static str]) -> Graph {
        let mut graph = half_graph();
        let q = input(&mut graph, "q", query);
        other(&mut graph, Attributes::Other(Other { tag, attributes: [].into() }), &[("Q", q)], outputs);
        for id in graph.operations()[0].outputs.clone().into_iter().map(|slot| slot.1) {
            if matches!(graph.tensors[id.index()].name.as_str(), "O" | "dQ") {
                *graph.tensor_mut(id) = Tensor::new("given").row_major(query);
            }
        }
        graph
    }

    #[test]
    fn statistics_follow_the_query() {
        let graph = attention("SDPA_FP8_FWD", &[2, 3, 5, 8], &["O", "Stats", "Max", "Sum_exp", "Amax_S"]);
        let finalized = graph.finalize().unwrap();
        for name in ["Stats", "Max", "Sum_exp"] {
            assert_eq!(shape_of(&finalized, name), (&[2, 3, 5, 1][..], &[15, 5, 1, 1][..]), "{name}");
        }
        assert_eq!(shape_of(&finalized, "Amax_S").0, [1, 1, 1, 1]);
    }

    #[test]
    fn gradients_must_be_given() {
        attention("SDPA_BWD", &[2, 3, 5, 8], &["dQ"]).finalize().unwrap();
        assert!(refusal(&attention("SDPA_BWD", &[2, 3, 5, 8], &["dQ", "dK"])).contains("'dK': dims must be given"));
        assert!(refusal(&attention("SDPA", &[3, 5, 8], &["O"])).contains("dims [3, 5, 8] have rank 3; required 4"));
    }
}
