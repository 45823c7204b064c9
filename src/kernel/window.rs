//! Windows over images in device memory: what a resampling reads around each point of its result (operations.md
//! section 7).

use crate::graph::{Attributes, FinalizedGraph, Fraction, Operation, Port, Resample, ResampleMode, TensorId};

/// Most spatial axes that kernels are written for.
pub const MAX_WINDOW_AXES: usize = 3;

/// Largest window, stride, padding and number of positions in a window: sums of a few of them do not overflow.
const LARGEST_PARAMETER: i64 = 1 << 31;

/// One spatial axis of a pooling. Window `w` starts at pixel `w · stride − padding`, which may lie outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolAxis {
    /// Pixels of the image.
    pub pixels: i64,
    /// Number of windows.
    pub windows: i64,
    /// Positions of a window.
    pub window: i64,
    /// Pixels from a window to the next.
    pub stride: i64,
    /// Positions of the first window before the image.
    pub padding: i64,
}

/// What a pooling computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolFunction {
    /// Mean over the pixels of a window, divided by its positions or by its pixels; 0 where nothing counts (O-09).
    Mean {
        /// Whether positions without a pixel count.
        counts_padding: bool,
    },
    /// Largest value of a window, in which positions without a pixel are −∞.
    Maximum,
    /// Row-major position of the first largest value (OP-IDX-VALUE, OP-IDX-TIE); 0 where nothing is above −∞.
    Place,
    /// At a pixel, the sum of the shares in the means of all windows that meet it.
    MeanGradient {
        /// As in [`Self::Mean`].
        counts_padding: bool,
    },
    /// At a pixel, the sum of the gradients of all windows whose maximum it is.
    MaximumGradient {
        /// Where the maxima are.
        maxima: Maxima,
    },
}

/// What tells where the maxima of windows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maxima {
    /// A tensor of their row-major positions.
    Index(TensorId),
    /// The image, searched again.
    Image(TensorId),
}

/// A pooling or its gradient.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// What is computed.
    pub function: PoolFunction,
    /// The image; of a gradient, the gradients of the windows.
    pub source: TensorId,
    /// Names the search that a maximum and its place share: the operation's first result.
    pub search: TensorId,
    /// One entry a spatial axis, outermost first.
    pub axes: Vec<PoolAxis>,
}

/// One spatial axis of a linear interpolation: sample `o` lies at pixel `(o · scale − shift) / parts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleAxis {
    /// Pixels of the image.
    pub pixels: i64,
    /// Number of samples.
    pub samples: i64,
    /// Parts of a pixel from a sample to the next.
    pub scale: i64,
    /// Parts of a pixel before the image.
    pub shift: i64,
    /// Parts of a pixel.
    pub parts: i64,
}

/// Separable linear interpolation between pixels, edges repeated.
#[derive(Clone, Debug, PartialEq)]
pub struct Interpolation {
    /// The image.
    pub source: TensorId,
    /// One entry a spatial axis, outermost first.
    pub axes: Vec<SampleAxis>,
}

/// What a resampling makes of the pixels around a point.
#[derive(Clone, Debug, PartialEq)]
pub enum Window {
    /// A pooling or its gradient.
    Pool(Pool),
    /// An interpolation.
    Interpolation(Interpolation),
}

impl Window {
    /// One result of a resampling; `None` where its parameters have no meaning (windows that are no whole numbers,
    /// `NEAREST`, an index of anything but `MAXPOOL`), are beyond 2^31, or tensors are missing.
    pub fn of(graph: &FinalizedGraph, operation: &Operation, port: Port) -> Option<Self> {
        let dim = |id: TensorId| graph.tensor(id).dim.as_slice();
        let search = operation.output_tensors().next()?;
        match &operation.attributes {
            Attributes::ResampleForward(resample) => {
                let source = operation.input(Port::X)?;
                let (image, result) = (dim(source), dim(operation.output(port)?));
                if resample.mode == ResampleMode::Bilinear {
                    let axes = (port == Port::Y).then(|| sample_axes(resample, image, result))??;
                    return Some(Self::Interpolation(Interpolation { source, axes }));
                }
                let function = forward(resample.mode, port)?;
                Some(Self::Pool(Pool { function, source, search, axes: pool_axes(resample, image, result)? }))
            }
            Attributes::ResampleBackward(resample) => {
                let source = operation.input(Port::DY)?;
                let axes = pool_axes(resample, dim(operation.output(Port::DX)?), dim(source))?;
                Some(Self::Pool(Pool { function: backward(resample.mode, operation)?, source, search, axes }))
            }
            _ => None,
        }
    }

    /// Tensors read, the image or the gradients first.
    pub fn tensors(&self) -> Vec<TensorId> {
        match self {
            Self::Interpolation(interpolation) => vec![interpolation.source],
            Self::Pool(pool) => match pool.function {
                PoolFunction::MaximumGradient { maxima: Maxima::Index(other) | Maxima::Image(other) } => {
                    vec![pool.source, other]
                }
                _ => vec![pool.source],
            },
        }
    }

    /// Number of axes of its tensors: images, channels, spatial axes.
    pub fn rank(&self) -> usize {
        2 + match self {
            Self::Pool(pool) => pool.axes.len(),
            Self::Interpolation(interpolation) => interpolation.axes.len(),
        }
    }

    /// A bound on the magnitude of every coordinate on the way.
    pub fn reach(&self) -> i64 {
        let bounds: Vec<i64> = match self {
            Self::Pool(pool) => {
                let reach = |axis: &PoolAxis| {
                    axis.windows.saturating_mul(axis.stride).saturating_add(axis.window + axis.padding.abs())
                };
                pool.axes.iter().map(|axis| reach(axis).max(axis.pixels.saturating_add(axis.padding.abs()))).collect()
            }
            Self::Interpolation(interpolation) => interpolation
                .axes
                .iter()
                .map(|axis| axis.samples.saturating_mul(axis.scale).saturating_add(axis.shift.abs() + axis.parts))
                .collect(),
        };
        bounds.into_iter().max().unwrap_or(0)
    }
}

fn forward(mode: ResampleMode, port: Port) -> Option<PoolFunction> {
    match (mode, port) {
        (ResampleMode::Maxpool, Port::INDEX) => Some(PoolFunction::Place),
        (ResampleMode::Maxpool, _) => Some(PoolFunction::Maximum),
        (ResampleMode::AvgpoolIncludePadding, Port::Y) => Some(PoolFunction::Mean { counts_padding: true }),
        (ResampleMode::AvgpoolExcludePadding, Port::Y) => Some(PoolFunction::Mean { counts_padding: false }),
        _ => None,
    }
}

/// The index decides where there is one, else X; Y is not read.
fn backward(mode: ResampleMode, operation: &Operation) -> Option<PoolFunction> {
    let index = operation.input(Port::INDEX);
    match mode {
        ResampleMode::Maxpool => {
            let maxima = index.map(Maxima::Index).or(operation.input(Port::X).map(Maxima::Image))?;
            Some(PoolFunction::MaximumGradient { maxima })
        }
        _ if index.is_some() => None,
        ResampleMode::AvgpoolIncludePadding => Some(PoolFunction::MeanGradient { counts_padding: true }),
        ResampleMode::AvgpoolExcludePadding => Some(PoolFunction::MeanGradient { counts_padding: false }),
        _ => None,
    }
}

/// The axes of a pooling of an image to a pooled tensor, both `[N, C, spatial…]`.
fn pool_axes(resample: &Resample, image: &[i64], pooled: &[i64]) -> Option<Vec<PoolAxis>> {
    let (image, pooled) = (image.get(2..)?, pooled.get(2..)?);
    let axis = |axis: usize| {
        Some(PoolAxis {
            pixels: image[axis],
            windows: pooled[axis],
            window: whole(resample.window[axis])?,
            stride: whole(resample.stride[axis])?,
            padding: whole(resample.pre_padding[axis])?,
        })
    };
    let axes: Vec<PoolAxis> = (0..image.len()).map(axis).collect::<Option<_>>()?;
    let positions = axes.iter().try_fold(1i64, |volume, axis| volume.checked_mul(axis.window));
    (axes.len() <= MAX_WINDOW_AXES && positions? <= LARGEST_PARAMETER).then_some(axes)
}

/// The axes of an interpolation: the window of sample `o` starts at `o · stride − pre-padding`, in fractions.
fn sample_axes(resample: &Resample, image: &[i64], result: &[i64]) -> Option<Vec<SampleAxis>> {
    let (image, result) = (image.get(2..)?, result.get(2..)?);
    let axis = |axis: usize| {
        let (stride, padding) = (small(resample.stride[axis])?, small(resample.pre_padding[axis])?);
        let scale = stride.numerator * padding.denominator;
        let shift = padding.numerator * stride.denominator;
        let parts = stride.denominator * padding.denominator;
        let divisor = common_divisor(common_divisor(scale, shift.abs()), parts);
        let [scale, shift, parts] = [scale, shift, parts].map(|value| value / divisor);
        let is_small = scale.max(shift.abs()).max(parts) <= LARGEST_PARAMETER;
        is_small.then_some(SampleAxis { pixels: image[axis], samples: result[axis], scale, shift, parts })
    };
    let axes: Vec<SampleAxis> = (0..image.len()).map(axis).collect::<Option<_>>()?;
    (axes.len() <= MAX_WINDOW_AXES).then_some(axes)
}

/// A fraction whose products with another such fraction have 62 bits.
fn small(fraction: Fraction) -> Option<Fraction> {
    let Fraction { numerator, denominator } = fraction;
    let within = |value: i64| value.unsigned_abs() < LARGEST_PARAMETER as u64;
    (within(numerator) && within(denominator)).then_some(fraction)
}

fn whole(fraction: Fraction) -> Option<i64> {
    let Fraction { numerator, denominator } = fraction;
    let value = numerator / denominator;
    (numerator % denominator == 0 && value.unsigned_abs() <= LARGEST_PARAMETER as u64).then_some(value)
}

/// Greatest common divisor of a number and a positive one, or 1 and more.
fn common_divisor(mut a: i64, mut b: i64) -> i64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Graph, PaddingMode, Tensor};

    fn halves(numerator: i64) -> Vec<Fraction> {
        vec![Fraction { numerator, denominator: 2 }; 2]
    }

    fn resample(mode: ResampleMode) -> Resample {
        Resample {
            mode,
            padding_mode: PaddingMode::NegInfPad,
            window: vec![Fraction::whole(3); 2],
            stride: vec![Fraction::whole(2); 2],
            pre_padding: vec![Fraction::whole(1); 2],
            post_padding: vec![Fraction::whole(0); 2],
            generate_index: None,
            alpha: 1.0,
            beta: 0.0,
        }
    }

    /// The window of the value and of the index of a resampling of a 2×8×7×9 image.
    fn windows(resample: Resample) -> [Option<Window>; 2] {
        let mut graph = Graph::new().io_data_type(crate::graph::DataType::Float);
        let x = graph.tensor(Tensor::new("x").channels_last([2, 8, 7, 9]));
        let [y, index] = ["y", "index"].map(|name| graph.tensor(Tensor { is_virtual: false, ..Tensor::new(name) }));
        graph.operation(Operation {
            name: "op".to_owned(),
            attributes: Attributes::ResampleForward(resample),
            compute_data_type: None,
            inputs: vec![(Port::X, x)],
            outputs: vec![(Port::Y, y), (Port::INDEX, index)],
        });
        let graph = graph.finalize().expect("well formed");
        let operation = graph.operations().next().expect("one operation");
        [Port::Y, Port::INDEX].map(|port| Window::of(&graph, operation, port))
    }

    #[test]
    fn a_pooling_has_whole_windows() {
        let [value, place] = windows(resample(ResampleMode::Maxpool));
        let (Some(Window::Pool(value)), Some(Window::Pool(place))) = (value, place) else { panic!("two poolings") };
        assert_eq!((value.function, place.function), (PoolFunction::Maximum, PoolFunction::Place));
        assert_eq!(value.search, place.search);
        assert_eq!(value.axes[1], PoolAxis { pixels: 9, windows: 4, window: 3, stride: 2, padding: 1 });
        let fractional = Resample { stride: halves(3), ..resample(ResampleMode::Maxpool) };
        assert_eq!(windows(fractional), [None, None]);
        let [mean, place] = windows(resample(ResampleMode::AvgpoolExcludePadding));
        assert!(mean.is_some() && place.is_none(), "averages have no place");
        assert_eq!(windows(resample(ResampleMode::Nearest)), [None, None]);
    }

    #[test]
    fn an_interpolation_counts_in_parts_of_a_pixel() {
        let doubled = Resample {
            window: vec![Fraction::whole(2); 2],
            stride: halves(1),
            pre_padding: halves(1),
            post_padding: vec![Fraction::whole(1); 2],
            ..resample(ResampleMode::Bilinear)
        };
        let [Some(Window::Interpolation(interpolation)), None] = windows(doubled) else { panic!("an interpolation") };
        assert_eq!(interpolation.axes[0], SampleAxis { pixels: 7, samples: 14, scale: 1, shift: 1, parts: 2 });
    }

    #[test]
    fn huge_windows_are_refused_and_far_coordinates_are_seen() {
        let huge = Resample {
            window: vec![Fraction::whole(1 << 20); 2],
            post_padding: vec![Fraction::whole(1 << 20); 2],
            ..resample(ResampleMode::Maxpool)
        };
        assert_eq!(windows(huge)[0], None);
        let far = Resample {
            window: vec![Fraction::whole(1), Fraction::whole(1 << 31)],
            post_padding: vec![Fraction::whole(1 << 31); 2],
            stride: vec![Fraction::whole(1 << 30); 2],
            ..resample(ResampleMode::Maxpool)
        };
        let window = windows(far)[0].clone().expect("it has a meaning");
        assert!(window.reach() > i64::from(i32::MAX));
    }
}
