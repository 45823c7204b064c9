//! The backward pass of an attention as programs send it (attention.md 2.4).

use serde_json::json;

use super::super::super::super::{
    Attributes, DataType, Graph, KeptAttributes, Matmul, Other, Pointwise, PointwiseMode, Port, ReductionMode, Tensor,
    TensorHandle,
};
use super::{Attention, Author, BATCHES, CAP, Form, MASK_KEEPS, QUERIES};

use PointwiseMode as M;

/// What becomes of the gradient of a bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BiasGradient {
    /// Nobody wants it.
    Unwanted,
    /// As the bias, which all batches share.
    OfBias,
    /// As large as the scores.
    Whole,
}

/// A configuration of a backward pass; [`Attention::statistics`] and what a backward pass has no port for are nothing to it.
#[derive(Clone, Copy)]
pub(crate) struct Backward {
    pub(crate) attention: Attention,
    pub(crate) d_bias: BiasGradient,
    /// Whether the gradient of Q is written at once (AT-P44).
    pub(crate) is_direct: bool,
    /// Whether the gradient of the sink is wanted.
    pub(crate) d_sink: bool,
    /// Whether a probability of 0 was given (AT-P41).
    pub(crate) drops_nothing: bool,
    /// Whether padding is masked before statistics are taken away (AT-P42).
    pub(crate) pads_first: bool,
    /// Whether gradients of heads that are summed lie in memory (AT-P43).
    pub(crate) keeps_heads: bool,
    /// Whether gradients of scores behind the diagonal are set to 0, as by a modifier of the caller's (AT-O12).
    pub(crate) chooses: bool,
    /// Whether gradients are multiplied by the slope of a cap alone, not by the cap before, and divided by it behind that.
    pub(crate) slopes_alone: bool,
}

impl Backward {
    pub(crate) fn new(attention: Attention) -> Self {
        Self {
            attention,
            d_bias: BiasGradient::Unwanted,
            is_direct: false,
            d_sink: true,
            drops_nothing: false,
            pads_first: false,
            keeps_heads: false,
            chooses: false,
            slopes_alone: false,
        }
    }

    /// The graph in a form; of one node without the options that are but a matter of form.
    pub(crate) fn graph(self, form: Form) -> Graph {
        let mut author = Author { attention: self.attention, graph: Graph::new(), uid: 0 };
        match form {
            // a node has neither slopes nor a cap
            Form::Nodes if !self.attention.slopes && !self.attention.cap => author.backward_node(self),
            _ => author.backward_operations(self, form == Form::Old),
        }
        author.graph
    }
}

/// Backward passes by name.
pub(crate) fn backward_table() -> Vec<(&'static str, Backward)> {
    let plain = Attention::default();
    let lengths = Attention { lengths: true, ..plain };
    let causal = Attention { right: Some(0), ..plain };
    let groups = Attention { heads: [6, 2, 3], head_sizes: [16, 24], ..plain };
    let corner = |attention| Attention { is_bottom_right: true, keys: 9, ..attention };
    let bias = Attention { bias: true, ..causal };
    let of = Backward::new;
    vec![
        ("plain", of(plain)),
        ("unscaled", of(Attention { scale: None, ..plain })),
        ("written at once", Backward { is_direct: true, ..of(plain) }),
        ("causal", of(causal)),
        ("causal to the corner", of(corner(causal))),
        ("causal, chosen", Backward { chooses: true, ..of(causal) }),
        ("causal, chosen, unscaled", Backward { chooses: true, ..of(Attention { scale: None, ..causal }) }),
        ("window", of(Attention { left: Some(4), ..causal })),
        ("window to the corner", of(corner(Attention { left: Some(2), ..causal }))),
        ("left bound", of(Attention { left: Some(1), ..plain })),
        ("right bound", of(Attention { right: Some(2), ..plain })),
        ("padding", of(lengths)),
        ("padding, first", Backward { pads_first: true, ..of(lengths) }),
        ("padding, causal", of(Attention { right: Some(0), ..lengths })),
        ("padding, first, causal", Backward { pads_first: true, ..of(Attention { right: Some(0), ..lengths }) }),
        ("padding, window to the corner", of(corner(Attention { right: Some(1), left: Some(3), ..lengths }))),
        ("groups of heads", of(groups)),
        (
            "groups, padding, one key behind the corner",
            of(corner(Attention { left: Some(1), right: Some(4), lengths: true, heads: [8, 2, 2], ..plain })),
        ),
        ("one head of keys", of(Attention { heads: [4, 1, 1], ..causal })),
        ("groups, padding", Backward { is_direct: true, ..of(Attention { lengths: true, ..groups }) }),
        (
            "groups, padding, heads in memory",
            Backward { keeps_heads: true, ..of(Attention { lengths: true, ..groups }) },
        ),
        ("bias", of(bias)),
        ("bias, gradient", Backward { d_bias: BiasGradient::OfBias, is_direct: true, ..of(bias) }),
        ("bias, whole gradient", Backward { d_bias: BiasGradient::Whole, is_direct: true, ..of(bias) }),
        ("sink", of(Attention { sink: true, ..causal })),
        ("sink, without its gradient", Backward { d_sink: false, ..of(Attention { sink: true, ..causal }) }),
        ("sink, padding", of(Attention { sink: true, ..lengths })),
        ("dropout", of(Attention { dropped: Some(0.1), ..plain })),
        ("dropout, unscaled", of(Attention { dropped: Some(0.5), scale: None, ..causal })),
        (
            "dropout, bias, sink",
            Backward {
                d_bias: BiasGradient::OfBias,
                ..of(Attention { dropped: Some(0.25), bias: true, sink: true, ..causal })
            },
        ),
        ("dropout, groups, padding", of(Attention { dropped: Some(0.5), lengths: true, ..groups })),
        ("slopes", of(Attention { slopes: true, ..causal })),
        ("slopes, unscaled", of(Attention { slopes: true, scale: None, ..plain })),
        (
            "slopes, bias, groups, padding",
            Backward {
                d_bias: BiasGradient::OfBias,
                ..of(Attention { slopes: true, bias: true, lengths: true, right: Some(0), ..groups })
            },
        ),
        ("slopes, dropout", of(Attention { slopes: true, dropped: Some(0.25), ..causal })),
        ("mask of dropout", of(Attention { masked: true, ..plain })),
        ("mask of dropout, unscaled", of(Attention { masked: true, scale: None, ..causal })),
        (
            "mask of dropout, bias, sink, groups",
            Backward {
                d_bias: BiasGradient::OfBias,
                ..of(Attention { masked: true, bias: true, sink: true, lengths: true, ..groups })
            },
        ),
        ("soft cap", of(Attention { cap: true, ..plain })),
        ("soft cap, unscaled", of(Attention { cap: true, scale: None, ..causal })),
        ("soft cap, slopes alone", Backward { slopes_alone: true, ..of(Attention { cap: true, ..causal }) }),
        (
            "soft cap, bias, slopes, sink, groups, padding",
            Backward {
                d_bias: BiasGradient::OfBias,
                ..of(Attention { cap: true, bias: true, slopes: true, sink: true, lengths: true, ..groups })
            },
        ),
        (
            "soft cap, dropout, bias",
            Backward {
                d_bias: BiasGradient::Whole,
                is_direct: true,
                ..of(Attention { cap: true, dropped: Some(0.25), bias: true, ..causal })
            },
        ),
        (
            "soft cap, dropout, slopes alone",
            Backward { slopes_alone: true, ..of(Attention { cap: true, dropped: Some(0.25), ..plain }) },
        ),
        (
            "soft cap, mask of dropout, chosen",
            Backward { chooses: true, ..of(Attention { cap: true, masked: true, ..causal }) },
        ),
        ("nothing dropped", Backward { drops_nothing: true, ..of(plain) }),
        ("nothing dropped, unscaled", Backward { drops_nothing: true, ..of(Attention { scale: None, ..causal }) }),
        (
            "everything",
            Backward {
                d_bias: BiasGradient::OfBias,
                drops_nothing: true,
                ..of(corner(Attention { bias: true, sink: true, left: Some(5), lengths: true, ..groups }))
            },
        ),
    ]
}

/// Tensors of a backward pass in memory.
struct Stored {
    /// Q, K, V, O, dO, statistics.
    inputs: [TensorHandle; 6],
    bias: Option<TensorHandle>,
    lengths: Option<[TensorHandle; 2]>,
    sink: Option<TensorHandle>,
    /// Seed and offset.
    state: Option<[TensorHandle; 2]>,
    /// A mask of probabilities.
    mask: Option<TensorHandle>,
    gradients: [TensorHandle; 3],
    d_bias: Option<TensorHandle>,
    d_sink: Option<TensorHandle>,
}

impl Author {
    fn stored_of(&mut self, backward: Backward, is_turned: bool) -> Stored {
        let attention @ Attention { keys, heads: [of_q, of_k, of_v], head_sizes: [d, d_v], .. } = backward.attention;
        let rows = [BATCHES, of_q, QUERIES];
        let with = |size: i64| [rows[0], rows[1], rows[2], size];
        let inputs = [
            ("Q", with(d), DataType::Half),
            ("K", [BATCHES, of_k, keys, d], DataType::Half),
            ("V", [BATCHES, of_v, keys, d_v], DataType::Half),
            ("O", with(d_v), DataType::Half),
            ("dO", with(d_v), DataType::Half),
            ("Stats", with(1), DataType::Float),
        ];
        let inputs = inputs.map(|(name, dim, data_type)| self.stored(name, dim, data_type));
        for id in inputs[1..3].iter().filter(|_| is_turned) {
            let tensor = self.graph.tensor_mut(*id);
            tensor.dim.swap(2, 3);
            tensor.stride.swap(2, 3);
        }
        let gradients = [("dQ", with(d)), ("dK", [BATCHES, of_k, keys, d]), ("dV", [BATCHES, of_v, keys, d_v])];
        let gradients = gradients.map(|(name, dim)| self.stored(name, dim, DataType::Half));
        let mut lengths =
            || ["SEQ_LEN_Q", "SEQ_LEN_KV"].map(|name| self.stored(name, [BATCHES, 1, 1, 1], DataType::Int32));
        let lengths = attention.lengths.then(&mut lengths);
        let of_bias = [1, of_q, QUERIES, keys];
        let bias = attention.bias.then(|| self.stored("bias", of_bias, DataType::Half));
        let d_bias = match backward.d_bias {
            BiasGradient::Unwanted => None,
            BiasGradient::OfBias => Some(of_bias),
            BiasGradient::Whole => Some(attention.scores()),
        };
        let d_bias = d_bias.map(|dim| self.stored("dBias", dim, DataType::Half));
        let [sink, d_sink] = [("sink", true), ("dSink", backward.d_sink)].map(|(name, is_there)| {
            (attention.sink && is_there).then(|| self.stored(name, [1, of_q, 1, 1], DataType::Float))
        });
        let state = attention.dropped.map(|_| self.state());
        let mask = attention.masked.then(|| self.stored("mask", of_bias, DataType::Half));
        Stored { inputs, bias, lengths, sink, state, mask, gradients, d_bias, d_sink }
    }

    fn backward_node(&mut self, backward: Backward) {
        let stored = self.stored_of(backward, false);
        let attention = backward.attention;
        let required = ["Q", "K", "V", "O", "dO", "Stats"].into_iter().zip(stored.inputs);
        let lengths = ["SEQ_LEN_Q", "SEQ_LEN_KV"].into_iter().zip(stored.lengths.into_iter().flatten());
        let [factor, keep] = [("factor", 1.0 / f64::from(MASK_KEEPS)), ("keep", f64::from(MASK_KEEPS))]
            .map(|(name, value)| stored.mask.map(|_| self.scalar(name, DataType::Float, value)));
        let masked = [("Dropout_mask", stored.mask), ("Dropout_scale", factor), ("Dropout_scale_inv", keep)];
        let optional = [("Bias", stored.bias), ("SINK_TOKEN", stored.sink)].into_iter().chain(masked);
        let optional = optional.filter_map(|(port, id)| Some((port, id?)));
        let state = ["Seed", "Offset"].into_iter().zip(stored.state.into_iter().flatten());
        let inputs: Vec<_> =
            required.chain(optional).chain(lengths).chain(state).map(|(port, id)| (Port(port), id)).collect();
        let gradients = ["dQ", "dK", "dV"].into_iter().zip(stored.gradients);
        let optional = [("dBias", stored.d_bias), ("DSINK_TOKEN", stored.d_sink)];
        let optional = optional.into_iter().filter_map(|(port, id)| Some((port, id?)));
        let outputs: Vec<_> = gradients.chain(optional).map(|(port, id)| (Port(port), id)).collect();
        let alignment = if attention.is_bottom_right { "BOTTOM_RIGHT" } else { "TOP_LEFT" };
        let mut attributes = KeptAttributes::new();
        attributes.insert("diagonal_alignment".to_owned(), json!(alignment));
        attributes.extend(attention.scale.map(|scale| ("attn_scale_value".to_owned(), json!(scale))));
        attributes.extend(attention.left.map(|left| ("left_bound".to_owned(), json!(left))));
        attributes.extend(attention.right.map(|right| ("right_bound".to_owned(), json!(right))));
        attributes.insert("is_deterministic_algorithm".to_owned(), json!(backward.is_direct));
        let dropped = attention.dropped.or(backward.drops_nothing.then_some(0.0));
        attributes.extend(dropped.map(|dropped| ("dropout_probability".to_owned(), json!(dropped))));
        self.push(Attributes::Other(Other { tag: "SDPA_BWD", attributes }), &inputs, &outputs);
    }

    fn backward_operations(&mut self, backward: Backward, is_old: bool) {
        let stored = self.stored_of(backward, true);
        let attention = backward.attention;
        let [q, k, _, _, d_o, _] = stored.inputs;
        let [dq, dk, dv] = stored.gradients;
        let scale = attention.scale.map(|scale| self.scalar("scale", DataType::Float, scale));
        let dropped = attention.dropped.or(backward.drops_nothing.then_some(0.0));
        let dropout = dropped.map(|dropped| {
            let factor = self.scalar("factor", DataType::Float, f64::from(1.0 / (1.0 - dropped)));
            let state = stored.state.unwrap_or_else(|| self.state());
            // in double precision, as descriptors have it (AT-P28)
            (self.mask(state, f64::from(1.0 - dropped)), factor)
        });
        let masked =
            stored.mask.map(|mask| (mask, self.scalar("factor", DataType::Float, 1.0 / f64::from(MASK_KEEPS))));
        let dropout = dropout.or(masked);
        let sum = self.sums(&stored, if attention.masked { MASK_KEEPS } else { 1.0 - dropped.unwrap_or(0.0) });
        let cap = attention.cap.then(|| self.scalar("cap", DataType::Float, CAP));
        let (p, divided) = self.probabilities(backward, is_old, &stored, [scale, cap]);
        let mut kept = p;
        if let Some((mask, factor)) = dropout {
            kept = self.on_scores(M::Mul, &[kept, mask], DataType::Float);
            kept = self.on_scores(M::Mul, &[kept, factor], DataType::Float);
        }
        self.gradient_of_keys(backward, [kept, d_o], dv, stored.lengths);
        let ds = self.score_gradient(&stored, [p, sum], dropout, backward.chooses);
        let ds = match cap.zip(divided) {
            Some(cap) => self.cap_gradient(ds, cap, backward.slopes_alone),
            None => ds,
        };
        let ds = scale.map_or(ds, |scale| self.on_scores(M::Mul, &[ds, scale], DataType::Float));
        self.gradient_of_keys(backward, [ds, q], dk, stored.lengths);
        let of_k = self.turned(k, DataType::Float);
        let overrides = overrides([Port::M_OVERRIDE, Port::K_OVERRIDE], stored.lengths);
        if backward.is_direct {
            return self.product([ds, of_k], overrides, dq);
        }
        let accumulated = self.of_frontend("dQ_accum", dq);
        self.product([ds, of_k], overrides, accumulated);
        self.pointwise(Pointwise::new(M::Identity), &[accumulated], dq);
    }

    /// A tensor in the frontend's own memory, with the extents of another (AT-P43).
    fn of_frontend(&mut self, name: &str, like: TensorHandle) -> TensorHandle {
        let dim = self.graph.tensors()[like.index()].dim.clone();
        self.stored(name, dim.try_into().expect("four axes"), DataType::Float)
    }

    /// Sums of rows, in the frontend's memory, and the gradient of a sink.
    fn sums(&mut self, stored: &Stored, keep: f32) -> TensorHandle {
        let [_, _, _, o, d_o, stats] = stored.inputs;
        let [of_q, d_v] = [self.attention.heads[0], self.attention.head_sizes[1]];
        let rows = [BATCHES, of_q, QUERIES, 1];
        let product = self.value([BATCHES, of_q, QUERIES, d_v], DataType::Float);
        self.pointwise(Pointwise::new(M::Mul), &[d_o, o], product);
        let delta = self.value(rows, DataType::Float);
        self.reduction(ReductionMode::Add, product, delta);
        if let Some((sink, d_sink)) = stored.sink.zip(stored.d_sink) {
            let [below, p, share] = [(); 3].map(|()| self.value(rows, DataType::Float));
            self.pointwise(Pointwise::new(M::Sub), &[sink, stats], below);
            self.pointwise(Pointwise::new(M::Exp), &[below], p);
            self.pointwise(Pointwise::new(M::Mul), &[p, delta], share);
            self.reduction(ReductionMode::Add, share, d_sink);
        }
        let keep = self.scalar("keep", DataType::Float, f64::from(keep));
        let sum = self.of_frontend("softmax_sum", stats);
        self.pointwise(Pointwise::new(M::Mul), &[delta, keep], sum)
    }

    /// Probabilities, and scores divided by their cap, where they have one.
    fn probabilities(
        &mut self,
        backward: Backward,
        is_old: bool,
        stored: &Stored,
        [scale, cap]: [Option<TensorHandle>; 2],
    ) -> (TensorHandle, Option<TensorHandle>) {
        let attention = backward.attention;
        let [q, k, _, _, _, stats] = stored.inputs;
        let mut x = self.value(attention.scores(), DataType::Float);
        self.product([q, k], overrides([Port::M_OVERRIDE, Port::N_OVERRIDE], stored.lengths), x);
        x = scale.map_or(x, |scale| self.on_scores(M::Mul, &[x, scale], DataType::Float));
        let capped = cap.map(|cap| self.capped(x, cap));
        x = capped.map_or(x, |capped| capped.0);
        x = stored.bias.map_or(x, |bias| self.on_scores(M::Add, &[x, bias], DataType::Float));
        if attention.slopes {
            x = self.slopes(x);
        }
        let mut pads = stored.lengths;
        if let Some(lengths) = pads.take_if(|_| backward.pads_first) {
            x = self.padding(x, lengths);
        }
        x = self.on_scores(M::Sub, &[x, stats], DataType::Float);
        if let Some(lengths) = pads {
            x = self.padding(x, lengths);
        }
        for is_right in [true, false] {
            let bound = if is_right { attention.right } else { attention.left };
            if let Some(bound) = bound {
                x = self.band(x, is_old, is_right, bound, stored.lengths);
            }
        }
        (self.on_scores(M::Exp, &[x], DataType::Float), capped.map(|capped| capped.1))
    }

    /// The gradient of scores from that of capped ones, by a cap and what tanh is of.
    fn cap_gradient(
        &mut self,
        mut x: TensorHandle,
        (cap, divided): (TensorHandle, TensorHandle),
        slopes_alone: bool,
    ) -> TensorHandle {
        if !slopes_alone {
            x = self.on_scores(M::Mul, &[x, cap], DataType::Float);
        }
        x = self.on_scores(M::TanhBwd, &[x, divided], DataType::Float);
        match slopes_alone {
            true => x,
            false => self.on_scores(M::Div, &[x, cap], DataType::Float),
        }
    }

    fn score_gradient(
        &mut self,
        stored: &Stored,
        [p, sum]: [TensorHandle; 2],
        dropout: Option<(TensorHandle, TensorHandle)>,
        is_chosen: bool,
    ) -> TensorHandle {
        let [_, _, v, _, d_o, _] = stored.inputs;
        let mut x = self.value(self.attention.scores(), DataType::Float);
        self.product([d_o, v], overrides([Port::M_OVERRIDE, Port::N_OVERRIDE], stored.lengths), x);
        if let Some((mask, _)) = dropout {
            x = self.on_scores(M::Mul, &[x, mask], DataType::Float);
        }
        x = self.on_scores(M::Sub, &[x, sum], DataType::Float);
        x = self.on_scores(M::Mul, &[x, p], DataType::Float);
        if let Some((_, factor)) = dropout {
            x = self.on_scores(M::Mul, &[x, factor], DataType::Float);
        }
        if let Some(d_bias) = stored.d_bias {
            self.reduction(ReductionMode::Add, x, d_bias);
        }
        if is_chosen {
            let kept = self.up_to_row(x);
            let zero = self.scalar("zero", DataType::Float, 0.0);
            x = self.on_scores(M::BinarySelect, &[x, zero, kept], DataType::Float);
        }
        x
    }

    /// Which scores are in a column up to their row's.
    fn up_to_row(&mut self, x: TensorHandle) -> TensorHandle {
        let (row, column) = (self.index(x, 2), self.index(x, 3));
        self.on_scores(M::CmpGe, &[row, column], DataType::Boolean)
    }

    /// The transpose of a value of the scores, rounded, times a matrix of the queries, over all heads that share the result.
    fn gradient_of_keys(
        &mut self,
        backward: Backward,
        [x, of_queries]: [TensorHandle; 2],
        y: TensorHandle,
        lengths: Option<[TensorHandle; 2]>,
    ) {
        let transposed = self.turned(x, DataType::Half);
        let overrides = [Port::K_OVERRIDE, Port::M_OVERRIDE].into_iter().zip(lengths.into_iter().flatten()).collect();
        let mut dim: [i64; 4] = self.graph.tensors()[y.index()].dim.clone().try_into().expect("four axes");
        if dim[1] == self.attention.heads[0] {
            return self.product([transposed, of_queries], overrides, y);
        }
        dim[1] = self.attention.heads[0];
        let of_heads = match backward.keeps_heads {
            true => self.stored("of_heads", dim, DataType::Half),
            false => self.value(dim, DataType::Half),
        };
        self.product([transposed, of_queries], overrides, of_heads);
        self.reduction(ReductionMode::Add, of_heads, y);
    }

    /// A reshape to swapped extents and strides; those of values are what frontends write, whatever the value's are (AT-P39).
    fn turned(&mut self, x: TensorHandle, data_type: DataType) -> TensorHandle {
        let Tensor { dim, stride, is_virtual, .. } = self.graph.tensors()[x.index()].clone();
        let [a, b, c, d] = dim.try_into().expect("four axes");
        let y = self.value([a, b, d, c], data_type);
        let stride = if is_virtual { vec![b * c * d, c * d, d, 1] } else { stride };
        self.graph.tensor_mut(y).stride = vec![stride[0], stride[1], stride[3], stride[2]];
        self.push(Attributes::Other(Other { tag: "RESHAPE", attributes: [].into() }), &[(Port::X, x)], &[(Port::Y, y)]);
        y
    }

    fn product(&mut self, [a, b]: [TensorHandle; 2], overrides: Vec<(Port, TensorHandle)>, c: TensorHandle) {
        let inputs: Vec<_> = [(Port::A, a), (Port::B, b)].into_iter().chain(overrides).collect();
        self.push(Attributes::Matmul(Matmul::default()), &inputs, &[(Port::C, c)]);
    }
}

/// Lengths of queries and keys at ports.
fn overrides(ports: [Port; 2], lengths: Option<[TensorHandle; 2]>) -> Vec<(Port, TensorHandle)> {
    ports.into_iter().zip(lengths.into_iter().flatten()).collect()
}
