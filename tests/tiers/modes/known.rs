//! Formulas against values of a multiple-precision library (`tests/data/pointwise_values.txt`).

use std::sync::Arc;

use fusewright::graph::{DataType, Graph, Pointwise, PointwiseMode as M, Tensor};
use fusewright::host_tensor::{HostTensor, HostTensors};
use fusewright::reference::{allowed_error, evaluate_f64, execute};
use libtest_mimic::Failed;

use super::exact::exact;

/// What two double-precision computations may differ relatively.
const TOLERANCE: f64 = 3e-13;

/// A mode, its operands and the exact value.
struct Known {
    pointwise: Pointwise,
    operands: [f64; 3],
    value: f64,
}

/// The judge's formulas, the f64 oracle and the CPU engine give the known values.
pub(crate) fn formulas_agree() -> Result<(), Failed> {
    let known = include_str!("../../data/pointwise_values.txt");
    let known: Vec<Known> = known.lines().filter(|line| !line.starts_with('#')).map(parse).collect::<Result<_, _>>()?;
    let faults: Vec<String> = known.iter().filter_map(|known| fault(known).transpose()).collect::<Result<_, _>>()?;
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n").into()) }
}

/// `MODE parameter x b value`, numbers as the hexadecimal bits of doubles.
fn parse(line: &str) -> Result<Known, String> {
    let words: Vec<&str> = line.split(' ').collect();
    let [mode, numbers @ ..] = words.as_slice() else { return Err(format!("an empty line: {line}")) };
    let mode = M::from_name(mode).ok_or_else(|| format!("no mode {mode}"))?;
    let bits =
        |word: &&str| u64::from_str_radix(word, 16).map(f64::from_bits).map_err(|error| format!("{word}: {error}"));
    let numbers = numbers.iter().map(bits).collect::<Result<Vec<f64>, String>>()?;
    let &[parameter, x, b, value] = numbers.as_slice() else {
        return Err(format!("{} numbers: {line}", numbers.len()));
    };
    let parameter = Some(parameter as f32);
    let pointwise =
        Pointwise { elu_alpha: parameter, softplus_beta: parameter, swish_beta: parameter, ..Pointwise::new(mode) };
    Ok(Known { pointwise, operands: [x, b, 0.0], value })
}

/// What is wrong with a value.
fn fault(known: &Known) -> Result<Option<String>, Failed> {
    let Known { pointwise, operands, value } = known;
    let is_close = |found: f64| (found - value).abs() <= TOLERANCE * value.abs();
    let [oracle, engine] = computed(pointwise, *operands)?;
    let allowed = allowed_error(pointwise, DataType::Float, *operands, *value);
    let judged = exact(pointwise, *operands);
    let is_right = is_close(judged) && is_close(oracle) && (engine - value).abs() <= allowed;
    let describe = || {
        let (mode, beta) = (pointwise.mode, pointwise.beta());
        format!("{mode} {operands:?} β {beta}: {value:e}, by formula {judged:e}, oracle {oracle:e}, engine {engine:e}")
    };
    Ok((!is_right).then(describe))
}

/// One value by the oracle (in DOUBLE) and by the CPU engine (in FLOAT).
fn computed(pointwise: &Pointwise, operands: [f64; 3]) -> Result<[f64; 2], Failed> {
    let run = |data_type: DataType| {
        let mut graph = Graph::new().io_data_type(data_type).compute_data_type(data_type);
        let inputs: Vec<_> = (0..pointwise.mode.inputs())
            .map(|port| graph.tensor(Tensor::new(format!("x{port}")).row_major([1, 1, 1])))
            .collect();
        let y = graph.pointwise_with("op", pointwise.clone(), &inputs);
        graph.set_output(y);
        let graph = Arc::new(graph.finalize()?);
        let mut tensors = HostTensors::new();
        for id in graph.tensor_ids() {
            let port = graph.tensor(id).name.strip_prefix('x').and_then(|port| port.parse::<usize>().ok());
            if let Some(port) = port {
                tensors.insert(id, HostTensor::from_dense(data_type, &[1, 1, 1], &[1, 1, 1], &[operands[port]])?);
            }
        }
        let output = graph.outputs().next().ok_or("no output")?;
        let value = match data_type {
            DataType::Double => evaluate_f64(&graph, &tensors)?[&output].values[0],
            _ => execute(&graph, &tensors)?[&output].to_dense::<f64>()?[0],
        };
        Ok::<f64, Failed>(value)
    };
    Ok([run(DataType::Double)?, run(DataType::Float)?])
}
