use super::{BnBackwardWeights, BnFinalize, BnFinalizeMode, NormBackward, NormForward, NormMode, NormPhase};
use crate::graph::samples::{half_graph, image, input, refusal, shape_of};
use crate::graph::{Attributes, Composite, DataType, Graph, Port, Tensor, TensorHandle};

const X: &[i64] = &[4, 6, 5, 7];
const CHANNEL: &[i64] = &[1, 6, 1, 1];
const ONE: &[i64] = &[1, 1, 1, 1];
const FORWARD: &[Port] = &[Port::Y, Port::MEAN, Port::INV_VARIANCE];
const GRADIENTS: &[Port] = &[Port::DX, Port::DSCALE, Port::DBIAS];

fn training(mode: NormMode) -> NormForward {
    NormForward::new(mode, NormPhase::Training)
}

/// An operation on X, whose other inputs are named and shaped by `parameters`; results are stored.
fn norm(composite: impl Into<Composite>, x: &[i64], parameters: &[(Port, &[i64])], outputs: &[Port]) -> Graph {
    let mut graph = half_graph();
    let composite = composite.into();
    let mut inputs = Vec::new();
    if composite.has_port(Port::X).0 {
        inputs.push((Port::X, image(&mut graph, "X", x)));
    }
    for &(port, dim) in parameters {
        let id: TensorHandle =
            if dim.is_empty() { graph.tensor(Tensor::new(port.0)) } else { input(&mut graph, port.0, dim) };
        inputs.push((port, id));
    }
    for result in graph.composite("n", composite, &inputs, outputs) {
        graph.set_output(result);
    }
    graph
}

fn dims(graph: &Graph, ports: &[Port]) -> Vec<Vec<i64>> {
    let finalized = graph.finalize().unwrap();
    let operation = finalized.operations().next().unwrap();
    let at = |&port: &Port| operation.output(port).or_else(|| operation.input(port)).unwrap();
    ports.iter().map(|port| finalized.tensor(at(port)).dim.clone()).collect()
}

fn with_running(parameters: &[(Port, &'static [i64])]) -> Vec<(Port, &'static [i64])> {
    let running = [(Port::PREV_RUNNING_MEAN, CHANNEL), (Port::PREV_RUNNING_VAR, CHANNEL), (Port::MOMENTUM, ONE)];
    parameters.iter().copied().chain(running).collect()
}

const OF_CHANNELS: &[(Port, &[i64])] = &[(Port::SCALE, CHANNEL), (Port::BIAS, CHANNEL), (Port::EPSILON, ONE)];

#[test]
fn a_batch_norm_has_statistics_of_channels() {
    let outputs = [FORWARD, &[Port::NEXT_RUNNING_MEAN, Port::NEXT_RUNNING_VAR]].concat();
    let graph = norm(training(NormMode::Batch), X, &with_running(OF_CHANNELS), &outputs);
    assert_eq!(dims(&graph, &outputs), [X, CHANNEL, CHANNEL, CHANNEL, CHANNEL]);
    let inference =
        [(Port::SCALE, CHANNEL), (Port::BIAS, CHANNEL), (Port::MEAN, CHANNEL), (Port::INV_VARIANCE, CHANNEL)];
    let graph = norm(NormForward::new(NormMode::Batch, NormPhase::Inference), X, &inference, &[Port::Y]);
    assert_eq!(dims(&graph, &[Port::Y]), [X]);
}

#[test]
fn parts_of_a_batch_norm_have_a_vector_of_channels_each() {
    let outputs = [Port::EQ_SCALE, Port::EQ_BIAS, Port::MEAN, Port::INV_VARIANCE];
    let sums = [(Port::SUM, CHANNEL), (Port::SQ_SUM, CHANNEL), (Port::ACCUM_COUNT, ONE)];
    let graph = norm(BnFinalize::default(), X, &[OF_CHANNELS, &sums].concat(), &outputs);
    assert_eq!(dims(&graph, &outputs), [CHANNEL; 4]);
    let running = [(Port::PREV_RUNNING_MEAN, CHANNEL), (Port::PREV_RUNNING_VAR, CHANNEL)];
    let inference = BnFinalize { mode: BnFinalizeMode::Inference };
    assert_eq!(
        dims(&norm(inference, X, &[OF_CHANNELS, &running].concat(), &outputs[..2]), &outputs[..2]),
        [CHANNEL; 2]
    );
    let parameters = [(Port::DY, X), (Port::SCALE, CHANNEL), (Port::MEAN, CHANNEL), (Port::INV_VARIANCE, CHANNEL)];
    let backward = norm(NormBackward { mode: NormMode::Batch }, X, &parameters, GRADIENTS);
    assert_eq!(dims(&backward, GRADIENTS), [X, CHANNEL, CHANNEL]);
    let outputs = [Port::DSCALE, Port::EQ_BIAS, Port::EQ_SCALE_X];
    assert_eq!(dims(&norm(BnBackwardWeights, X, &parameters, &outputs), &outputs), [CHANNEL; 3]);
}

#[test]
fn norms_of_rows_infer_parameters_and_statistics() {
    let parameters: [(Port, &[i64]); 3] = [(Port::SCALE, &[]), (Port::BIAS, &[]), (Port::EPSILON, ONE)];
    let graph = norm(training(NormMode::Layer), X, &parameters, FORWARD);
    assert_eq!(shape_of(&graph.finalize().unwrap(), "SCALE"), (&[1, 6, 5, 7][..], &[210, 1, 42, 6][..]));
    assert_eq!(dims(&graph, FORWARD), [X, &[4, 1, 1, 1], &[4, 1, 1, 1]]);
    let graph = norm(training(NormMode::Rms), X, &parameters, &[Port::Y, Port::INV_VARIANCE]);
    assert_eq!(dims(&graph, &[Port::Y, Port::INV_VARIANCE]), [X, &[4, 1, 1, 1]]);
    let last_axis: [(Port, &[i64]); 3] = [(Port::SCALE, &[1, 1, 1, 7]), (Port::BIAS, &[7]), (Port::EPSILON, &[1])];
    let graph = norm(training(NormMode::Layer), X, &last_axis, &FORWARD[..2]);
    assert_eq!(dims(&graph, &[Port::MEAN, Port::BIAS, Port::EPSILON]), [&[4, 6, 5, 1][..], &[1, 1, 1, 7], ONE]);
    let bare = norm(training(NormMode::Layer), X, &[(Port::EPSILON, ONE)], FORWARD);
    assert_eq!(dims(&bare, FORWARD), [X, &[4, 1, 1, 1], &[4, 1, 1, 1]]);
}

#[test]
fn an_adaptive_norm_has_rows_of_the_last_axis_and_a_scale_for_each_batch() {
    let x: &[i64] = &[4, 9, 16];
    for scale in [[4, 1, 16], [1, 9, 16]] {
        let parameters: [(Port, &[i64]); 3] =
            [(Port::SCALE, &scale), (Port::BIAS, &scale), (Port::EPSILON, &[1, 1, 1])];
        assert_eq!(
            dims(&norm(training(NormMode::AdaLayer), x, &parameters, FORWARD), FORWARD),
            [x, &[4, 9, 1], &[4, 9, 1]]
        );
    }
    let wide = norm(training(NormMode::AdaLayer), X, OF_CHANNELS, &[Port::Y]);
    assert!(refusal(&wide).contains("port X: rank 4; required 3 [NORM-SHAPE]"), "{}", refusal(&wide));
}

#[test]
fn an_instance_norm_has_statistics_of_each_channel_of_each_image() {
    let graph = norm(training(NormMode::Instance), X, OF_CHANNELS, FORWARD);
    assert_eq!(dims(&graph, FORWARD), [X, &[4, 6, 1, 1], &[4, 6, 1, 1]]);
    let lacking: [(Port, &[i64]); 3] = [(Port::SCALE, &[]), (Port::BIAS, CHANNEL), (Port::EPSILON, ONE)];
    let refused = refusal(&norm(training(NormMode::Instance), X, &lacking, &[Port::Y]));
    assert!(refused.contains("'SCALE'") && refused.contains("dims must be given"), "{refused}");
}

/// Statistics of three groups of two channels.
const OF_GROUPS: &[i64] = &[4, 3, 1, 1];

#[test]
fn a_group_norm_has_statistics_of_each_group_of_each_image() {
    let grouped = NormMode::groups(3);
    let graph = norm(training(grouped), X, OF_CHANNELS, FORWARD);
    assert_eq!(dims(&graph, FORWARD), [X, OF_GROUPS, OF_GROUPS]);
    let lacking: [(Port, &[i64]); 1] = [(Port::EPSILON, ONE)];
    assert_eq!(dims(&norm(training(grouped), X, &lacking, &FORWARD[..2]), &FORWARD[..2]), [X, OF_GROUPS]);
    let line: [(Port, &[i64]); 1] = [(Port::EPSILON, &[1, 1, 1])];
    let of_line = norm(NormForward::new(grouped, NormPhase::Inference), &[4, 6, 5], &line, &[Port::Y]);
    assert_eq!(dims(&of_line, &[Port::Y]), [[4, 6, 5]]);
    let told = NormBackward { mode: NormMode::Group { count: None } };
    let parameters = [(Port::DY, X), (Port::SCALE, CHANNEL), (Port::MEAN, OF_GROUPS), (Port::INV_VARIANCE, OF_GROUPS)];
    assert_eq!(dims(&norm(told, X, &parameters, GRADIENTS), GRADIENTS), [X, CHANNEL, CHANNEL]);
}

#[test]
fn statistics_tell_how_many_groups_there_are() {
    let told = training(NormMode::Group { count: None });
    let mut graph = norm(told, X, OF_CHANNELS, FORWARD);
    let message = refusal(&graph);
    assert!(message.contains("num_groups is not set, and no dims of statistics tell") && message.contains("[N-160]"));
    let [mean, inverse] = [Port::MEAN, Port::INV_VARIANCE].map(|port| graph.operations()[0].output(port).unwrap());
    graph.tensor_mut(inverse).dim = OF_GROUPS.to_vec();
    assert_eq!(dims(&graph, FORWARD), [X, OF_GROUPS, OF_GROUPS]);
    graph.tensor_mut(mean).dim = vec![4, 2, 1, 1];
    let message = refusal(&graph);
    assert!(message.contains("port INV_VARIANCE: dims are [4, 3, 1, 1], required [4, 2, 1, 1]"), "{message}");
}

#[test]
fn numbers_of_groups_that_do_not_divide_the_channels_name_what_gives_them() {
    for groups in [0, -2, 4, 12] {
        let message = refusal(&norm(training(NormMode::groups(groups)), X, OF_CHANNELS, FORWARD));
        let expected = format!("port X: {groups} groups of 6 channels; required a number that divides these [N-169]");
        assert!(message.contains("'n' (GROUP_NORM") && message.contains(&expected), "{message}");
    }
    let four: &[i64] = &[4, 4, 1, 1];
    let parameters = [(Port::DY, X), (Port::MEAN, four), (Port::INV_VARIANCE, four)];
    let backward =
        |count| refusal(&norm(NormBackward { mode: NormMode::Group { count } }, X, &parameters, &[Port::DX]));
    assert!(backward(None).contains("port INV_VARIANCE: 4 groups of 6 channels"), "{}", backward(None));
    let of_others = backward(Some(3));
    assert!(of_others.contains("port MEAN: dims are [4, 4, 1, 1], required [4, 3, 1, 1]"), "{of_others}");
    let wide = [(Port::SCALE, &[1, 6, 5, 1][..]), (Port::EPSILON, ONE)];
    let message = refusal(&norm(training(NormMode::groups(3)), X, &wide, &[Port::Y]));
    assert!(message.contains("port SCALE: extent 5 on axis 2; required X's channels on axis 1"), "{message}");
    let bias = [(Port::BIAS, CHANNEL), (Port::EPSILON, ONE)];
    let message = refusal(&norm(training(NormMode::groups(3)), X, &bias, &[Port::Y]));
    assert!(message.contains("port BIAS: there is no SCALE") && message.contains("[N-155]"), "{message}");
}

#[test]
fn the_key_tells_numbers_of_groups_apart() {
    let key = |groups| {
        let inference = NormForward::new(NormMode::groups(groups), NormPhase::Inference);
        norm(inference, X, OF_CHANNELS, &[Port::Y]).finalize().unwrap().key()
    };
    assert_ne!(key(3), key(2));
    let finalized = norm(training(NormMode::groups(3)), X, OF_CHANNELS, FORWARD).finalize().unwrap();
    assert!(finalized.text().contains("num_groups=3"), "{}", finalized.text());
}

#[test]
fn gradients_have_the_shapes_of_what_they_are_of() {
    let rows: &[i64] = &[4, 1, 1, 1];
    let scale: &[i64] = &[1, 6, 5, 7];
    let parameters = [(Port::DY, X), (Port::SCALE, scale), (Port::MEAN, rows), (Port::INV_VARIANCE, rows)];
    assert_eq!(
        dims(&norm(NormBackward { mode: NormMode::Layer }, X, &parameters, GRADIENTS), GRADIENTS),
        [X, scale, scale]
    );
    let rms = [(Port::DY, X), (Port::SCALE, scale), (Port::INV_VARIANCE, rows)];
    assert_eq!(
        dims(&norm(NormBackward { mode: NormMode::Rms }, X, &rms, &GRADIENTS[..2]), &GRADIENTS[..2]),
        [X, scale]
    );
    let of_images: &[i64] = &[4, 6, 1, 1];
    let instance = [(Port::DY, X), (Port::SCALE, CHANNEL), (Port::MEAN, of_images), (Port::INV_VARIANCE, of_images)];
    let graph = norm(NormBackward { mode: NormMode::Instance }, X, &instance, GRADIENTS);
    assert_eq!(dims(&graph, GRADIENTS), [X, CHANNEL, CHANNEL]);
}

#[test]
fn bad_norms_name_the_rule_and_the_tensor() {
    let layer = |parameters: &[(Port, &[i64])], outputs: &[Port]| {
        refusal(&norm(training(NormMode::Layer), X, &[parameters, &[(Port::EPSILON, ONE)]].concat(), outputs))
    };
    let no_scale = layer(&[(Port::BIAS, &[1, 6, 5, 7])], &[Port::Y]);
    assert!(no_scale.contains("port BIAS: there is no SCALE") && no_scale.contains("[N-155]"), "{no_scale}");
    let of_others = layer(&[(Port::SCALE, &[1, 6, 5, 3])], &[Port::Y]);
    assert!(of_others.contains("port SCALE: extent 3 on axis 3; required 1, or X's"), "{of_others}");
    let unequal = layer(&[(Port::SCALE, &[1, 6, 5, 7]), (Port::BIAS, &[1, 6, 1, 1])], &[Port::Y]);
    assert!(unequal.contains("port BIAS") && unequal.contains("those of SCALE"), "{unequal}");
    let without_phase = NormForward { mode: NormMode::Layer, phase: None };
    let message = refusal(&norm(without_phase, X, &[(Port::EPSILON, ONE)], &[Port::Y]));
    assert!(message.contains("forward_phase is not set") && message.contains("[N-150]"), "{message}");
    let unknown = NormForward::new(NormMode::Rms, NormPhase::Inference);
    let message = refusal(&norm(unknown, X, &[(Port::EPSILON, ONE)], &[Port::Y]));
    assert!(message.contains("tell which axes are normalised") && message.contains("[N-156]"), "{message}");
    let of_one = norm(unknown, &[4, 6, 1, 1], &[(Port::EPSILON, ONE)], &[Port::Y]);
    assert_eq!(dims(&of_one, &[Port::Y]), [[4, 6, 1, 1]]);
    let of_two = [(Port::SCALE, &[1, 6, 5, 7][..]), (Port::EPSILON, &[1, 2, 1, 1])];
    let of_two = refusal(&norm(training(NormMode::Rms), X, &of_two, &[Port::Y]));
    assert!(of_two.contains("port EPSILON: dims are [1, 2, 1, 1]; required one element [N-154]"), "{of_two}");
    let half_running = [OF_CHANNELS, &[(Port::PREV_RUNNING_MEAN, CHANNEL)]].concat();
    let message = refusal(&norm(training(NormMode::Batch), X, &half_running, &[Port::Y]));
    assert!(message.contains("PREV_RUNNING_VAR is missing") && message.contains("[N-157]"), "{message}");
    let sums = [(Port::SUM, CHANNEL), (Port::SQ_SUM, CHANNEL), (Port::ACCUM_COUNT, ONE), (Port::EPSILON, ONE)];
    let message = refusal(&norm(BnFinalize::default(), X, &sums, &[Port::EQ_SCALE]));
    assert!(message.contains("port EQ_SCALE: there is no SCALE to make it of [N-150]"), "{message}");
}

#[test]
fn a_scalar_by_value_of_sixteen_bits_is_read_as_float_and_said_so() {
    let mut graph = norm(training(NormMode::Rms), &[4, 6, 1, 1], &[(Port::EPSILON, &[1])], &[Port::Y]);
    let epsilon = graph.operations()[0].input(Port::EPSILON).unwrap();
    assert_eq!(graph.finalize().unwrap().notes().len(), 1 + 1, "Y is inferred, and epsilon is widened");
    let tensor = graph.tensor_mut(epsilon);
    (tensor.is_pass_by_value, tensor.data_type) = (true, Some(DataType::Half));
    let finalized = graph.finalize().unwrap();
    let epsilon = finalized.operations().next().unwrap().input(Port::EPSILON).unwrap();
    assert_eq!(finalized.tensor(epsilon).data_type, DataType::Float);
    assert!(
        finalized.notes().iter().any(|note| note.contains("its value is read as FLOAT")),
        "{:?}",
        finalized.notes()
    );
}

#[test]
fn every_tag_is_read_back_with_its_attributes() {
    let forward = NormMode::ALL.into_iter().flat_map(|mode| {
        [NormPhase::Inference, NormPhase::Training].map(|phase| Composite::from(NormForward::new(mode, phase)))
    });
    let backward = NormMode::ALL.into_iter().map(|mode| Composite::from(NormBackward { mode }));
    let parts = [BnFinalizeMode::Training, BnFinalizeMode::Inference].map(|mode| Composite::from(BnFinalize { mode }));
    let grouped = NormMode::groups(8);
    let grouped: [Composite; 2] = [training(grouped).into(), NormBackward { mode: grouped }.into()];
    for composite in forward.chain(backward).chain(grouped).chain(parts).chain([BnBackwardWeights.into()]) {
        assert_eq!(Composite::read(composite.tag(), &composite.attributes()), Some(composite));
    }
}

/// The ports of so many GPUs' tensors, all of these extents.
fn peers(gpus: usize, dim: &'static [i64]) -> Vec<(Port, &'static [i64])> {
    Port::PEER_STATS.into_iter().take(gpus).map(|port| (port, dim)).collect()
}

/// A batch norm of training over several GPUs.
fn of_gpus(peers: &[(Port, &'static [i64])]) -> Graph {
    norm(training(NormMode::Batch), X, &[OF_CHANNELS, peers].concat(), FORWARD)
}

#[test]
fn tensors_of_peers_hold_a_message_from_each_gpu() {
    let inferred = of_gpus(&peers(3, &[]));
    assert_eq!(dims(&inferred, &Port::PEER_STATS[..3]), [[3, 24, 1, 1]; 3]);
    // as apex and samples of cuDNN have them
    assert_eq!(dims(&of_gpus(&peers(2, X)), &Port::PEER_STATS[..2]), [X; 2]);
    let error = refusal(&of_gpus(&peers(2, &[2, 6, 1, 1])));
    let text = "port PEER_STATS_0: dims are [2, 6, 1, 1]; required 48 elements, 24 words from each of 2 GPUs";
    assert!(error.contains(text) && error.contains("[N-10g]"), "{error}");
    let gap = [(Port::PEER_STATS[1], &[2, 24, 1, 1][..])];
    let error = refusal(&of_gpus(&gap));
    assert!(error.contains("PEER_STATS_0 is empty, and a later one has a tensor"), "{error}");
    let mut halves = of_gpus(&peers(1, &[1, 24, 1, 1]));
    let peer = halves.operations()[0].input(Port::PEER_STATS[0]).unwrap();
    halves.tensor_mut(peer).data_type = Some(DataType::Half);
    assert!(refusal(&halves).contains("type HALF; required FLOAT"));
}

#[test]
fn other_norms_than_batch_norms_have_no_peers() {
    let parameters = [&[(Port::SCALE, CHANNEL), (Port::BIAS, CHANNEL), (Port::EPSILON, ONE)][..], &peers(2, &[])];
    let error = refusal(&norm(training(NormMode::Instance), X, &parameters.concat(), FORWARD));
    assert!(error.contains("GR-PORTS") && error.contains("PEER_STATS_0"), "{error}");
}

/// Values of several GPUs by their definition are those of one norm of all images.
#[test]
fn gpus_that_send_what_a_joint_norm_would_find_normalise_as_it() {
    use crate::host_tensor::{HostTensor, HostTensors};
    use crate::reference::{Distribution, execute, random_inputs};
    let of = |x, gpus: usize| norm(training(NormMode::Batch), x, &[OF_CHANNELS, &peers(gpus, &[])].concat(), FORWARD);
    let (own, joint) = (of(&[2, 6, 5, 7], 2).finalize().unwrap(), of(X, 0).finalize().unwrap());
    let inputs = random_inputs(&joint, 5, Distribution::Normal).unwrap();
    let named = |graph: &crate::graph::FinalizedGraph, name: &str| {
        graph.tensor_ids().find(|&id| graph.tensor(id).name == name).unwrap()
    };
    let whole: Vec<f32> = inputs[&named(&joint, "X")].to_dense().unwrap();
    let (first, second) = whole.split_at(whole.len() / 2);
    // the message of the second GPU, channel by channel
    let pixels = 5 * 7;
    let of_channel = |channel: usize| {
        let images = second.chunks(6 * pixels).flat_map(move |image| &image[channel * pixels..(channel + 1) * pixels]);
        images.map(|&x| f64::from(x)).collect::<Vec<f64>>()
    };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let message = |word: usize| {
        let (place, channel) = (word / 2 / 6 % 2, word / 2 % 6);
        let values = of_channel(channel);
        let squares: Vec<f64> = values.iter().map(|x| (x - mean(&values)).powi(2)).collect();
        match (word / 24, word % 2) {
            (0, _) => 0.0,
            (_, 1) => 1.0,
            _ => mean(if place == 0 { &values } else { &squares }),
        }
    };
    let given = own.inputs().map(|id| {
        let tensor = own.tensor(id);
        let host = match tensor.name.as_str() {
            "X" => HostTensor::from_dense(tensor.data_type, &tensor.dim, &tensor.stride, first),
            name if name.starts_with("PEER") => {
                HostTensor::from_fn(tensor.data_type, &tensor.dim, &tensor.stride, message)
            }
            name => Ok(inputs[&named(&joint, name)].clone()),
        };
        (id, host.unwrap())
    });
    let found = execute(&own, &given.collect::<HostTensors>()).unwrap();
    let expected = execute(&joint, &inputs).unwrap();
    for (own, joint) in own.results().iter().zip(joint.results()) {
        let (found, expected): (Vec<f32>, Vec<f32>) =
            (found[own].to_dense().unwrap(), expected[&joint].to_dense().unwrap());
        let largest = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(largest < 2e-3, "{largest}");
    }
}

#[test]
fn a_definition_has_no_composite_and_computes_nothing_that_nobody_reads() {
    let parameters = [(Port::DY, X), (Port::SCALE, CHANNEL), (Port::MEAN, CHANNEL), (Port::INV_VARIANCE, CHANNEL)];
    for graph in [
        norm(
            training(NormMode::Batch),
            X,
            &with_running(OF_CHANNELS),
            &[Port::Y, Port::NEXT_RUNNING_MEAN, Port::NEXT_RUNNING_VAR],
        ),
        norm(NormBackward { mode: NormMode::Batch }, X, &parameters, GRADIENTS),
        norm(training(NormMode::groups(2)), X, OF_CHANNELS, FORWARD),
        norm(BnBackwardWeights, X, &parameters, &[Port::EQ_BIAS, Port::DBIAS]),
    ] {
        let finalized = graph.finalize().unwrap();
        let expanded = finalized.expand();
        assert!(expanded.operations().len() > 1);
        assert!(!expanded.operations().any(|operation| matches!(operation.attributes, Attributes::Composite(_))));
        assert_eq!(expanded.outputs().collect::<Vec<_>>(), finalized.outputs().collect::<Vec<_>>());
        assert!(expanded.inputs().count() >= finalized.inputs().count());
    }
}
