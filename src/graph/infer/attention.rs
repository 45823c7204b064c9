//! Attention nodes: statistics of the softmax (frontend-json.md section 8), and the shape rules (attention.md section 10).

use super::layout::Layout;
use super::node::Node;
use crate::graph::attention::{is_turned, key_rows, table};
use crate::graph::{Malformed, PagedCacheLoad, Port, ScoreMask};

/// `Stats`, `Max` and `Sum_exp` are `[b, h, s, 1]` of Q, row-major; maxima for scaling are one value. The gradients, and
/// O, must be given.
pub(in crate::graph) fn infer(node: &mut Node) -> Result<(), Malformed> {
    let query = node.dim(Port("Q"))?;
    if query.len() != 4 {
        let message =
            format!("dims {query:?} have rank {}; required 4: batch, heads, sequence, head size", query.len());
        return Err(node.fault_at("SDPA-SHAPE", Port("Q"), message));
    }
    let statistics = vec![query[0], query[1], query[2], 1];
    let scores = scores(node);
    for &(port, _) in &node.operation.outputs {
        match port.0 {
            "RNG_DUMP" => scores.iter().for_each(|dim| node.complete(port, dim.to_vec(), &Layout::RowMajor)),
            "Stats" | "Max" | "Sum_exp" => node.complete(port, statistics.clone(), &Layout::RowMajor),
            name if name.starts_with("Amax_") => node.complete(port, vec![1; 4], &Layout::RowMajor),
            _ => {}
        }
    }
    Ok(())
}

/// Extents of queries, keys and values fit each other, and what the node gives fits them (AT-E1 … E3, E8, E9, E14, E19).
pub(super) fn check(node: &Node) -> Result<(), Malformed> {
    let [q, k, v] = check_operands(node)?;
    check_pages(node, q[0], k[2])?;
    node.require_dim("AT-E2", Port("O"), &[q[0], q[1], q[2], v[3]], "of Q, and the head size of V")?;
    for port in [Port::STATS, Port::MAX, Port::SUM_EXP].into_iter().filter(|&port| node.tensor(port).is_some()) {
        node.require_dim("AT-E8", port, &[q[0], q[1], q[2], 1], "one value a query")?;
    }
    check_options(node, q)?;
    check_numbers(node)?;
    let scores = [q[0], q[1], q[2], k[2]];
    ScoreMask::check_block_mask(node, &scores)?;
    check_broadcast(node, Port::ATTENTION_BIAS, scores)
}

/// As [`check`], of a backward pass: each gradient has the extents of what it is one of.
pub(in crate::graph) fn check_backward(node: &Node) -> Result<(), Malformed> {
    let [q, k, v] = check_operands(node)?;
    let of_output = [q[0], q[1], q[2], v[3]];
    for (port, required, what) in [
        (Port::O, of_output, "of Q, and the head size of V"),
        (Port::DO, of_output, "those of O"),
        (Port::DQ, q, "those of Q"),
        (Port::DK, k, "those of K"),
        (Port::DV, v, "those of V"),
    ] {
        if node.tensor(port).is_some() {
            node.require_dim("AT-E2", port, &required, what)?;
        }
    }
    node.require_dim("AT-E8", Port::STATS, &[q[0], q[1], q[2], 1], "one value a query")?;
    if node.tensor(Port::DSINK_TOKEN).is_some() {
        node.require_dim("AT-E8", Port::DSINK_TOKEN, &[1, q[1], 1, 1], "one value a head of Q")?;
    }
    check_options(node, q)?;
    let scores = [q[0], q[1], q[2], k[2]];
    if node.tensor(Port::RNG_DUMP).is_some() {
        node.require_dim("AT-O13", Port::RNG_DUMP, &scores, "those of the scores")?;
    }
    [Port::ATTENTION_BIAS, Port::ATTENTION_DBIAS].into_iter().try_for_each(|port| check_broadcast(node, port, scores))
}

/// Extents of Q, K and V, natural ones, which fit each other; of what is in pages those that it has for the queries.
fn check_operands(node: &Node) -> Result<[[i64; 4]; 3], Malformed> {
    let [q, k, v] = [matrices(node, Port("Q"))?, matrices(node, Port("K"))?, matrices(node, Port("V"))?];
    for (port, found, required, what) in [
        (Port("K"), k[0], q[0], "batches of Q"),
        (Port("V"), v[0], q[0], "batches of Q"),
        (Port("K"), k[3], q[3], "the head size of Q"),
        (Port("V"), v[2], k[2], "the sequence of K"),
    ] {
        if found != required {
            let message = format!("extent {found} in dims {:?}, required {required}: {what}", node.dim(port)?);
            return Err(node.fault_at("AT-E2", port, message));
        }
    }
    for (port, heads) in [(Port("K"), k[1]), (Port("V"), v[1])] {
        if heads == 0 || q[1] % heads != 0 {
            let message = format!("{heads} heads, required a divisor of the {} of Q", q[1]);
            return Err(node.fault_at("AT-E3", port, message));
        }
    }
    Ok([q, k, v])
}

/// Keys and values that are in pages, and how many rows there are where none is.
fn check_pages(node: &Node, batches: i64, rows: i64) -> Result<(), Malformed> {
    let tables = [(Port::K, Port::PAGE_TABLE_K), (Port::V, Port::PAGE_TABLE_V)];
    let is_given = |slot: &&(Port, Port)| node.tensor(slot.1).is_some();
    tables
        .iter()
        .filter(is_given)
        .try_for_each(|&(container, table)| PagedCacheLoad::check_pages(node, [container, table], [batches, rows]))
}

/// The factor of the scores, sinks and lengths.
fn check_options(node: &Node, q: [i64; 4]) -> Result<(), Malformed> {
    if node.tensor(Port::ATTN_SCALE).is_some() {
        node.require_dim("AT-E8", Port::ATTN_SCALE, &[1; 4], "one number, by which scores are multiplied")?;
    }
    if node.tensor(Port::SINK_TOKEN).is_some() {
        node.require_dim("AT-E8", Port::SINK_TOKEN, &[1, q[1], 1, 1], "one value a head of Q")?;
    }
    check_lengths(node, q[0])
}

/// Numbers that values in FP8 are multiplied by, and their largest magnitudes (F8F-FACTORS, F8F-AMAX).
fn check_numbers(node: &Node) -> Result<(), Malformed> {
    let ports = [
        Port::DESCALE_Q,
        Port::DESCALE_K,
        Port::DESCALE_V,
        Port::DESCALE_S,
        Port::SCALE_S,
        Port::SCALE_O,
        Port::AMAX_S,
        Port::AMAX_O,
    ];
    let mut given = ports.into_iter().filter(|&port| node.tensor(port).is_some());
    given.try_for_each(|port| node.require_dim("AT-O19", port, &[1; 4], "one number"))
}

/// Extents of the scores, where Q and K have natural ones.
pub(in crate::graph) fn scores(node: &Node) -> Option<[i64; 4]> {
    let [q, k] = [Port::Q, Port::K].map(|port| matrices(node, port).ok());
    let (q, k) = (q?, k?);
    Some([q[0], q[1], q[2], k[2]])
}

/// A bias, or its gradient, has the extents of scores or 1.
fn check_broadcast(node: &Node, port: Port, scores: [i64; 4]) -> Result<(), Malformed> {
    let Some(bias) = node.tensor(port) else { return Ok(()) };
    let broadcasts = bias.dim.iter().zip(&scores).all(|(&extent, &whole)| extent == 1 || extent == whole);
    if broadcasts && bias.dim.len() == scores.len() {
        return Ok(());
    }
    let message = format!("dims {:?}, required {scores:?}, or 1 on some axes", bias.dim);
    Err(node.fault_at("AT-E14", port, message))
}

/// Batch, heads, sequence and head size of Q, K or V.
fn matrices(node: &Node, port: Port) -> Result<[i64; 4], Malformed> {
    let dim = node.dim(port)?;
    let &[batch, heads, sequence, size] = dim else {
        let message = format!("dims {dim:?} have rank {}; required 4: batch, heads, sequence, head size", dim.len());
        return Err(node.fault_at("AT-E1", port, message));
    };
    if port != Port::Q && table(node.operation, port).is_some() {
        let rows = key_rows(node.operation, |port| node.tensor(port));
        let rows = rows.ok_or_else(|| node.fault_at("AT-O18", port, "how many rows sequences have is said nowhere"))?;
        let batches = node.dim(Port::Q)?.first().copied().unwrap_or(batch);
        return Ok([batches, heads, rows, size]);
    }
    let is_turned = port != Port("Q") && is_turned(node.stride(port)?);
    Ok(if is_turned { [batch, heads, size, sequence] } else { [batch, heads, sequence, size] })
}

fn check_lengths(node: &Node, batches: i64) -> Result<(), Malformed> {
    let ports = [Port::SEQ_LEN_Q, Port::SEQ_LEN_KV];
    match ports.map(|port| node.tensor(port).is_some()) {
        [false, false] => return Ok(()),
        [true, true] => {}
        _ => return Err(node.fault("AT-E9", "required are the lengths of both sequences, SEQ_LEN_Q and SEQ_LEN_KV")),
    }
    ports.into_iter().try_for_each(|port| node.require_dim("AT-E9", port, &[batches, 1, 1, 1], "one length a batch"))
}

#[cfg(test)]
mod tests {
    use crate::graph::samples::{half_graph, input, other, refusal, shape_of};
    use crate::graph::{Attributes, DataType, Graph, Other, Port, ScoreMask, Tensor};

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
        let graph = attention("SDPA_MXFP8_FWD", &[2, 3, 5, 8], &["O", "Stats", "Max", "Sum_exp", "Amax_S"]);
        let finalized = graph.finalize().unwrap();
        for name in ["Stats", "Max", "Sum_exp"] {
            assert_eq!(shape_of(&finalized, name), (&[2, 3, 5, 1][..], &[15, 5, 1, 1][..]), "{name}");
        }
        assert_eq!(shape_of(&finalized, "Amax_S").0, [1, 1, 1, 1]);
    }

    /// An attention of 300 queries by 1100 keys with a mask of blocks: a node, its mask alone, and a product that leaves blocks out.
    fn blocked(dim: [i64; 4], data_type: DataType) -> [Graph; 3] {
        let mask = || Tensor::new("blocks").row_major(dim).data_type(data_type);
        let mut node = half_graph();
        let q = input(&mut node, "q", &[2, 3, 300, 8]);
        let [k, v] = ["k", "v"].map(|name| input(&mut node, name, &[2, 3, 1100, 8]));
        let blocks = node.tensor(mask());
        let attributes = Attributes::Other(Other { tag: "SDPA", attributes: [].into() });
        other(&mut node, attributes, &[("Q", q), ("K", k), ("V", v), ("Block_mask", blocks)], &["O"]);
        let o = node.operations()[0].outputs[0].1;
        *node.tensor_mut(o) = Tensor::new("o").row_major([2, 3, 300, 8]);
        let mut alone = half_graph();
        let x = input(&mut alone, "x", &[2, 3, 300, 1100]);
        let blocks = alone.tensor(mask());
        let inputs = [(Port::X, x), (Port::BLOCK_MASK, blocks)];
        let y = alone.composite("mask", ScoreMask::default(), &inputs, &[Port::Y])[0];
        alone.set_output(y);
        let mut product = half_graph();
        let a = input(&mut product, "a", &[2, 3, 300, 1100]);
        let b = input(&mut product, "b", &[2, 3, 1100, 8]);
        let c = product.matmul("product", a, b);
        let blocks = product.tensor(mask());
        product.last_operation().inputs.push((Port::BLOCK_MASK, blocks));
        product.set_output(c);
        [node, alone, product]
    }

    #[test]
    fn what_scores_are_multiplied_by_is_one_number() {
        for (tag, outputs) in [("SDPA", &["O"][..]), ("SDPA_BWD", &["dQ"])] {
            for (dim, is_one) in [(&[1; 4][..], true), (&[1, 1, 2, 8], false), (&[1], false)] {
                let mut graph = attention(tag, &[2, 2, 2, 8], outputs);
                let shape = &[2, 2, 2, 8];
                let others: &[&str] = if tag == "SDPA" { &["K", "V"] } else { &["K", "V", "O", "dO", "Stats"] };
                let mut inputs: Vec<_> = others.iter().map(|name| (*name, input(&mut graph, name, shape))).collect();
                inputs.push(("Attn_scale", input(&mut graph, "scale", dim)));
                for (port, id) in inputs {
                    if port == "Stats" {
                        *graph.tensor_mut(id) = Tensor::new("Stats").row_major([2, 2, 2, 1]).data_type(DataType::Float);
                    }
                    graph.last_operation().inputs.push((Port(port), id));
                }
                match is_one {
                    true => drop(graph.finalize().unwrap()),
                    false => {
                        let message = refusal(&graph);
                        assert!(
                            message.contains("tensor 'scale'") && message.contains("required [1, 1, 1, 1]: one number"),
                            "{message}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_mask_of_blocks_has_a_bit_for_each_tile_of_scores() {
        for graph in blocked([2, 3, 3, 2], DataType::UInt8) {
            graph.finalize().unwrap();
        }
        for graph in blocked([2, 3, 3, 9], DataType::UInt8) {
            let message = refusal(&graph);
            let required = "port Block_mask: dims are [2, 3, 3, 9], required [2, 3, 3, 2]: a bit for each tile of 128 by 128 of the scores \
                            [2, 3, 300, 1100], 8 of a row to the byte";
            assert!(message.contains("tensor 'blocks'") && message.contains(required), "{message}");
            assert!(message.ends_with("[AT-E19]"), "{message}");
        }
        for graph in blocked([2, 3, 3, 2], DataType::Boolean) {
            let message = refusal(&graph);
            assert!(message.contains("data type BOOLEAN; required UINT8 [AT-E19]"), "{message}");
        }
    }

    #[test]
    fn gradients_must_be_given() {
        attention("SDPA_MXFP8_BWD", &[2, 3, 5, 8], &["dQ"]).finalize().unwrap();
        assert!(
            refusal(&attention("SDPA_MXFP8_BWD", &[2, 3, 5, 8], &["dQ", "dK"])).contains("'dK': dims must be given")
        );
        assert!(refusal(&attention("SDPA", &[3, 5, 8], &["O"])).contains("dims [3, 5, 8] have rank 3; required 4"));
    }
}
