//! On a GPU of 80 GB, where `FUSEWRIGHT_HUGE=1` asks for it: a product of more rows than coordinates of boxes count. Nothing
//! of its size passes through host memory: a period of rows is copied over A on the device, and C is looked at in windows.

use std::time::Duration;

use fusewright::graph::{DataType, Graph, PointwiseMode, Tensor};
use fusewright::host_tensor::HostTensor;
use fusewright::plan::{
    DeviceBuffer, DeviceContext, DevicePointer, ExecutionPlan, Stream, VariantPack, WORKSPACE_ALIGNMENT, Workspace,
};
use libtest_mimic::{Failed, Trial};

use crate::{device, pipeline};

/// Rows of A and C: 32 GiB each, in HALF.
const ROWS: u64 = (1 << 31) + (1 << 20);

/// Columns of A and C.
const WIDTH: u64 = 8;

/// Bytes of a row of A and of C.
const ROW_BYTES: u64 = WIDTH * 2;

/// Rows after which A repeats itself: not a power of two, so that a row whose number has lost its upper bits is another.
const PERIOD: u64 = 3 << 20;

/// Rows that are looked at together, and how many windows of them at random places.
const WINDOW: u64 = 4096;
const WINDOWS: u64 = 1000;

/// uids.
const A: i64 = 1;
const B: i64 = 2;
const C: i64 = 3;

const LIMIT: Duration = Duration::from_secs(120);

pub(crate) fn trials() -> Vec<Trial> {
    let wanted = std::env::var_os("FUSEWRIGHT_HUGE").is_some_and(|value| value == "1");
    let trial = Trial::test("device::huge::multiplies_more_rows_than_31_bits_count", multiplies);
    vec![trial.with_ignored_flag(!wanted)]
}

/// An integer that HALF holds exactly.
fn a_at(row: u64, column: u64) -> f64 {
    let mixed = (row % PERIOD * WIDTH + column).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    (mixed % 2039) as f64 - 1000.0
}

/// B moves every column by three.
fn c_at(row: u64, column: u64) -> f64 {
    a_at(row, (column + 3) % WIDTH)
}

fn multiplies() -> Result<(), Failed> {
    let context = device::context()?;
    let stream = Stream::new(context)?;
    let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
    let (rows, width) = (i64::try_from(ROWS)?, i64::try_from(WIDTH)?);
    let a = graph.tensor(Tensor::new("A").uid(A).row_major([1, rows, width]));
    let b = graph.tensor(Tensor::new("B").uid(B).row_major([1, width, width]));
    let c = graph.matmul("mm", a, b);
    graph.set_output(c).uid = Some(C);
    let lowered = pipeline::lower(&graph, context.device())?;
    if lowered.config.engine == "warpgroup_mma" {
        return Err(format!("{} counts rows in 31 bits", lowered.config).into());
    }
    let plan = device::build(context, &lowered)?;

    let bytes = usize::try_from(ROWS * ROW_BYTES)?;
    let a = DeviceBuffer::new(context, bytes, WORKSPACE_ALIGNMENT)?;
    let mut c = DeviceBuffer::new(context, bytes, WORKSPACE_ALIGNMENT)?;
    // NaN: a row that is not written is seen.
    c.fill(0xff, &stream)?;
    repeat(context, &a, &stream)?;
    let moved = |position: usize| f64::from(u8::from((position / 8 + 8 - 3) % 8 == position % 8));
    let b = uploaded(context, WIDTH, &moved, &stream)?;
    let workspace = DeviceBuffer::new(context, usize::try_from(plan.workspace_bytes())?.max(1), WORKSPACE_ALIGNMENT)?;
    let mut pack = VariantPack::new();
    pack.set_pointer(A, a.pointer()).set_pointer(B, b.pointer()).set_pointer(C, c.pointer());
    let workspace = Workspace { pointer: workspace.pointer(), bytes: plan.workspace_bytes() };
    // SAFETY: the buffers are as long as the tensors, and live until the execution was waited for.
    unsafe { plan.execute(&pack, workspace, &stream) }?;
    stream.wait(LIMIT)?;
    check(context, &c, &stream).map_err(|error| format!("{}: {error:?}", lowered.config).into())
}

/// Fills A with periods of rows.
fn repeat(context: &DeviceContext, a: &DeviceBuffer, stream: &Stream) -> Result<(), Failed> {
    let period = uploaded(context, PERIOD, &|position| a_at(position as u64 / WIDTH, position as u64 % WIDTH), stream)?;
    let copy = Copy::of(context, PERIOD)?;
    for first in (0..ROWS).step_by(usize::try_from(PERIOD)?) {
        copy.run(period.pointer(), at(a, first), stream)?;
    }
    Ok(stream.wait(LIMIT)?)
}

/// The first rows, those around the last that 31 and the first that 32 bits hold, the last, and others at random places.
fn check(context: &DeviceContext, c: &DeviceBuffer, stream: &Stream) -> Result<(), Failed> {
    let window = DeviceBuffer::new(context, usize::try_from(WINDOW * ROW_BYTES)?, WORKSPACE_ALIGNMENT)?;
    let copy = Copy::of(context, WINDOW)?;
    let ends = [0, (1 << 30) - WINDOW / 2, (1 << 31) - WINDOW / 2, 1 << 31, ROWS - WINDOW];
    let random = (1..=WINDOWS).map(|number: u64| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % (ROWS - WINDOW));
    for first in ends.into_iter().chain(random) {
        copy.run(at(c, first), window.pointer(), stream)?;
        stream.wait(LIMIT)?;
        let expected = row_major(WINDOW, &|position| c_at(first + position as u64 / WIDTH, position as u64 % WIDTH))?;
        let actual = window.download(stream)?;
        if let Some(wrong) = actual.iter().zip(&expected).position(|(actual, expected)| actual != expected) {
            let row = first + wrong as u64 / ROW_BYTES;
            return Err(format!("row {row} of C differs, column {}", wrong as u64 % ROW_BYTES / 2).into());
        }
    }
    Ok(())
}

/// A copy of rows on the device.
struct Copy {
    plan: ExecutionPlan,
}

impl Copy {
    fn of(context: &DeviceContext, rows: u64) -> Result<Self, Failed> {
        let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
        let dim = [1, i64::try_from(rows)?, i64::try_from(WIDTH)?];
        let x = graph.tensor(Tensor::new("x").uid(A).row_major(dim));
        let y = graph.pointwise("copy", PointwiseMode::Identity, &[x]);
        graph.set_output(y).uid = Some(C);
        Ok(Self { plan: device::build(context, &pipeline::lower(&graph, context.device())?)? })
    }

    fn run(&self, from: DevicePointer, to: DevicePointer, stream: &Stream) -> Result<(), Failed> {
        let mut pack = VariantPack::new();
        pack.set_pointer(A, from).set_pointer(C, to);
        // SAFETY: both ends lie in buffers that outlive the copy, as it is waited for; the copy ends before they do.
        Ok(unsafe { self.plan.execute(&pack, Workspace::NONE, stream) }?)
    }
}

/// A row of a buffer. A copy that starts there reads or writes at most to its end.
fn at(buffer: &DeviceBuffer, row: u64) -> DevicePointer {
    DevicePointer::from_raw(buffer.pointer().address() + row * ROW_BYTES)
}

fn row_major(rows: u64, value: &(dyn Fn(usize) -> f64 + Sync)) -> Result<Vec<u8>, Failed> {
    let (rows, width) = (i64::try_from(rows)?, i64::try_from(WIDTH)?);
    Ok(HostTensor::from_fn(DataType::Half, &[1, rows, width], &[rows * width, width, 1], value)?
        .to_row_major_bytes()?)
}

fn uploaded(
    context: &DeviceContext,
    rows: u64,
    value: &(dyn Fn(usize) -> f64 + Sync),
    stream: &Stream,
) -> Result<DeviceBuffer, Failed> {
    let bytes = row_major(rows, value)?;
    let mut buffer = DeviceBuffer::new(context, bytes.len(), WORKSPACE_ALIGNMENT)?;
    buffer.upload(&bytes, stream)?;
    Ok(buffer)
}
