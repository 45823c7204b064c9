//! Attention as programs send it, for tests.

mod backward;

use serde_json::json;

use super::super::super::{
    Attributes, Composite, DataType, Graph, KeptAttributes, Operation, Other, PagedCacheLoad, Pointwise, PointwiseMode,
    Port, Reduction, ReductionMode, Scalar, ScoreMask, Softmax, Tensor, TensorHandle,
};
use super::super::{BAND_MASK, FILL};

pub(crate) use backward::{Backward, BiasGradient, backward_table};

use PointwiseMode as M;

/// Which operations an attention is sent as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The node of a graph file, but for options that such nodes have not: then as `Operations`.
    Nodes,
    /// D: with nodes for the softmax and the bounds.
    Operations,
    /// d: with none.
    Old,
    /// As `Operations`, but without those that the node of U stands for by its lengths.
    Unified,
}

/// A configuration: batches of 2, queries of 5, FLOAT bounds to the left as programs give them (AT-P38).
#[derive(Clone, Copy)]
pub(crate) struct Attention {
    pub(crate) keys: i64,
    /// Of Q, K and V.
    pub(crate) heads: [i64; 3],
    pub(crate) head_sizes: [i64; 2],
    pub(crate) scale: Option<f64>,
    pub(crate) right: Option<i64>,
    pub(crate) left: Option<i64>,
    pub(crate) is_bottom_right: bool,
    pub(crate) lengths: bool,
    /// Whether there is a mask of blocks; forward passes alone, of which a program sends one node (AT-P16).
    pub(crate) blocks: bool,
    pub(crate) bias: bool,
    pub(crate) sink: bool,
    pub(crate) slopes: bool,
    pub(crate) cap: bool,
    /// The probability to drop.
    pub(crate) dropped: Option<f32>,
    /// Whether probabilities are multiplied by a mask.
    pub(crate) masked: bool,
    /// Rows of a page of K, and of V, where they are in pages; forward passes with lengths alone.
    pub(crate) pages: [Option<i64>; 2],
    /// Stats, Max, Sum_exp.
    pub(crate) statistics: [bool; 3],
    /// Whether the values of host scalars are in the graph.
    pub(crate) is_known: bool,
}

impl Default for Attention {
    fn default() -> Self {
        Self {
            keys: 7,
            heads: [2, 2, 2],
            head_sizes: [8, 8],
            scale: Some(0.125),
            right: None,
            left: None,
            is_bottom_right: false,
            lengths: false,
            blocks: false,
            bias: false,
            sink: false,
            slopes: false,
            cap: false,
            dropped: None,
            masked: false,
            pages: [None; 2],
            statistics: [true, false, false],
            is_known: true,
        }
    }
}

/// Configurations by name.
pub(crate) fn table() -> Vec<(&'static str, Attention)> {
    let plain = Attention::default();
    let lengths = Attention { lengths: true, ..plain };
    let causal = Attention { right: Some(0), ..plain };
    let causal_of_lengths = Attention { right: Some(0), ..lengths };
    let corner = |attention| Attention { is_bottom_right: true, keys: 9, ..attention };
    vec![
        ("plain", plain),
        ("unscaled", Attention { scale: None, ..plain }),
        ("causal", causal),
        ("causal to the corner", corner(causal)),
        ("right bound to the corner", corner(Attention { right: Some(3), ..plain })),
        ("window", Attention { left: Some(4), ..causal }),
        ("window to the corner", corner(Attention { left: Some(2), ..causal })),
        ("left bound", Attention { left: Some(1), ..plain }),
        ("right bound", Attention { right: Some(2), ..plain }),
        ("padding", lengths),
        ("padding, causal", causal_of_lengths),
        ("padding, window to the corner", corner(Attention { right: Some(1), left: Some(3), ..lengths })),
        ("blocks", Attention { blocks: true, ..plain }),
        ("blocks, padding, causal", Attention { blocks: true, sink: true, ..causal_of_lengths }),
        ("groups of heads", Attention { heads: [6, 2, 3], head_sizes: [16, 24], ..causal }),
        ("bias", Attention { bias: true, ..causal }),
        ("sink", Attention { sink: true, ..causal }),
        ("statistics", Attention { statistics: [true, true, true], ..plain }),
        ("maximum and sum", Attention { statistics: [false, true, true], sink: true, ..lengths }),
        ("inference", Attention { statistics: [false; 3], ..lengths }),
        ("slopes", Attention { slopes: true, right: Some(0), ..plain }),
        ("soft cap", Attention { cap: true, ..causal }),
        ("dropout", Attention { dropped: Some(0.1), ..plain }),
        ("dropout, sink, padding", Attention { dropped: Some(0.5), sink: true, ..lengths }),
        ("mask of dropout", Attention { masked: true, ..causal }),
        ("dropout, bias, inference", Attention { dropped: Some(0.25), bias: true, statistics: [false; 3], ..causal }),
        ("pages", Attention { pages: [Some(4), Some(2)], keys: 8, ..lengths }),
        ("pages of keys", Attention { pages: [Some(4), None], heads: [4, 2, 1], ..lengths }),
        (
            "pages of values, causal",
            Attention { pages: [None, Some(1)], right: Some(0), head_sizes: [8, 16], ..lengths },
        ),
        (
            "pages, window to the corner",
            corner(Attention { pages: [Some(8); 2], right: Some(1), left: Some(3), ..lengths }),
        ),
        ("everything", corner(Attention { bias: true, slopes: true, sink: true, left: Some(5), ..lengths })),
    ]
}

/// Pages of a container.
pub(crate) const PAGES: i64 = 20;

/// What scores are capped by.
pub(crate) const CAP: f64 = 0.5;

/// Part of the probabilities that masks keep.
pub(crate) const MASK_KEEPS: f32 = 0.5;

pub(crate) const BATCHES: i64 = 2;
pub(crate) const QUERIES: i64 = 5;

impl Attention {
    pub(crate) fn graph(self, form: Form) -> Graph {
        let mut author = Author { attention: self, graph: Graph::new(), uid: 0 };
        if form == Form::Nodes && !self.slopes && !self.cap {
            author.node();
        } else {
            author.operations(form);
        }
        author.graph
    }

    fn scores(self) -> [i64; 4] {
        [BATCHES, self.heads[0], QUERIES, self.keys]
    }
}

struct Author {
    attention: Attention,
    graph: Graph,
    uid: i64,
}

/// Tensors of an attention in memory.
struct Tensors {
    operands: [TensorHandle; 3],
    output: TensorHandle,
    bias: Option<TensorHandle>,
    sink: Option<TensorHandle>,
    lengths: Option<[TensorHandle; 2]>,
    blocks: Option<TensorHandle>,
    /// Seed and offset.
    state: Option<[TensorHandle; 2]>,
    /// A mask of probabilities.
    mask: Option<TensorHandle>,
    /// Tables of K and V, whose tensors are containers then.
    tables: [Option<TensorHandle>; 2],
    statistics: [Option<TensorHandle>; 3],
}

impl Author {
    fn stored(&mut self, name: &str, dim: [i64; 4], data_type: DataType) -> TensorHandle {
        self.uid += 1;
        self.graph.tensor(Tensor::new(name).row_major(dim).data_type(data_type).uid(self.uid))
    }

    fn value(&mut self, dim: [i64; 4], data_type: DataType) -> TensorHandle {
        self.uid += 1;
        // strides of virtual tensors mean nothing (AT-P39)
        let stride = if data_type == DataType::Float { [1, 1, 1, 1] } else { [dim[1] * 64, 64, dim[3], 1] };
        let tensor = Tensor::new("").dim(dim).stride(stride).data_type(data_type).uid(self.uid);
        self.graph.tensor(Tensor { is_virtual: true, ..tensor })
    }

    fn scalar(&mut self, name: &str, data_type: DataType, value: f64) -> TensorHandle {
        self.uid += 1;
        let value = if data_type == DataType::Int32 { Scalar::Integer(value as i64) } else { Scalar::Float(value) };
        let scalar = Tensor::scalar(name, data_type, value).dim([1; 4]).stride([1; 4]).uid(self.uid);
        let value = scalar.value.filter(|_| self.attention.is_known);
        self.graph.tensor(Tensor { value, ..scalar })
    }

    fn push(&mut self, attributes: Attributes, inputs: &[(Port, TensorHandle)], outputs: &[(Port, TensorHandle)]) {
        self.graph.operation(Operation {
            name: String::new(),
            attributes,
            compute_data_type: Some(DataType::Float),
            inputs: inputs.to_vec(),
            outputs: outputs.to_vec(),
        });
    }

    fn pointwise(&mut self, attributes: Pointwise, inputs: &[TensorHandle], y: TensorHandle) -> TensorHandle {
        let ports = [Port::IN_0, Port::IN_1, Port::IN_2].into_iter().zip(inputs.iter().copied());
        let ports: Vec<_> = ports.collect();
        self.push(Attributes::Pointwise(attributes), &ports, &[(Port::OUT_0, y)]);
        y
    }

    /// A pointwise operation on scores.
    fn on_scores(&mut self, mode: M, inputs: &[TensorHandle], data_type: DataType) -> TensorHandle {
        let y = self.value(self.attention.scores(), data_type);
        self.pointwise(Pointwise::new(mode), inputs, y)
    }

    /// Capped scores, and what tanh is of.
    fn capped(&mut self, x: TensorHandle, cap: TensorHandle) -> (TensorHandle, TensorHandle) {
        let divided = self.on_scores(M::Div, &[x, cap], DataType::Float);
        let tanh = self.on_scores(M::TanhFwd, &[divided], DataType::Float);
        (self.on_scores(M::Mul, &[tanh, cap], DataType::Float), divided)
    }

    fn index(&mut self, x: TensorHandle, axis: i64) -> TensorHandle {
        let y = self.value(self.attention.scores(), DataType::Int32);
        self.pointwise(Pointwise { axis: Some(axis), ..Pointwise::new(M::GenIndex) }, &[x], y)
    }

    fn tensors(&mut self, is_turned: bool) -> Tensors {
        let Attention { keys, heads: [of_q, of_k, of_v], head_sizes: [d, d_v], .. } = self.attention;
        let q = self.stored("Q", [BATCHES, of_q, QUERIES, d], DataType::Half);
        let [k, v] = [("K", 0, of_k, d), ("V", 1, of_v, d_v)].map(|(name, side, heads, size)| {
            let plain = [BATCHES, heads, keys, size];
            let dim = self.attention.pages[side].map_or(plain, |page| [PAGES, heads, page, size]);
            self.stored(name, dim, DataType::Half)
        });
        let tables = [("Page_table_K", 0), ("Page_table_V", 1)].map(|(name, side)| {
            let entries = self.attention.pages[side].map(|page| (keys + page - 1) / page);
            entries.map(|entries| self.stored(name, [BATCHES, 1, entries, 1], DataType::Int32))
        });
        if is_turned && tables[0].is_none() {
            let tensor = self.graph.tensor_mut(k);
            tensor.dim.swap(2, 3);
            tensor.stride.swap(2, 3);
        }
        let output = self.stored("O", [BATCHES, of_q, QUERIES, d_v], DataType::Half);
        let attention = self.attention;
        let mut lengths =
            || ["SEQ_LEN_Q", "SEQ_LEN_KV"].map(|name| self.stored(name, [BATCHES, 1, 1, 1], DataType::Int32));
        let lengths = attention.lengths.then(&mut lengths);
        let blocks = attention.blocks.then(|| self.stored("Block_mask", [BATCHES, of_q, 1, 1], DataType::UInt8));
        let bias = attention.bias.then(|| self.stored("bias", [1, of_q, QUERIES, keys], DataType::Half));
        let sink = attention.sink.then(|| self.stored("sink", [1, of_q, 1, 1], DataType::Float));
        let state = attention.dropped.map(|_| self.state());
        let mask = attention.masked.then(|| self.stored("mask", [1, of_q, QUERIES, keys], DataType::Half));
        let rows = [BATCHES, of_q, QUERIES, 1];
        let statistics =
            attention.statistics.map(|is_wanted| is_wanted.then(|| self.stored("statistic", rows, DataType::Float)));
        Tensors { operands: [q, k, v], output, bias, sink, lengths, blocks, state, mask, tables, statistics }
    }

    fn node(&mut self) {
        let tensors = self.tensors(false);
        let attention = self.attention;
        let [q, k, v] = tensors.operands;
        let lengths = tensors.lengths.map_or(Vec::new(), |[q, kv]| vec![("SEQ_LEN_Q", q), ("SEQ_LEN_KV", kv)]);
        let [table_k, table_v] = tensors.tables;
        let tables = [("Page_table_K", table_k), ("Page_table_V", table_v)];
        let optional = [("Bias", tensors.bias), ("SINK_TOKEN", tensors.sink), ("Block_mask", tensors.blocks)];
        let optional = optional.into_iter().chain(tables);
        let factor = tensors.mask.map(|_| self.scalar("factor", DataType::Float, 1.0 / f64::from(MASK_KEEPS)));
        let mask = [("Dropout_mask", tensors.mask), ("Dropout_scale", factor)];
        let mask = mask.into_iter().filter_map(|(port, id)| Some((port, id?)));
        let state = tensors.state.map_or(Vec::new(), |[seed, offset]| vec![("Seed", seed), ("Offset", offset)]);
        let optional = optional.filter_map(|(port, id)| Some((port, id?))).chain(lengths).chain(state).chain(mask);
        let inputs: Vec<_> = [("Q", q), ("K", k), ("V", v)].into_iter().chain(optional).collect();
        let statistics = ["Stats", "Max", "Sum_exp"].into_iter().zip(tensors.statistics);
        let statistics = statistics.filter_map(|(port, id)| Some((Port(port), id?)));
        let outputs: Vec<_> = [(Port("O"), tensors.output)].into_iter().chain(statistics).collect();
        let alignment = if attention.is_bottom_right { "BOTTOM_RIGHT" } else { "TOP_LEFT" };
        let mut attributes = KeptAttributes::new();
        attributes.insert("diagonal_alignment".to_owned(), json!(alignment));
        attributes.extend(attention.scale.map(|scale| ("attn_scale_value".to_owned(), json!(scale))));
        let is_paged = attention.pages.iter().any(Option::is_some);
        attributes.extend(is_paged.then(|| ("max_seq_len_kv".to_owned(), json!(attention.keys))));
        attributes.extend(attention.left.map(|left| ("left_bound".to_owned(), json!(left))));
        attributes.extend(attention.right.map(|right| ("right_bound".to_owned(), json!(right))));
        attributes.extend(attention.dropped.map(|dropped| ("dropout_probability".to_owned(), json!(dropped))));
        let inputs: Vec<_> = inputs.into_iter().map(|(port, id)| (Port(port), id)).collect();
        self.push(Attributes::Other(Other { tag: "SDPA", attributes }), &inputs, &outputs);
    }

    fn operations(&mut self, form: Form) {
        let is_old = form == Form::Old;
        let tensors = self.tensors(true);
        let attention = self.attention;
        let [q, mut k, mut v] = tensors.operands;
        if form != Form::Unified {
            k = self.loaded(k, 0, &tensors);
        }
        let matmul = || Attributes::Matmul(super::super::super::Matmul::default());
        let mut x = self.value(attention.scores(), DataType::Float);
        let pads = tensors.lengths.filter(|_| form != Form::Unified);
        let lengths =
            pads.map_or(Vec::new(), |lengths| [Port::M_OVERRIDE, Port::N_OVERRIDE].into_iter().zip(lengths).collect());
        let inputs: Vec<_> = [(Port::A, q), (Port::B, k)].into_iter().chain(lengths).collect();
        self.push(matmul(), &inputs, &[(Port::C, x)]);
        if let Some(scale) = attention.scale {
            let scale = self.scalar("scale", DataType::Float, scale);
            if !attention.is_known {
                // the node of a graph file has its own
                self.graph.tensor_mut(scale).dim = vec![1];
                self.graph.tensor_mut(scale).stride = vec![1];
            }
            x = self.on_scores(M::Mul, &[x, scale], DataType::Float);
        }
        if attention.cap {
            let cap = self.scalar("cap", DataType::Float, CAP);
            x = self.capped(x, cap).0;
        }
        if let Some(bias) = tensors.bias {
            x = self.on_scores(M::Add, &[x, bias], DataType::Float);
        }
        if attention.slopes {
            x = self.slopes(x);
        }
        if let Some(lengths) = pads {
            x = self.padding(x, lengths);
        }
        for is_right in [true, false] {
            let bound = if is_right { attention.right } else { attention.left };
            if let Some(bound) = bound {
                x = self.band(x, is_old, is_right, bound, tensors.lengths);
            }
        }
        if let Some(blocks) = tensors.blocks.filter(|_| form != Form::Unified) {
            let y = self.value(attention.scores(), DataType::Float);
            let mask = Attributes::Composite(ScoreMask::default().into());
            self.push(mask, &[(Port::X, x), (Port::BLOCK_MASK, blocks)], &[(Port::Y, y)]);
            x = y;
        }
        let mut p = if is_old { self.old_softmax(x, &tensors) } else { self.softmax(x, &tensors) };
        if let Some((state, dropped)) = tensors.state.zip(attention.dropped) {
            p = self.dropped(p, state, dropped);
        }
        if let Some(mask) = tensors.mask {
            let factor = self.scalar("factor", DataType::Float, 1.0 / f64::from(MASK_KEEPS));
            let scaled = self.on_scores(M::Mul, &[p, factor], DataType::Float);
            p = self.on_scores(M::Mul, &[scaled, mask], DataType::Half);
        }
        let lengths =
            pads.map_or(Vec::new(), |lengths| [Port::M_OVERRIDE, Port::K_OVERRIDE].into_iter().zip(lengths).collect());
        if form != Form::Unified {
            v = self.loaded(v, 1, &tensors);
        }
        let inputs: Vec<_> = [(Port::A, p), (Port::B, v)].into_iter().chain(lengths).collect();
        self.push(matmul(), &inputs, &[(Port::C, tensors.output)]);
    }

    /// K, as it is multiplied, or V: what is loaded out of the pages of a container, if it is one (AT-P33, AT-P39).
    fn loaded(&mut self, operand: TensorHandle, side: usize, tensors: &Tensors) -> TensorHandle {
        let (Some(table), Some([_, lengths])) = (tensors.tables[side], tensors.lengths) else { return operand };
        let Attention { keys, heads, head_sizes, .. } = self.attention;
        let (heads, size) = (heads[side + 1], head_sizes[side]);
        let (dim, row) = if side == 0 { ([size, keys], [1, size]) } else { ([keys, size], [size, 1]) };
        let y = self.value([BATCHES, heads, dim[0], dim[1]], DataType::Half);
        self.graph.tensor_mut(y).stride = vec![size * keys * heads, size * keys, row[0], row[1]];
        let inputs = [(Port::CONTAINER, operand), (Port::SEQ_LEN, lengths), (Port::PAGE_TABLE, table)];
        self.push(Attributes::Composite(PagedCacheLoad.into()), &inputs, &[(Port::Y_OUT, y)]);
        y
    }

    /// Seed and offset.
    fn state(&mut self) -> [TensorHandle; 2] {
        ["Seed", "Offset"].map(|name| self.stored(name, [1; 4], DataType::Int64))
    }

    /// A random mask: 1 with a probability, and 0 otherwise.
    fn mask(&mut self, state: [TensorHandle; 2], keep: f64) -> TensorHandle {
        let mask = self.value(self.attention.scores(), DataType::Float);
        let attributes = [("distribution", json!("BERNOULLI")), ("bernoulli_probability", json!(keep))];
        let attributes = attributes.map(|(key, value)| (key.to_owned(), value)).into();
        let inputs = [(Port::SEED, state[0]), (Port::OFFSET, state[1])];
        self.push(Attributes::Other(Other { tag: "RNG", attributes }), &inputs, &[(Port::Y, mask)]);
        mask
    }

    /// Probabilities of which some are dropped (AT-P33).
    fn dropped(&mut self, p: TensorHandle, state: [TensorHandle; 2], dropped: f32) -> TensorHandle {
        let mask = self.mask(state, 1.0 - f64::from(dropped));
        let masked = self.on_scores(M::Mul, &[p, mask], DataType::Float);
        let factor = self.scalar("factor", DataType::Float, f64::from(1.0 / (1.0 - dropped)));
        self.on_scores(M::Mul, &[masked, factor], DataType::Half)
    }

    fn slopes(&mut self, x: TensorHandle) -> TensorHandle {
        let slopes = self.stored("slopes", [1, self.attention.heads[0], 1, 1], DataType::Float);
        let (row, column) = (self.index(x, 2), self.index(x, 3));
        let distance = self.on_scores(M::Sub, &[column, row], DataType::Int32);
        let sloped = self.on_scores(M::Mul, &[distance, slopes], DataType::Float);
        self.on_scores(M::Add, &[x, sloped], DataType::Float)
    }

    fn select(&mut self, x: TensorHandle, kept: TensorHandle) -> TensorHandle {
        let fill = self.scalar("fill", DataType::Float, f64::NEG_INFINITY);
        self.on_scores(M::BinarySelect, &[x, fill, kept], DataType::Float)
    }

    fn padding(&mut self, x: TensorHandle, [queries, keys]: [TensorHandle; 2]) -> TensorHandle {
        let (row, column) = (self.index(x, 2), self.index(x, 3));
        let of_row = self.on_scores(M::CmpLt, &[row, queries], DataType::Boolean);
        let of_column = self.on_scores(M::CmpLt, &[column, keys], DataType::Boolean);
        let kept = self.on_scores(M::LogicalAnd, &[of_row, of_column], DataType::Boolean);
        self.select(x, kept)
    }

    /// One side of the band, as frontends write it (AT-P37, AT-P38).
    fn band(
        &mut self,
        x: TensorHandle,
        is_old: bool,
        is_right: bool,
        bound: i64,
        lengths: Option<[TensorHandle; 2]>,
    ) -> TensorHandle {
        let is_corner = self.attention.is_bottom_right;
        let fixed = is_corner && lengths.is_none();
        let shift = self.attention.keys - QUERIES;
        let bound = if is_right || !fixed { bound } else { bound - shift };
        let lengths = match (is_corner, is_right, lengths) {
            (false, ..) => None,
            (true, true, None) => {
                let lengths = [QUERIES, self.attention.keys];
                Some(lengths.map(|length| self.scalar("length", DataType::Int32, length as f64)))
            }
            (true, _, lengths) => lengths,
        };
        let of_left = if lengths.is_some() { DataType::Int32 } else { DataType::Float };
        let data_type = if is_right { DataType::Int32 } else { of_left };
        let number = (!is_right || bound != 0)
            .then(|| self.scalar(if is_right { "right bound" } else { "left bound" }, data_type, bound as f64));
        if !is_old {
            return self.band_node(x, is_right, number, lengths);
        }
        let (row, column) = (self.index(x, 2), self.index(x, 3));
        if is_right {
            let mut last = row;
            if let Some([queries, keys]) = lengths {
                last = self.on_scores(M::Add, &[last, keys], DataType::Int32);
                last = self.on_scores(M::Sub, &[last, queries], DataType::Int32);
            }
            if let Some(number) = number {
                last = self.on_scores(M::Add, &[last, number], DataType::Int32);
            }
            let kept = self.on_scores(M::CmpGe, &[last, column], DataType::Boolean);
            return self.select(x, kept);
        }
        let mut moved = number.map_or(column, |number| self.on_scores(M::Add, &[column, number], data_type));
        if let Some([queries, keys]) = lengths {
            moved = self.on_scores(M::Sub, &[moved, keys], DataType::Int32);
            moved = self.on_scores(M::Add, &[moved, queries], DataType::Int32);
        }
        let kept = self.on_scores(M::CmpGt, &[moved, row], DataType::Boolean);
        self.select(x, kept)
    }

    fn band_node(
        &mut self,
        x: TensorHandle,
        is_right: bool,
        number: Option<TensorHandle>,
        lengths: Option<[TensorHandle; 2]>,
    ) -> TensorHandle {
        let fill = self.scalar("fill", DataType::Float, f64::NEG_INFINITY);
        let y = self.value(self.attention.scores(), DataType::Float);
        let (mode, port) = if is_right { ("CMP_GE", Port::RIGHT_BOUND) } else { ("CMP_GT", Port::LEFT_BOUND) };
        let mut inputs = vec![(Port::X, x), (FILL, fill)];
        inputs.extend(number.map(|number| (port, number)));
        inputs.extend(lengths.into_iter().flat_map(|[q, kv]| [(Port::SEQ_LEN_KV, kv), (Port::SEQ_LEN_Q, q)]));
        let attributes = [("mode".to_owned(), json!(mode))].into();
        self.push(Attributes::Other(Other { tag: BAND_MASK, attributes }), &inputs, &[(Port::Y, y)]);
        y
    }

    fn softmax(&mut self, x: TensorHandle, tensors: &Tensors) -> TensorHandle {
        let p = self.value(self.attention.scores(), DataType::Half);
        let statistics = Softmax::STATISTICS.iter().copied().zip(tensors.statistics);
        let mut statistics: Vec<_> = statistics.filter_map(|(port, id)| Some((port, id?))).collect();
        if statistics.is_empty() {
            let unread = self.value([BATCHES, self.attention.heads[0], QUERIES, 1], DataType::Float);
            statistics.push((Port::STATS, unread));
        }
        let inputs: Vec<_> = [(Port::X, x)].into_iter().chain(tensors.sink.map(|sink| (Port::SINK, sink))).collect();
        let outputs: Vec<_> = [(Port::Y, p)].into_iter().chain(statistics).collect();
        self.push(Attributes::Composite(Composite::Softmax(Softmax)), &inputs, &outputs);
        p
    }

    fn reduction(&mut self, mode: ReductionMode, x: TensorHandle, y: TensorHandle) {
        self.push(Attributes::Reduction(Reduction::new(mode)), &[(Port::X, x)], &[(Port::Y, y)]);
    }

    fn old_softmax(&mut self, x: TensorHandle, tensors: &Tensors) -> TensorHandle {
        let rows = [BATCHES, self.attention.heads[0], QUERIES, 1];
        let [stats, largest, total] = tensors.statistics;
        let m = largest.unwrap_or_else(|| self.value(rows, DataType::Float));
        match tensors.sink {
            Some(sink) => {
                // as wide as the scores (AT-P34)
                let wide = self.value(self.attention.scores(), DataType::Float);
                self.reduction(ReductionMode::Max, x, wide);
                self.pointwise(Pointwise::new(M::Max), &[wide, sink], m);
            }
            None => self.reduction(ReductionMode::Max, x, m),
        }
        let below = self.on_scores(M::Sub, &[x, m], DataType::Float);
        let e = self.on_scores(M::Exp, &[below], DataType::Float);
        let l = total.unwrap_or_else(|| self.value(rows, DataType::Float));
        match tensors.sink {
            Some(sink) => {
                let sum = self.value(rows, DataType::Float);
                self.reduction(ReductionMode::Add, e, sum);
                let [below, of_sink] = [(); 2].map(|()| self.value(rows, DataType::Float));
                self.pointwise(Pointwise::new(M::Sub), &[sink, m], below);
                self.pointwise(Pointwise::new(M::Exp), &[below], of_sink);
                self.pointwise(Pointwise::new(M::Add), &[sum, of_sink], l);
            }
            None => self.reduction(ReductionMode::Add, e, l),
        }
        let logarithm = self.value(rows, DataType::Float);
        let stats = stats.unwrap_or_else(|| self.value(rows, DataType::Float));
        self.pointwise(Pointwise::new(M::Log), &[l], logarithm);
        self.pointwise(Pointwise::new(M::Add), &[m, logarithm], stats);
        let p = self.value(self.attention.scores(), DataType::Half);
        self.pointwise(Pointwise::new(M::Div), &[e, l], p)
    }
}
