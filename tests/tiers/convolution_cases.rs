//! Convolutions of the numeric suite: directions, shapes, layouts, groups, types and fusions.

use fusewright::graph::{
    Convolution, ConvolutionDirection as Direction, ConvolutionMode, DataType, Graph, PointwiseMode, ReductionMode,
    Tensor, TensorHandle,
};

use crate::cases::{Case, graph, output, push};

const DIRECTIONS: [Direction; 3] = [Direction::Forward, Direction::BackwardData, Direction::BackwardFilter];

/// One convolution: extents of a layer, whatever is computed of it.
#[derive(Clone)]
pub(crate) struct Layer {
    pub(crate) images: i64,
    /// Input channels of all groups, output channels of all groups.
    pub(crate) channels: [i64; 2],
    pub(crate) input: Vec<i64>,
    pub(crate) filter: Vec<i64>,
    pub(crate) stride: Vec<i64>,
    pub(crate) dilation: Vec<i64>,
    pub(crate) pre: Vec<i64>,
    pub(crate) post: Vec<i64>,
    pub(crate) mode: ConvolutionMode,
    pub(crate) groups: i64,
    pub(crate) explicit_groups: bool,
    pub(crate) channels_first: bool,
    pub(crate) types: [DataType; 4],
}

impl Layer {
    /// A padded 3×3 layer of two images.
    pub(crate) fn small() -> Self {
        Self {
            images: 2,
            channels: [16, 24],
            input: vec![7, 6],
            filter: vec![3, 3],
            stride: vec![1, 1],
            dilation: vec![1, 1],
            pre: vec![1, 1],
            post: vec![1, 1],
            mode: ConvolutionMode::CrossCorrelation,
            groups: 1,
            explicit_groups: false,
            channels_first: false,
            types: [DataType::Half, DataType::Half, DataType::Float, DataType::Half],
        }
    }

    fn output_extents(&self) -> Vec<i64> {
        let extent = |axis: usize| {
            let dilated = (self.filter[axis] - 1) * self.dilation[axis] + 1;
            (self.input[axis] + self.pre[axis] + self.post[axis] - dilated) / self.stride[axis] + 1
        };
        (0..self.input.len()).map(extent).collect()
    }

    /// Dims of X, W and Y.
    fn dims(&self) -> [Vec<i64>; 3] {
        let [c, k] = self.channels;
        let g = self.groups;
        let (image, filter, result) = if self.explicit_groups {
            (vec![self.images, g, c / g], vec![g, k / g, c / g], vec![self.images, g, k / g])
        } else {
            (vec![self.images, c], vec![k, c / g], vec![self.images, k])
        };
        [
            [image, self.input.clone()].concat(),
            [filter, self.filter.clone()].concat(),
            [result, self.output_extents()].concat(),
        ]
    }

    fn tensor(&self, name: &str, dim: Vec<i64>, data_type: DataType) -> Tensor {
        let tensor = Tensor::new(name).data_type(data_type);
        match (self.channels_first, self.explicit_groups) {
            (true, _) => tensor.row_major(dim),
            (false, false) => tensor.channels_last(dim),
            (false, true) => {
                let stride = grouped_channels_last(&dim);
                tensor.dim(dim).stride(stride)
            }
        }
    }

    fn attributes(&self, direction: Direction) -> Convolution {
        Convolution {
            mode: self.mode,
            pre_padding: self.pre.clone(),
            post_padding: self.post.clone(),
            stride: self.stride.clone(),
            dilation: self.dilation.clone(),
            ..Convolution::new(direction, self.input.len())
        }
    }

    /// The operands' and the result's dims of a direction.
    fn roles(&self, direction: Direction) -> [(&'static str, Vec<i64>); 3] {
        let [x, w, y] = self.dims();
        match direction {
            Direction::Forward => [("x", x), ("w", w), ("y", y)],
            Direction::BackwardData => [("dy", y), ("w", w), ("dx", x)],
            Direction::BackwardFilter => [("dy", y), ("x", x), ("dw", w)],
        }
    }

    /// The graph with its core; `change` turns operands into g1's results.
    pub(crate) fn core(
        &self,
        direction: Direction,
        change: impl Fn(&mut Graph, usize, TensorHandle) -> TensorHandle,
    ) -> (Graph, TensorHandle) {
        let [first, second, compute, io] = self.types;
        let mut g = graph(io);
        let [one, other, result] = self.roles(direction);
        let one = g.tensor(self.tensor(one.0, one.1, first));
        let other = g.tensor(self.tensor(other.0, other.1, second));
        let inputs = [change(&mut g, 0, one), change(&mut g, 1, other)];
        let id = g.convolution("conv", self.attributes(direction), inputs);
        g.last_operation().compute_data_type = Some(compute);
        let shape = self.tensor("result", result.1, io);
        let tensor = g.tensor_mut(id);
        (tensor.dim, tensor.stride) = (shape.dim, shape.stride);
        (g, id)
    }

    pub(crate) fn plain(&self, direction: Direction) -> Graph {
        let (mut g, id) = self.core(direction, |_, _, id| id);
        output(&mut g, id, self.types[3]);
        g
    }
}

/// `[N, G, C, …]` with the channels of all groups innermost.
fn grouped_channels_last(dim: &[i64]) -> Vec<i64> {
    let mut stride = vec![0; dim.len()];
    let order = [vec![2, 1], (3..dim.len()).rev().collect(), vec![0]].concat();
    let mut step = 1;
    for axis in order {
        stride[axis] = step;
        step *= dim[axis];
    }
    stride
}

fn name(direction: Direction) -> &'static str {
    match direction {
        Direction::Forward => "fprop",
        Direction::BackwardData => "dgrad",
        Direction::BackwardFilter => "wgrad",
    }
}

/// Every case.
pub(crate) fn convolutions(cases: &mut Vec<Case>) {
    for (label, layer) in shapes() {
        for direction in DIRECTIONS {
            push(cases, format!("conv_{}_{label}", name(direction)), layer.plain(direction));
        }
    }
    walks(cases);
    zeros_behind_boxes(cases);
    lines_of_taps(cases);
    blocks_of_channels(cases);
    overlapping(cases);
    phases(cases);
    copied(cases);
    windows(cases);
    unfolded(cases);
    evaluated(cases);
    depthwise(cases);
    types(cases);
    mainloops(cases);
    epilogues(cases);
    reductions(cases);
}

/// Layers of as many channels as Hopper's engine takes, so that boxes walk their pixels: every parameter of a walk, every type.
fn walks(cases: &mut Vec<Case>) {
    for (label, layer) in walked_shapes() {
        for direction in DIRECTIONS {
            push(cases, format!("conv_walk_{}_{label}", name(direction)), layer.plain(direction));
        }
    }
    // NVRTC 13.0.88 crashed on the sums over elements inside of this one, whose coordinates do not change along k
    let padded = Layer {
        channels: [16, 8],
        input: vec![28, 7],
        filter: vec![1, 1],
        pre: vec![2, 2],
        post: vec![2, 2],
        ..Layer::small()
    };
    push(cases, "conv_walk_fprop_of_one_step_beside_padding", padded.plain(Direction::Forward));
    // ptxas made the products of tiles of 256 rows wait for each other
    let halves = || Layer { types: [DataType::Half; 4], ..Layer::small() };
    let columns = Layer { channels: [72, 8], input: vec![12, 13], filter: vec![2, 2], ..halves() };
    let (mut g, core) = columns.core(Direction::BackwardData, |g, slot, id| match slot {
        0 => {
            let negative = g.pointwise("negative", PointwiseMode::Neg, &[id]);
            g.tensor_mut(negative).data_type = Some(DataType::Half);
            negative
        }
        _ => id,
    });
    output(&mut g, core, DataType::Int8);
    push(cases, "conv_walk_dgrad_of_72_columns_beside_a_stage", g);
    use DataType as T;
    let types = [
        [T::BFloat16, T::BFloat16, T::Float, T::Half],
        [T::Float, T::Float, T::Float, T::Float],
        [T::Half, T::Half, T::Half, T::Half],
        [T::Fp8E4M3, T::Fp8E5M2, T::Float, T::Half],
        [T::Int8, T::Int8, T::Float, T::Int32],
    ];
    for types in types {
        let channels = if types[0].bits() == 8 { [128, 80] } else { [64, 48] };
        let layer = Layer { types, channels, stride: vec![2, 1], input: vec![7, 9], ..Layer::small() };
        for direction in DIRECTIONS {
            let label = types[0].name().to_ascii_lowercase();
            push(cases, format!("conv_walk_{}_{label}", name(direction)), layer.plain(direction));
        }
    }
    for direction in DIRECTIONS {
        let layer = Layer { channels: [64, 128], stride: vec![2, 1], input: vec![8, 7], ..Layer::small() };
        let slot = usize::from(direction == Direction::BackwardFilter);
        let (mut g, id) = layer.core(direction, |g, at, operand| match at == slot {
            true => scale_bias_relu(g, operand, DataType::Half),
            false => operand,
        });
        output(&mut g, id, DataType::Half);
        push(cases, format!("conv_walk_{}_scale_bias_relu", name(direction)), g);
    }
    for (label, data_type) in [("pairs", DataType::Half), ("floats", DataType::Float)] {
        for direction in DIRECTIONS {
            let layer = Layer { channels: [104, 40], images: 3, ..Layer::small() };
            let slot = usize::from(direction == Direction::BackwardFilter);
            let (mut g, id) = layer.core(direction, |g, at, operand| match at == slot {
                true => by_pixel_and_image(g, operand, data_type),
                false => operand,
            });
            output(&mut g, id, DataType::Half);
            push(cases, format!("conv_walk_{}_by_pixel_and_image_in_{label}", name(direction)), g);
        }
    }
}

/// Channels under a tap that end within 32 bytes, of which boxes bring 16: what is multiplied behind them are zeros that stages hold. Integers show it
/// where they are missing; sums that are no number, of what the emulator fills shared memory with, are computed once more.
fn zeros_behind_boxes(cases: &mut Vec<Case>) {
    use DataType as T;
    let layer = || Layer { input: vec![9, 10], images: 3, pre: vec![0, 0], post: vec![0, 0], ..Layer::small() };
    let of = |channels: [i64; 2]| Layer { channels, ..layer() };
    let layers = [
        ("8", of([8, 8])),
        ("24", of([24, 24])),
        ("40_strided", Layer { stride: vec![2, 1], ..of([40, 40]) }),
        ("56_bfloat16", Layer { types: [T::BFloat16, T::BFloat16, T::Float, T::Float], ..of([56, 56]) }),
        ("12_float", Layer { types: [T::Float; 4], ..of([12, 12]) }),
        ("80_int8", Layer { types: [T::Int8, T::Int8, T::Int32, T::Int32], ..of([80, 80]) }),
    ];
    for (label, layer) in layers {
        for direction in [Direction::Forward, Direction::BackwardData] {
            push(cases, format!("conv_walk_{}_zeros_behind_{label}", name(direction)), layer.plain(direction));
        }
    }
}

/// Filter gradients of channels that no lines of boxes divide: the last line under each tap has some of no channel, which are not stored,
/// reduced or read.
fn lines_of_taps(cases: &mut Vec<Case>) {
    use DataType as T;
    let layer = || Layer { channels: [40, 48], input: vec![9, 10], images: 3, ..Layer::small() };
    let layers = [
        ("40", layer()),
        ("88", Layer { channels: [88, 64], ..layer() }),
        ("72_of_stride_2", Layer { channels: [72, 40], stride: vec![2, 1], ..layer() }),
        (
            "24_bfloat16",
            Layer { channels: [24, 136], types: [T::BFloat16, T::BFloat16, T::Float, T::Float], ..layer() },
        ),
        ("56_half_sums", Layer { channels: [56, 32], types: [T::Half; 4], ..layer() }),
        ("40_of_groups", Layer { channels: [80, 96], groups: 2, ..layer() }),
        (
            "24_1d",
            Layer {
                channels: [24, 64],
                input: vec![90],
                filter: vec![5],
                stride: vec![1],
                dilation: vec![1],
                pre: vec![2],
                post: vec![2],
                ..layer()
            },
        ),
        ("40_of_many_images", Layer { images: 30, ..layer() }),
    ];
    for (label, layer) in layers {
        push(cases, format!("conv_walk_wgrad_lines_of_{label}"), layer.plain(Direction::BackwardFilter));
    }
    for (label, kept) in [("all", [1, 1, 1, 1]), ("filter", [48, 1, 1, 1]), ("column", [1, 40, 3, 3])] {
        let (mut g, core) = layer().core(Direction::BackwardFilter, |_, _, id| id);
        let dim = g.tensor_mut(core).dim.clone();
        let before = g.tensor(Tensor::new("before").channels_last(dim).data_type(T::Float));
        let sum = g.pointwise("sum", PointwiseMode::Add, &[core, before]);
        let least = g.reduction("least", ReductionMode::Min, sum, kept.to_vec());
        output(&mut g, sum, T::Float);
        output(&mut g, least, T::Float);
        push(cases, format!("conv_walk_wgrad_lines_of_40_add_min_of_{label}"), g);
    }
    let (mut g, core) = layer().core(Direction::BackwardFilter, |_, _, id| id);
    let dim = g.tensor_mut(core).dim.clone();
    g.tensor_mut(core).stride = Tensor::new("rows").row_major(dim).stride;
    output(&mut g, core, T::Half);
    push(cases, "conv_walk_wgrad_lines_of_40_taps_innermost", g);
    let (mut g, core) = layer().core(Direction::BackwardFilter, |g, at, operand| match at {
        1 => scale_bias_relu(g, operand, T::Half),
        _ => operand,
    });
    output(&mut g, core, T::Half);
    push(cases, "conv_walk_wgrad_lines_of_40_beside_a_stage", g);
}

/// Layers of so many channels that blocks of these are outermost along k: what L2 holds under a tap would be gone under the next.
fn blocks_of_channels(cases: &mut Vec<Case>) {
    use DataType as T;
    let half = || Layer { channels: [768, 24], filter: vec![2, 3], ..Layer::small() };
    let turned = |layer: Layer| Layer { channels: [layer.channels[1], layer.channels[0]], ..layer };
    let float = || Layer { types: [T::Float; 4], channels: [448, 20], ..half() };
    let axes = |extents: usize| Layer { stride: vec![1; extents], dilation: vec![1; extents], ..float() };
    let layers = [
        ("half", half()),
        ("float", float()),
        ("fp8", Layer { types: [T::Fp8E4M3, T::Fp8E5M2, T::Float, T::Half], channels: [1536, 32], ..half() }),
        ("dilated", Layer { dilation: vec![1, 2], ..half() }),
        ("rotated", Layer { mode: ConvolutionMode::Convolution, ..float() }),
        (
            "grouped",
            Layer { groups: 2, channels: [1536, 48], filter: vec![1, 3], pre: vec![0, 1], post: vec![0, 1], ..half() },
        ),
        ("1d", Layer { input: vec![31], filter: vec![3], pre: vec![1], post: vec![1], ..axes(1) }),
        (
            "3d",
            Layer { input: vec![3, 4, 5], filter: vec![2, 1, 2], pre: vec![1, 0, 0], post: vec![0, 0, 1], ..axes(3) },
        ),
    ];
    for (label, layer) in layers {
        push(cases, format!("conv_walk_fprop_blocks_of_channels_{label}"), layer.plain(Direction::Forward));
        push(
            cases,
            format!("conv_walk_dgrad_blocks_of_channels_{label}"),
            turned(layer).plain(Direction::BackwardData),
        );
    }
    let strided = Layer { stride: vec![2, 1], input: vec![12, 7], ..half() };
    push(cases, "conv_walk_fprop_blocks_of_channels_of_stride_2", strided.plain(Direction::Forward));
}

/// Operands of which another axis than the channels steps by one element, so that elements lie on one another.
fn overlapping(cases: &mut Vec<Case>) {
    for direction in DIRECTIONS {
        for (slot, operand) in ["first", "second"].into_iter().enumerate() {
            for axis in [0, 2, 3] {
                let layer = Layer { channels: [64, 48], ..Layer::small() };
                let (mut g, id) = layer.core(direction, |g, at, operand| {
                    if at == slot {
                        g.tensor_mut(operand).stride[axis] = 1;
                    }
                    operand
                });
                output(&mut g, id, DataType::Half);
                push(cases, format!("conv_walk_{}_{operand}_operand_overlaps_along_{axis}", name(direction)), g);
            }
        }
    }
}

/// Strided data gradients of images that strides do not divide: what lies beyond the image is not stored, reduced or read. Of few
/// channels and many pixels phases are columns.
fn phases(cases: &mut Vec<Case>) {
    let few = || Layer { stride: vec![2, 2], input: vec![129, 127], images: 1, channels: [8, 64], ..Layer::small() };
    let pointwise = |channels| Layer { filter: vec![1, 1], pre: vec![0, 0], post: vec![0, 0], channels, ..few() };
    let columns = [
        ("", few()),
        ("_of_7x7", Layer { filter: vec![7, 7], pre: vec![3, 3], post: vec![3, 3], channels: [8, 16], ..few() }),
        ("_rotated", Layer { mode: ConvolutionMode::Convolution, channels: [16, 16], ..few() }),
        ("_grouped", Layer { groups: 2, channels: [16, 128], input: vec![130, 127], ..few() }),
        // pixels between the taps get none: they are zero
        ("_without_taps", Layer { stride: vec![1, 2], ..pointwise([16, 16]) }),
        ("_without_taps_along_both", pointwise([8, 64])),
        ("_without_taps_at_stride_3", Layer { stride: vec![3, 3], filter: vec![2, 2], ..pointwise([16, 24]) }),
    ];
    for (label, layer) in columns {
        push(cases, format!("conv_walk_dgrad_columns_of_phases{label}"), layer.plain(Direction::BackwardData));
    }
    let layer = || Layer { stride: vec![2, 2], input: vec![7, 9], channels: [64, 64], ..Layer::small() };
    for (label, layer) in [("phases", layer()), ("columns_of_phases", few())] {
        let (mut g, core) = layer.core(Direction::BackwardData, |_, _, id| id);
        g.tensor_mut(core).data_type = Some(DataType::Float);
        let dim = g.tensor_mut(core).dim.clone();
        let bias = g.tensor(Tensor::new("bias").channels_last([1, dim[1], 1, 1]));
        let pixels = g.tensor(Tensor::new("pixels").channels_last([1, 1, dim[2], dim[3]]));
        let residual = g.tensor(Tensor::new("residual").channels_last(dim));
        let biased = g.pointwise("biased", PointwiseMode::Add, &[core, bias]);
        let weighted = g.pointwise("weighted", PointwiseMode::Mul, &[biased, pixels]);
        let sum = g.pointwise("sum", PointwiseMode::Add, &[weighted, residual]);
        let relu = g.pointwise("relu", PointwiseMode::ReluFwd, &[sum]);
        output(&mut g, biased, DataType::BFloat16);
        output(&mut g, relu, DataType::Half);
        push(cases, format!("conv_walk_dgrad_{label}_bias_add_relu"), g);
        let (mut g, core) = layer.core(Direction::BackwardData, |_, _, id| id);
        output(&mut g, core, DataType::Half);
        let (sum, squares) = g.genstats("statistics", core);
        output(&mut g, sum, DataType::Float);
        output(&mut g, squares, DataType::Float);
        push(cases, format!("conv_walk_dgrad_{label}_genstats"), g);
    }
    for (label, kept) in [("all", [1, 1, 1, 1]), ("pixel", [2, 1, 7, 9]), ("row", [1, 1, 7, 1])] {
        for mode in [ReductionMode::Avg, ReductionMode::Max] {
            let (mut g, core) = layer().core(Direction::BackwardData, |_, _, id| id);
            output(&mut g, core, DataType::Half);
            let reduced = g.reduction("reduced", mode, core, kept.to_vec());
            output(&mut g, reduced, DataType::Float);
            push(cases, format!("conv_walk_dgrad_phases_{}_{label}", mode.name().to_ascii_lowercase()), g);
        }
    }
    let (mut g, core) = layer().core(Direction::BackwardData, |_, _, id| id);
    let mut attributes = fusewright::graph::Pointwise::new(PointwiseMode::GenIndex);
    attributes.axis = Some(2);
    let row = g.pointwise_with("row", attributes, &[core]);
    let sum = g.pointwise("sum", PointwiseMode::Add, &[core, row]);
    g.tensor_mut(row).data_type = Some(DataType::Int32);
    output(&mut g, sum, DataType::Half);
    push(cases, "conv_walk_dgrad_phases_row_index", g);
}

/// Images of few channels, whose rows of taps are multiplied as channels: with and without folded lines, and pixels under no tap; an engine's
/// tests hold that windows are chosen of such layers.
fn windows(cases: &mut Vec<Case>) {
    use DataType as T;
    let stem = || Layer {
        channels: [3, 24],
        input: vec![19, 18],
        filter: vec![7, 7],
        stride: vec![2, 2],
        pre: vec![3, 3],
        post: vec![3, 3],
        ..Layer::small()
    };
    let wide = || Layer { channels: [3, 64], input: vec![40, 37], ..stem() };
    let unit = || Layer { stride: vec![1, 1], input: vec![40, 41], images: 4, channels: [3, 64], ..stem() };
    let types = |types: [T; 4]| Layer { types, ..stem() };
    let line = Layer {
        images: 64,
        channels: [3, 64],
        input: vec![700],
        filter: vec![25],
        stride: vec![2],
        dilation: vec![1],
        pre: vec![4],
        post: vec![3],
        ..stem()
    };
    let volume = Layer {
        input: vec![5, 9, 11],
        filter: vec![3, 7, 7],
        stride: vec![1, 2, 2],
        dilation: vec![1; 3],
        pre: vec![1, 3, 3],
        post: vec![1, 3, 3],
        mode: ConvolutionMode::Convolution,
        ..stem()
    };
    let layers = [
        ("stem", stem()),
        ("uneven", Layer { pre: vec![2, 0], post: vec![4, 5], input: vec![20, 23], ..stem() }),
        ("rotated", Layer { mode: ConvolutionMode::Convolution, ..stem() }),
        ("channels_first", Layer { channels_first: true, ..stem() }),
        ("stride_1", unit()),
        ("rotated_stride_1", Layer { mode: ConvolutionMode::Convolution, channels_first: true, ..unit() }),
        ("stride_4", Layer { filter: vec![11, 11], stride: vec![4, 4], input: vec![41, 43], ..stem() }),
        ("stride_3_and_2", Layer { stride: vec![3, 2], ..stem() }),
        ("dilated_lines", Layer { dilation: vec![2, 1], ..stem() }),
        ("lines_of_4", Layer { filter: vec![7, 8], stride: vec![4, 1], ..stem() }),
        ("one_channel", Layer { channels: [1, 64], filter: vec![15, 15], input: vec![41, 40], ..stem() }),
        ("12_channels", Layer { channels: [12, 64], filter: vec![15, 15], input: vec![40, 37], ..stem() }),
        ("line", line),
        ("volume", volume),
        ("bfloat16", types([T::BFloat16, T::BFloat16, T::Float, T::Float])),
        ("float", Layer { channels: [3, 64], input: vec![80, 87], ..types([T::Float; 4]) }),
        ("int8", types([T::Int8, T::Int8, T::Int32, T::Int32])),
        ("fp8", types([T::Fp8E5M2, T::Fp8E4M3, T::Float, T::Half])),
    ];
    for (label, layer) in layers {
        push(cases, format!("conv_windows_{label}"), layer.plain(Direction::Forward));
    }
    let (mut g, core) = stem().core(Direction::Forward, |_, _, id| id);
    let bias = g.tensor(Tensor::new("bias").channels_last([1, 24, 1, 1]));
    let biased = g.pointwise("biased", PointwiseMode::Add, &[core, bias]);
    let relu = g.pointwise("relu", PointwiseMode::ReluFwd, &[biased]);
    let (sum, squares) = g.genstats("statistics", relu);
    output(&mut g, relu, T::Half);
    output(&mut g, sum, T::Float);
    output(&mut g, squares, T::Float);
    push(cases, "conv_windows_bias_relu_genstats".to_owned(), g);
    let (mut g, core) = wide().core(Direction::Forward, |g, slot, operand| match slot {
        0 => {
            let scale = g.tensor(Tensor::new("scale").channels_last([1, 3, 1, 1]));
            let scaled = g.pointwise("scaled", PointwiseMode::Mul, &[operand, scale]);
            g.tensor_mut(scaled).data_type = Some(T::Half);
            scaled
        }
        _ => operand,
    });
    output(&mut g, core, T::Half);
    push(cases, "conv_few_channels_of_a_stage".to_owned(), g);
}

/// Layers whose operands boxes do not take as they lie, large enough for copies of them: channels that are no multiples of 16 bytes on
/// either side, and channels before pixels.
fn copied(cases: &mut Vec<Case>) {
    use DataType as T;
    let small = || Layer { input: vec![9, 10], channels: [33, 40], ..Layer::small() };
    let channels_first = || Layer { channels: [64, 40], channels_first: true, ..small() };
    let fp8 = [T::Fp8E5M2, T::Fp8E4M3, T::Float, T::Half];
    let layers = [
        ("odd_inputs", small()),
        ("odd_outputs", Layer { channels: [40, 33], ..small() }),
        ("channels_first", channels_first()),
        ("stride_2", Layer { channels: [68, 36], stride: vec![2, 2], images: 5, ..small() }),
        ("grouped", Layer { channels: [256, 256], groups: 2, channels_first: true, ..small() }),
        ("1x1", Layer { channels: [129, 71], filter: vec![1, 1], pre: vec![0, 0], post: vec![0, 0], ..small() }),
        ("bfloat16", Layer { channels: [36, 40], types: [T::BFloat16, T::BFloat16, T::Float, T::Float], ..small() }),
        ("float", Layer { types: [T::Float; 4], ..small() }),
        ("int8", Layer { channels: [67, 72], types: [T::Int8, T::Int8, T::Int32, T::Int32], ..small() }),
        ("fp8", Layer { channels: [99, 72], types: fp8, ..small() }),
    ];
    for (label, layer) in layers {
        for direction in DIRECTIONS {
            push(cases, format!("conv_copied_{}_{label}", name(direction)), layer.plain(direction));
        }
    }
    for layer in [small(), channels_first()] {
        let (mut g, core) = layer.core(Direction::BackwardFilter, |_, _, id| id);
        let dim = g.tensor_mut(core).dim.clone();
        let before = g.tensor(layer.tensor("before", dim, T::Float));
        let sum = g.pointwise("sum", PointwiseMode::Add, &[core, before]);
        let rows = g.reduction("rows", ReductionMode::Add, sum, vec![layer.channels[1], 1, 1, 1]);
        output(&mut g, sum, T::Float);
        output(&mut g, rows, T::Float);
        let label = if layer.channels_first { "channels_first" } else { "odd_inputs" };
        push(cases, format!("conv_copied_wgrad_add_rows_{label}"), g);
    }
}

/// Filter gradients whose operands are unfolded to matrices, as types that are multiplied along k alone: every parameter of a window, pixels
/// and channels that vectors do not divide.
fn unfolded(cases: &mut Vec<Case>) {
    use DataType as T;
    let large = || Layer { types: [T::Float; 4], input: vec![21, 19], channels: [33, 36], images: 3, ..Layer::small() };
    let one = || Layer { filter: vec![1, 1], pre: vec![0, 0], post: vec![0, 0], ..large() };
    let rows = || Layer { input: vec![17, 31], channels: [47, 36], ..large() };
    let layers = [
        ("3x3", large()),
        ("1x1", one()),
        ("1x1_stride_2", Layer { stride: vec![2, 2], input: vec![42, 37], ..one() }),
        ("whole_vectors", Layer { input: vec![20, 24], channels: [35, 48], ..large() }),
        ("stride_2", Layer { stride: vec![2, 2], input: vec![41, 39], ..large() }),
        ("dilated", Layer { dilation: vec![2, 2], pre: vec![2, 1], post: vec![0, 3], input: vec![23, 22], ..large() }),
        ("padding_of_one_side", Layer { pre: vec![2, 0], post: vec![0, 1], filter: vec![3, 2], ..large() }),
        ("rotated", Layer { mode: ConvolutionMode::Convolution, filter: vec![2, 3], ..large() }),
        ("one_channel", Layer { channels: [1, 33], filter: vec![5, 5], pre: vec![2, 2], post: vec![2, 2], ..large() }),
        ("one_result", Layer { channels: [33, 1], input: vec![40, 39], images: 8, ..large() }),
        ("channels_first", Layer { channels_first: true, ..large() }),
        (
            "1d",
            Layer {
                input: vec![403],
                filter: vec![3],
                stride: vec![1],
                dilation: vec![1],
                pre: vec![1],
                post: vec![1],
                ..large()
            },
        ),
        (
            "3d",
            Layer {
                input: vec![5, 9, 11],
                filter: vec![3, 2, 3],
                stride: vec![1, 1, 2],
                dilation: vec![1; 3],
                pre: vec![1, 0, 1],
                post: vec![1, 1, 1],
                ..large()
            },
        ),
        ("rows", rows()),
        ("rows_of_many_channels", Layer { channels: [100, 36], input: vec![14, 32], ..rows() }),
        (
            "rows_of_one_tap",
            Layer { filter: vec![4, 1], pre: vec![2, 0], post: vec![1, 0], channels: [79, 36], images: 8, ..rows() },
        ),
        ("rows_dilated", Layer { dilation: vec![3, 2], pre: vec![1, 3], post: vec![4, 0], ..rows() }),
        ("rows_without_padding", Layer { pre: vec![0, 0], post: vec![0, 0], input: vec![16, 33], ..rows() }),
        ("rows_beyond_the_image", Layer { pre: vec![4, 3], post: vec![0, 6], input: vec![15, 24], ..rows() }),
        (
            "rows_of_stride_2",
            Layer { stride: vec![1, 2], input: vec![13, 63], channels: [79, 36], images: 5, ..rows() },
        ),
        ("grouped", Layer { channels: [66, 72], groups: 2, ..large() }),
        ("grouped_1x1", Layer { channels: [99, 108], groups: 3, ..one() }),
        (
            "grouped_stride_2",
            Layer { channels: [68, 40], groups: 4, stride: vec![2, 2], input: vec![41, 39], ..large() },
        ),
        ("explicit_groups", Layer { channels: [66, 72], groups: 2, explicit_groups: true, ..large() }),
        ("grouped_rows", Layer { channels: [94, 72], groups: 2, ..rows() }),
        (
            "grouped_rows_of_stride_2",
            Layer { channels: [158, 66], groups: 2, stride: vec![1, 2], input: vec![13, 63], images: 5, ..rows() },
        ),
        ("rows_in_whole_steps", Layer { input: vec![16, 32], channels: [45, 33], ..rows() }),
        (
            "rows_int8",
            Layer { types: [T::Int8, T::Int8, T::Int32, T::Int32], channels: [79, 36], images: 16, ..rows() },
        ),
        ("int8", Layer { types: [T::Int8, T::Int8, T::Int32, T::Int32], ..large() }),
        ("fp8", Layer { types: [T::Fp8E5M2, T::Fp8E4M3, T::Float, T::Half], ..large() }),
        (
            "grouped_fp8",
            Layer { types: [T::Fp8E5M2, T::Fp8E4M3, T::Float, T::Half], channels: [70, 72], groups: 2, ..large() },
        ),
    ];
    for (label, layer) in layers {
        push(cases, format!("conv_unfolded_wgrad_{label}"), layer.plain(Direction::BackwardFilter));
    }
    let (mut g, core) = large().core(Direction::BackwardFilter, |_, _, id| id);
    let dim = g.tensor_mut(core).dim.clone();
    let before = g.tensor(Tensor::new("before").channels_last(dim).data_type(T::Float));
    let sum = g.pointwise("sum", PointwiseMode::Add, &[core, before]);
    let most = g.reduction("most", ReductionMode::Amax, sum, vec![1, 1, 1, 1]);
    output(&mut g, sum, T::Float);
    output(&mut g, most, T::Float);
    push(cases, "conv_unfolded_wgrad_add_amax".to_owned(), g);
    unfolded_to_rows_of_taps(cases);
}

/// As frameworks hold filters, with the taps innermost: rows of the result are channels' taps, of an odd number, beside each other.
fn unfolded_to_rows_of_taps(cases: &mut Vec<Case>) {
    use DataType as T;
    let large = || Layer { types: [T::Float; 4], input: vec![21, 19], channels: [32, 36], images: 3, ..Layer::small() };
    let float = || Layer { channels_first: true, ..large() };
    let column = || Layer { filter: vec![3, 1], pre: vec![1, 0], post: vec![1, 0], ..float() };
    let layers = [
        ("3x3", float()),
        ("3x1", column()),
        ("3x2", Layer { filter: vec![3, 2], ..float() }),
        ("3x1_int8", Layer { types: [T::Int8, T::Int8, T::Int32, T::Int8], ..column() }),
        ("3x3_fp8", Layer { types: [T::Fp8E5M2, T::Fp8E4M3, T::Float, T::Half], ..float() }),
        ("grouped", Layer { channels: [64, 40], groups: 2, ..float() }),
    ];
    for (label, layer) in layers {
        push(cases, format!("conv_unfolded_wgrad_taps_innermost_{label}"), layer.plain(Direction::BackwardFilter));
    }
    // one value for all columns of a row, for each channel, and for each element
    let sides = [("alike_along_a_row", [36, 1, 1, 1]), ("by_channel", [1, 32, 1, 1]), ("by_element", [36, 32, 3, 3])];
    for (label, dim) in sides {
        let (mut g, core) = float().core(Direction::BackwardFilter, |_, _, id| id);
        let side = g.tensor(Tensor::new("side").row_major(dim).data_type(T::Float));
        let sum = g.pointwise("sum", PointwiseMode::Add, &[core, side]);
        output(&mut g, sum, T::Float);
        push(cases, format!("conv_unfolded_wgrad_taps_innermost_add_{label}"), g);
    }
}

/// Layers whose image goes through a mainloop stage that may be evaluated first, f(0) ≠ 0 of which must not be read as padding: of every type,
/// of channels that fill no rows of 16 bytes, before pixels, in groups, under strides.
fn evaluated(cases: &mut Vec<Case>) {
    use DataType as T;
    let small = || Layer { channels: [64, 48], input: vec![9, 10], ..Layer::small() };
    let float = || Layer { types: [T::Float; 4], ..small() };
    let large = || Layer { input: vec![21, 19], images: 5, ..small() };
    let layers = [
        ("3x3", small()),
        ("odd_inputs", Layer { channels: [33, 48], ..large() }),
        ("odd_outputs", Layer { channels: [48, 33], images: 16, ..large() }),
        ("stride_2", Layer { stride: vec![2, 2], ..small() }),
        ("padding_of_one_side", Layer { pre: vec![2, 0], post: vec![0, 3], ..small() }),
        ("grouped", Layer { channels: [128, 128], groups: 2, ..small() }),
        ("channels_first", Layer { channels_first: true, ..small() }),
        ("1x1", Layer { filter: vec![1, 1], pre: vec![0, 0], post: vec![0, 0], ..small() }),
        ("bfloat16", Layer { types: [T::BFloat16, T::BFloat16, T::Float, T::Float], ..small() }),
        ("float", float()),
        ("float_odd_inputs", Layer { channels: [35, 48], types: [T::Float; 4], ..large() }),
        ("float_stride_2", Layer { stride: vec![2, 2], input: vec![14, 15], ..float() }),
        ("fp8", Layer { types: [T::Fp8E4M3, T::Fp8E4M3, T::Float, T::Half], ..small() }),
    ];
    for (label, layer) in layers {
        for direction in DIRECTIONS {
            let slot = usize::from(direction == Direction::BackwardFilter);
            let (mut g, id) = layer.core(direction, |g, at, operand| match at == slot {
                true => scale_bias_relu(g, operand, layer.types[slot]),
                false => operand,
            });
            output(&mut g, id, layer.types[3]);
            push(cases, format!("conv_evaluated_{}_{label}", name(direction)), g);
        }
    }
}

/// A stage whose side inputs are read at every pixel, and at every image and channel: where a tap lies in padding, and a tile beyond the
/// last image, there is nothing to read.
fn by_pixel_and_image(g: &mut Graph, operand: TensorHandle, data_type: DataType) -> TensorHandle {
    let dim = g.tensor_mut(operand).dim.clone();
    let row = 8 * ((dim[3] + 7) / 8);
    let weight = Tensor::new("weight").dim([1, 1, dim[2], dim[3]]).stride([dim[2] * row, dim[2] * row, row, 1]);
    let weight = g.tensor(weight.data_type(data_type));
    let shift = g.tensor(Tensor::new("shift").channels_last([dim[0], dim[1], 1, 1]).data_type(data_type));
    let weighted = g.pointwise("weighted", PointwiseMode::Mul, &[operand, weight]);
    let shifted = g.pointwise("shifted", PointwiseMode::Add, &[weighted, shift]);
    for id in [weighted, shifted] {
        g.tensor_mut(id).data_type = Some(DataType::Half);
    }
    shifted
}

/// Layers of one channel a group: every parameter of a window, outputs that threads do not share evenly, channels that blocks do not.
fn depthwise(cases: &mut Vec<Case>) {
    let of = |channels: i64, layer: Layer| Layer { channels: [channels; 2], groups: channels, ..layer };
    let small = || of(24, Layer::small());
    let shapes = [
        ("3x3", small()),
        ("many_channels", of(200, Layer { input: vec![4, 5], ..Layer::small() })),
        ("four_channels", of(20, Layer { input: vec![9, 11], ..Layer::small() })),
        ("stride_2", Layer { stride: vec![2, 2], input: vec![9, 23], ..small() }),
        ("stride_3", Layer { stride: vec![1, 3], input: vec![5, 40], filter: vec![2, 5], ..small() }),
        ("dilated", Layer { dilation: vec![2, 3], pre: vec![2, 3], post: vec![3, 1], input: vec![8, 19], ..small() }),
        ("rotated", Layer { mode: ConvolutionMode::Convolution, filter: vec![3, 2], ..small() }),
        (
            "strided_dilated_rotated",
            Layer {
                mode: ConvolutionMode::Convolution,
                stride: vec![2, 3],
                dilation: vec![3, 2],
                pre: vec![2, 5],
                post: vec![4, 3],
                input: vec![10, 26],
                ..small()
            },
        ),
        ("stride_7_of_few_taps", Layer { stride: vec![5, 7], input: vec![11, 30], ..small() }),
        ("without_padding", Layer { pre: vec![0, 0], post: vec![0, 0], input: vec![7, 10], ..small() }),
        ("padding_beyond_the_filter", Layer { pre: vec![4, 5], post: vec![0, 6], ..small() }),
        ("ragged_strips", of(66, Layer { input: vec![37, 21], ..Layer::small() })),
        (
            "fewer_rows_than_taps",
            Layer { filter: vec![5, 3], pre: vec![2, 1], post: vec![3, 0], input: vec![2, 9], ..small() },
        ),
        (
            "rows_at_stride_3",
            Layer { stride: vec![3, 2], pre: vec![0, 1], post: vec![2, 0], input: vec![29, 13], ..small() },
        ),
        (
            "rows_at_dilation_2",
            Layer { dilation: vec![2, 2], pre: vec![1, 3], post: vec![4, 0], input: vec![26, 10], ..small() },
        ),
        ("5x5", Layer { filter: vec![5, 5], pre: vec![2, 2], post: vec![2, 2], input: vec![23, 11], ..small() }),
        ("7x7", Layer { filter: vec![7, 7], pre: vec![3, 3], post: vec![3, 3], input: vec![9, 18], ..small() }),
        (
            "1d",
            Layer {
                input: vec![37],
                filter: vec![4],
                stride: vec![1],
                dilation: vec![1],
                pre: vec![3],
                post: vec![0],
                ..small()
            },
        ),
        (
            "3d",
            Layer {
                input: vec![3, 4, 9],
                filter: vec![2, 3, 3],
                stride: vec![1, 2, 1],
                dilation: vec![1; 3],
                pre: vec![1, 0, 1],
                post: vec![0, 1, 1],
                ..small()
            },
        ),
    ];
    for (label, layer) in shapes {
        for direction in DIRECTIONS {
            push(cases, format!("conv_depthwise_{}_{label}", name(direction)), layer.plain(direction));
        }
    }
    use DataType as T;
    for types in [
        [T::BFloat16; 4],
        [T::Float; 4],
        [T::Fp8E4M3, T::Fp8E4M3, T::Float, T::Half],
        [T::Int8, T::Int8, T::Float, T::Float],
    ] {
        let layer = Layer { types: [types[0], types[1], T::Float, types[3]], ..small() };
        for direction in DIRECTIONS {
            let label = types[0].name().to_ascii_lowercase();
            push(cases, format!("conv_depthwise_{}_{label}", name(direction)), layer.plain(direction));
        }
    }
    for direction in [Direction::Forward, Direction::BackwardData] {
        let (mut g, core) = small().core(direction, |_, _, id| id);
        let dim = g.tensor_mut(core).dim.clone();
        let bias = g.tensor(Tensor::new("bias").channels_last([1, dim[1], 1, 1]).data_type(DataType::Float));
        let residual = g.tensor(Tensor::new("residual").channels_last(dim).data_type(DataType::BFloat16));
        let biased = g.pointwise("biased", PointwiseMode::Add, &[core, bias]);
        let swish = g.pointwise("swish", PointwiseMode::SwishFwd, &[biased]);
        let sum = g.pointwise("sum", PointwiseMode::Add, &[swish, residual]);
        output(&mut g, swish, DataType::Half);
        output(&mut g, sum, DataType::Float);
        push(cases, format!("conv_depthwise_{}_bias_swish_add", name(direction)), g);
    }
    let (mut g, core) = small().core(Direction::BackwardFilter, |_, _, id| id);
    let dim = g.tensor_mut(core).dim.clone();
    let scale = g.tensor(Tensor::new("scale").channels_last([dim[0], 1, 1, 1]).data_type(DataType::Float));
    let before = g.tensor(Tensor::new("before").channels_last(dim).data_type(DataType::Float));
    let scaled = g.pointwise("scaled", PointwiseMode::Mul, &[core, scale]);
    let sum = g.pointwise("sum", PointwiseMode::Add, &[scaled, before]);
    let largest = g.reduction("largest", ReductionMode::Amax, sum, vec![1, 1, 1, 1]);
    output(&mut g, sum, DataType::Float);
    output(&mut g, largest, DataType::Float);
    push(cases, "conv_depthwise_wgrad_scale_add_amax".to_owned(), g);
}

fn walked_shapes() -> Vec<(&'static str, Layer)> {
    let small = || Layer { channels: [64, 72], ..Layer::small() };
    vec![
        ("3x3", small()),
        ("padded_channels", Layer { channels: [104, 40], ..small() }),
        ("narrow_steps", Layer { channels: [8, 16], ..small() }),
        (
            "narrow_steps_of_7x7",
            Layer { channels: [8, 24], filter: vec![7, 7], pre: vec![3, 3], post: vec![3, 3], ..small() },
        ),
        ("narrow_third_steps", Layer { channels: [136, 184], input: vec![4, 5], ..small() }),
        ("narrow_steps_strided", Layer { channels: [72, 24], stride: vec![2, 2], input: vec![8, 6], ..small() }),
        ("blocks_of_32", Layer { channels: [32, 96], ..small() }),
        (
            "blocks_of_32_that_end_in_a_step",
            Layer { channels: [96, 32], filter: vec![1, 3], pre: vec![0, 1], post: vec![0, 1], ..small() },
        ),
        ("blocks_of_32_padded", Layer { channels: [80, 80], filter: vec![2, 3], ..small() }),
        ("blocks_of_32_strided", Layer { channels: [96, 32], stride: vec![2, 2], input: vec![9, 7], ..small() }),
        ("three_blocks", Layer { channels: [192, 192], input: vec![5, 5], ..small() }),
        ("stride_2", Layer { stride: vec![2, 2], input: vec![8, 6], ..small() }),
        ("stride_2_of_odd_pixels", Layer { stride: vec![2, 2], ..small() }),
        ("stride_3_2", Layer { stride: vec![3, 2], input: vec![9, 8], filter: vec![4, 5], pre: vec![2, 1], ..small() }),
        ("stride_2_without_padding", Layer { stride: vec![2, 2], input: vec![8, 6], pre: vec![0, 0], ..small() }),
        (
            "stride_2_of_1x1",
            Layer {
                stride: vec![2, 2],
                input: vec![8, 6],
                filter: vec![1, 1],
                pre: vec![0, 0],
                post: vec![0, 0],
                ..small()
            },
        ),
        ("stride_2_of_4x4", Layer { stride: vec![2, 2], input: vec![8, 8], filter: vec![4, 4], ..small() }),
        (
            "stride_3_2_of_few_pixels",
            Layer {
                stride: vec![3, 2],
                input: vec![2, 9],
                filter: vec![2, 5],
                pre: vec![1, 2],
                post: vec![2, 1],
                ..small()
            },
        ),
        (
            "taps_a_stride_apart",
            Layer {
                stride: vec![2, 2],
                dilation: vec![2, 2],
                pre: vec![2, 3],
                post: vec![2, 2],
                input: vec![9, 10],
                ..small()
            },
        ),
        (
            "taps_two_strides_apart",
            Layer {
                stride: vec![2, 1],
                dilation: vec![4, 3],
                pre: vec![5, 3],
                post: vec![4, 2],
                input: vec![13, 8],
                ..small()
            },
        ),
        (
            "taps_a_stride_of_3_apart_rotated",
            Layer {
                stride: vec![3, 2],
                dilation: vec![3, 2],
                pre: vec![1, 2],
                post: vec![3, 4],
                input: vec![11, 7],
                mode: ConvolutionMode::Convolution,
                ..small()
            },
        ),
        (
            "even_taps_a_stride_apart_in_groups",
            Layer {
                channels: [128, 128],
                groups: 2,
                filter: vec![2, 4],
                stride: vec![2, 2],
                dilation: vec![2, 2],
                pre: vec![1, 0],
                post: vec![1, 3],
                input: vec![6, 9],
                ..small()
            },
        ),
        (
            "taps_farther_apart_than_pixels",
            Layer {
                stride: vec![2, 2],
                dilation: vec![2, 4],
                pre: vec![2, 4],
                post: vec![2, 4],
                input: vec![1, 2],
                ..small()
            },
        ),
        ("stride_8", Layer { stride: vec![8, 1], input: vec![17, 5], ..small() }),
        ("stride_9", Layer { stride: vec![9, 1], input: vec![19, 5], ..small() }),
        ("dilated", Layer { dilation: vec![2, 3], pre: vec![2, 3], post: vec![1, 4], input: vec![9, 9], ..small() }),
        (
            "strided_dilated_rotated",
            Layer {
                stride: vec![3, 2],
                dilation: vec![2, 2],
                pre: vec![3, 2],
                post: vec![2, 3],
                mode: ConvolutionMode::Convolution,
                ..small()
            },
        ),
        (
            "rotated_stride_2",
            Layer { stride: vec![2, 2], input: vec![8, 6], mode: ConvolutionMode::Convolution, ..small() },
        ),
        (
            "rotated_beyond_the_last_tap",
            Layer { channels: [80, 64], images: 1, input: vec![4, 3], mode: ConvolutionMode::Convolution, ..small() },
        ),
        ("rotated_even_filter", Layer { filter: vec![2, 4], mode: ConvolutionMode::Convolution, ..small() }),
        ("padding_beyond_the_filter", Layer { pre: vec![4, 0], post: vec![0, 5], ..small() }),
        ("many_images", Layer { images: 37, input: vec![3, 2], ..small() }),
        ("one_pixel", Layer { images: 3, input: vec![1, 1], ..small() }),
        ("grouped", Layer { groups: 2, channels: [128, 256], ..small() }),
        ("grouped_of_32", Layer { groups: 4, channels: [128, 128], ..small() }),
        ("grouped_of_16", Layer { groups: 3, channels: [48, 96], ..small() }),
        ("grouped_of_80", Layer { groups: 2, channels: [160, 96], ..small() }),
        (
            "grouped_of_16_stride_2",
            Layer { groups: 2, channels: [32, 32], stride: vec![2, 2], input: vec![6, 8], ..small() },
        ),
        ("grouped_of_12", Layer { groups: 2, channels: [128, 24], ..small() }),
        ("grouped_of_72", Layer { groups: 2, channels: [144, 144], ..small() }),
        (
            "grouped_of_72_stride_2",
            Layer { groups: 2, channels: [144, 144], stride: vec![2, 2], input: vec![8, 6], ..small() },
        ),
        ("grouped_of_24", Layer { groups: 4, channels: [96, 96], ..small() }),
        ("grouped_of_40_and_8", Layer { groups: 3, channels: [120, 24], ..small() }),
        (
            "grouped_of_72_1x1_stride_2",
            Layer {
                groups: 2,
                channels: [144, 144],
                filter: vec![1, 1],
                pre: vec![0, 0],
                post: vec![0, 0],
                stride: vec![2, 2],
                input: vec![8, 6],
                ..small()
            },
        ),
        ("grouped_of_96", Layer { groups: 2, channels: [192, 96], ..small() }),
        (
            "grouped_stride_2",
            Layer { groups: 2, channels: [128, 128], stride: vec![2, 2], input: vec![6, 8], ..small() },
        ),
        ("explicit_groups", Layer { groups: 2, explicit_groups: true, channels: [128, 128], ..small() }),
        (
            "1d",
            Layer {
                input: vec![38],
                filter: vec![5],
                stride: vec![2],
                dilation: vec![1],
                pre: vec![2],
                post: vec![1],
                ..small()
            },
        ),
        (
            "3d",
            Layer {
                input: vec![4, 5, 6],
                filter: vec![3, 2, 3],
                stride: vec![1, 1, 2],
                dilation: vec![1, 2, 1],
                pre: vec![1, 0, 2],
                post: vec![1, 1, 1],
                ..small()
            },
        ),
        (
            "3d_of_odd_pixels",
            Layer {
                input: vec![5, 3, 7],
                filter: vec![3, 2, 4],
                stride: vec![2, 1, 2],
                dilation: vec![1; 3],
                pre: vec![1, 0, 2],
                post: vec![1, 1, 1],
                ..small()
            },
        ),
        (
            "1d_of_odd_pixels",
            Layer {
                input: vec![37],
                filter: vec![5],
                stride: vec![2],
                dilation: vec![1],
                pre: vec![2],
                post: vec![1],
                ..small()
            },
        ),
        (
            "beyond_the_corners_of_3d",
            Layer {
                input: vec![2, 3, 20],
                filter: vec![1, 1, 18],
                stride: vec![1; 3],
                dilation: vec![1; 3],
                pre: vec![0, 0, 17],
                post: vec![0, 0, 17],
                ..small()
            },
        ),
    ]
}

/// Layers whose images have more than 2^31 elements.
pub(crate) fn wide_convolutions(cases: &mut Vec<Case>) {
    let layer = Layer { images: 40, channels: [64, 72], input: vec![1100, 1000], stride: vec![2, 1], ..Layer::small() };
    for direction in DIRECTIONS {
        push(cases, format!("wide_conv_{}", name(direction)), layer.plain(direction));
    }
}

fn shapes() -> Vec<(&'static str, Layer)> {
    let small = Layer::small;
    let unpadded = || Layer { pre: vec![0, 0], post: vec![0, 0], input: vec![8, 8], ..small() };
    vec![
        ("3x3", small()),
        ("1x1", Layer { filter: vec![1, 1], pre: vec![0, 0], post: vec![0, 0], ..small() }),
        ("stride_2", Layer { stride: vec![2, 2], ..small() }),
        ("dilated", Layer { dilation: vec![2, 1], pre: vec![2, 0], post: vec![1, 2], ..small() }),
        (
            "strided_dilated_rotated",
            Layer {
                stride: vec![3, 2],
                dilation: vec![2, 2],
                pre: vec![3, 2],
                post: vec![2, 3],
                mode: ConvolutionMode::Convolution,
                ..small()
            },
        ),
        ("rotated_uneven_filter", Layer { filter: vec![2, 3], mode: ConvolutionMode::Convolution, ..small() }),
        ("ragged_channels", Layer { channels: [3, 5], ..small() }),
        ("one_channel", Layer { channels: [1, 1], images: 1, ..small() }),
        ("four_channels", Layer { channels: [4, 12], ..small() }),
        ("many_channels", Layer { channels: [72, 136], input: vec![5, 9], ..small() }),
        (
            "1d",
            Layer {
                input: vec![37],
                filter: vec![5],
                stride: vec![2],
                dilation: vec![1],
                pre: vec![2],
                post: vec![1],
                ..small()
            },
        ),
        (
            "3d",
            Layer {
                input: vec![4, 5, 6],
                filter: vec![3, 2, 3],
                stride: vec![1, 2, 1],
                dilation: vec![1, 1, 2],
                pre: vec![1, 0, 2],
                post: vec![1, 1, 1],
                channels: [8, 16],
                ..small()
            },
        ),
        ("grouped", Layer { groups: 4, channels: [32, 64], ..small() }),
        ("grouped_ragged", Layer { groups: 3, channels: [9, 15], ..small() }),
        ("depthwise", Layer { groups: 16, channels: [16, 16], ..small() }),
        ("explicit_groups", Layer { groups: 2, explicit_groups: true, channels: [16, 48], ..small() }),
        ("one_channel_even_filter", Layer { channels: [1, 8], filter: vec![2, 4], ..unpadded() }),
        ("channels_first_even_filter", Layer { channels_first: true, filter: vec![2, 2], ..unpadded() }),
        ("channels_first", Layer { channels_first: true, ..small() }),
        (
            "padding_of_32_bits",
            Layer {
                filter: vec![1, 3],
                stride: vec![1 << 31, 1],
                pre: vec![1 << 31, 1],
                post: vec![1 << 31, 1],
                ..small()
            },
        ),
        ("filter_as_large_as_the_padded_image", Layer { filter: vec![9, 8], ..small() }),
    ]
}

fn types(cases: &mut Vec<Case>) {
    use DataType as T;
    let all = [
        [T::BFloat16, T::BFloat16, T::Float, T::BFloat16],
        [T::Float, T::Float, T::Float, T::Float],
        [T::Half, T::Half, T::Half, T::Half],
        [T::Fp8E4M3, T::Fp8E5M2, T::Float, T::Half],
        [T::Int8, T::Int8, T::Int32, T::Int32],
        [T::Int8, T::Int8, T::Int32, T::Int8],
        [T::Int8, T::Int8, T::Float, T::Int32],
        [T::BFloat16, T::BFloat16, T::Half, T::BFloat16],
    ];
    for types in all {
        let layer = Layer { types, channels: [32, 40], ..Layer::small() };
        let label = [types[0], types[2], types[3]].map(|t| t.name().to_ascii_lowercase()).join("_");
        for direction in DIRECTIONS {
            let integer = types[2] == T::Int32 && direction != Direction::Forward; // S70-COMB-INT8, S90-COMB-INT8
            if !integer {
                push(cases, format!("conv_{}_{label}", name(direction)), layer.plain(direction));
            }
        }
    }
}

/// Scale, bias and ReLU on the image; f(0) ≠ 0 must not leak into the padding.
fn scale_bias_relu(g: &mut Graph, image: TensorHandle, data_type: DataType) -> TensorHandle {
    let dim = g.tensor_mut(image).dim.clone();
    let channel: Vec<i64> = dim.iter().enumerate().map(|(axis, &extent)| if axis == 1 { extent } else { 1 }).collect();
    let [scale, bias] = ["scale", "bias"].map(|name| g.tensor(Tensor::new(name).channels_last(channel.clone())));
    let scaled = g.pointwise("scaled", PointwiseMode::Mul, &[image, scale]);
    let shifted = g.pointwise("shifted", PointwiseMode::Add, &[scaled, bias]);
    let relu = g.pointwise("relu", PointwiseMode::ReluFwd, &[shifted]);
    for id in [scaled, shifted, relu] {
        g.tensor_mut(id).data_type = Some(data_type);
    }
    relu
}

/// The chain with operands of other dims: a factor for each image, a bias for each element.
fn scaled_by_images(g: &mut Graph, image: TensorHandle) -> TensorHandle {
    let dim = g.tensor_mut(image).dim.clone();
    let factor = g.tensor(Tensor::new("factor").channels_last([dim[0], 1, 1, 1]));
    let bias = g.tensor(Tensor::new("bias").channels_last(dim));
    let scaled = g.pointwise("scaled", PointwiseMode::Mul, &[image, factor]);
    let shifted = g.pointwise("shifted", PointwiseMode::Add, &[scaled, bias]);
    let relu = g.pointwise("relu", PointwiseMode::ReluFwd, &[shifted]);
    for id in [scaled, shifted, relu] {
        g.tensor_mut(id).data_type = Some(DataType::Half);
    }
    relu
}

fn mainloops(cases: &mut Vec<Case>) {
    for (label, stride, channels) in [("", 1, [16, 24]), ("_strided_ragged", 2, [5, 7])] {
        let layer = Layer { stride: vec![stride; 2], channels, ..Layer::small() };
        for (direction, side) in [(Direction::Forward, 0), (Direction::BackwardFilter, 1)] {
            let (mut g, id) = layer.core(direction, |g, slot, operand| match slot == side {
                true => scale_bias_relu(g, operand, DataType::Half),
                false => operand,
            });
            output(&mut g, id, DataType::Half);
            push(cases, format!("conv_{}_scale_bias_relu{label}", name(direction)), g);
        }
    }
    let (mut g, id) = Layer::small().core(Direction::Forward, |g, slot, operand| match slot {
        0 => scaled_by_images(g, operand),
        _ => operand,
    });
    output(&mut g, id, DataType::Half);
    push(cases, "conv_fprop_scaled_by_images", g);
    let (mut g, id) = Layer::small().core(Direction::Forward, |g, slot, operand| match slot {
        0 => {
            let exponential = g.pointwise("exponential", PointwiseMode::Exp, &[operand]);
            g.tensor_mut(exponential).data_type = Some(DataType::Half);
            exponential
        }
        _ => operand,
    });
    output(&mut g, id, DataType::Half);
    push(cases, "conv_fprop_exp_of_padding", g);
}

fn epilogues(cases: &mut Vec<Case>) {
    for direction in DIRECTIONS {
        let (mut g, core) = Layer::small().core(direction, |_, _, id| id);
        let dim = g.tensor_mut(core).dim.clone();
        let side = g.tensor(Tensor::new("side").channels_last([dim[0], dim[1], 1, 1]));
        let root = g.pointwise("root", PointwiseMode::Exp, &[side]);
        let sum = g.pointwise("sum", PointwiseMode::Add, &[core, root]);
        output(&mut g, root, DataType::Half);
        output(&mut g, sum, DataType::Half);
        push(cases, format!("conv_{}_stored_side_input", name(direction)), g);
    }
    for (label, groups) in [("", 1), ("_grouped", 2)] {
        for direction in DIRECTIONS {
            let layer = Layer { groups, channels: [16, 32], ..Layer::small() };
            let (mut g, core) = layer.core(direction, |_, _, id| id);
            let dim = g.tensor_mut(core).dim.clone();
            g.tensor_mut(core).data_type = Some(DataType::Float);
            let bias: Vec<i64> =
                dim.iter().enumerate().map(|(axis, &extent)| if axis == 1 { extent } else { 1 }).collect();
            let bias = g.tensor(Tensor::new("bias").channels_last(bias));
            let residual = g.tensor(Tensor::new("residual").channels_last(dim));
            let biased = g.pointwise("biased", PointwiseMode::Add, &[core, bias]);
            let sum = g.pointwise("sum", PointwiseMode::Add, &[biased, residual]);
            let relu = g.pointwise("relu", PointwiseMode::ReluFwd, &[sum]);
            output(&mut g, biased, DataType::BFloat16);
            output(&mut g, relu, DataType::Half);
            push(cases, format!("conv_{}_bias_add_relu{label}", name(direction)), g);
        }
    }
    let (mut g, core) =
        Layer { groups: 2, channels: [16, 32], ..Layer::small() }.core(Direction::Forward, |_, _, id| id);
    let mut attributes = fusewright::graph::Pointwise::new(PointwiseMode::GenIndex);
    attributes.axis = Some(1);
    let channel = g.pointwise_with("channel", attributes, &[core]);
    let sum = g.pointwise("sum", PointwiseMode::Add, &[core, channel]);
    g.tensor_mut(channel).data_type = Some(DataType::Int32);
    output(&mut g, sum, DataType::Half);
    push(cases, "conv_fprop_grouped_channel_index", g);
    for (label, channels) in [("", 40), ("_of_odd_lines", 21)] {
        let layer = Layer { channels: [16, channels], ..Layer::small() };
        let (mut g, core) = layer.core(Direction::Forward, |_, _, id| id);
        let zero = g.tensor(Tensor::new("threshold").channels_last([1, channels, 1, 1]));
        let mask = g.pointwise("mask", PointwiseMode::CmpGt, &[core, zero]);
        output(&mut g, mask, DataType::Boolean);
        push(cases, format!("conv_fprop_mask{label}"), g);
    }
}

fn reductions(cases: &mut Vec<Case>) {
    let layer = Layer { channels: [16, 40], ..Layer::small() };
    for direction in DIRECTIONS {
        for (label, kept) in [
            ("all", 0b0000),
            ("channel", 0b0010),
            ("pixel", 0b1101),
            ("image", 0b0001),
            ("image_channel", 0b0011),
            ("row", 0b0100),
        ] {
            for mode in [ReductionMode::Add, ReductionMode::Max] {
                let (mut g, core) = layer.core(direction, |_, _, id| id);
                let dim = g.tensor_mut(core).dim.clone();
                let target: Vec<i64> = dim
                    .iter()
                    .enumerate()
                    .map(|(axis, &extent)| if kept >> axis & 1 == 1 { extent } else { 1 })
                    .collect();
                let stored = g.pointwise("relu", PointwiseMode::ReluFwd, &[core]);
                output(&mut g, stored, DataType::Half);
                let reduced = g.reduction("reduced", mode, core, target);
                output(&mut g, reduced, DataType::Float);
                push(cases, format!("conv_{}_{}_{label}", name(direction), mode.name().to_ascii_lowercase()), g);
            }
        }
    }
    for (label, channels) in [("", [16, 40]), ("_ragged", [5, 7])] {
        let (mut g, core) = Layer { channels, ..Layer::small() }.core(Direction::Forward, |_, _, id| id);
        output(&mut g, core, DataType::Half);
        let (sum, squares) = g.genstats("statistics", core);
        output(&mut g, sum, DataType::Float);
        output(&mut g, squares, DataType::Float);
        push(cases, format!("conv_fprop_genstats{label}"), g);
    }
    let tall = Layer { channels: [32, 16], input: vec![65, 64], filter: vec![1, 1], pre: vec![0, 0], ..Layer::small() };
    let (mut g, core) = Layer { post: vec![0, 0], ..tall }.core(Direction::Forward, |_, _, id| id);
    output(&mut g, core, DataType::Half);
    let (sum, squares) = g.genstats("statistics", core);
    output(&mut g, sum, DataType::Float);
    output(&mut g, squares, DataType::Float);
    push(cases, "conv_fprop_genstats_of_many_tiles".to_owned(), g);
    let wide = || Layer { images: 3, channels: [32, 136], input: vec![7, 9], ..Layer::small() };
    let half = [DataType::Half, DataType::Half, DataType::Float, DataType::Half];
    let float = [DataType::Float; 4];
    for (label, types, stage) in [("", half, false), ("_of_stage", half, true), ("_of_float", float, false)] {
        let relu = |g: &mut Graph, slot, id| {
            if !stage || slot == 1 {
                return id;
            }
            let positive = g.pointwise("positive", PointwiseMode::ReluFwd, &[id]);
            g.tensor_mut(positive).data_type = Some(types[0]);
            positive
        };
        let (mut g, core) = Layer { types, ..wide() }.core(Direction::Forward, relu);
        let bias = g.tensor(Tensor::new("bias").channels_last([1, 136, 1, 1]));
        let residual = g.tensor(Tensor::new("residual").channels_last([3, 136, 7, 9]));
        let biased = g.pointwise("biased", PointwiseMode::Add, &[core, bias]);
        let sum = g.pointwise("sum", PointwiseMode::Add, &[biased, residual]);
        output(&mut g, sum, types[3]);
        let (total, squares) = g.genstats("statistics", sum);
        output(&mut g, total, DataType::Float);
        output(&mut g, squares, DataType::Float);
        push(cases, format!("conv_fprop_bias_add_genstats{label}"), g);
    }
}
