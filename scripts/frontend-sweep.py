#!/usr/bin/env python3
"""Random attention graphs through cuDNN's Python frontend and this library's C ABI, on a machine without a GPU.

    cargo build -p fusewright-cudnn
    pip install nvidia-cudnn-frontend==1.32.0 numpy
    scripts/frontend-sweep.py --library target/debug/libfusewright_cudnn.so [--count 200] [--seed 1] [--verbose]

The frontend takes the GPU from a text of device properties and validates a graph before it sends the operations, so what arrives is what programs
send. Each graph is asked for plans: what is told is how many have some, which ones the frontend refuses by itself, and which ones this library
refuses, with the options that were drawn; the last make the exit status 1. A C compiler is needed: CUDA's runtime, which the frontend asks
for the number of the device, is stood in for.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

RUNTIME = """
int cudaGetDevice(int* device) { *device = 0; return 0; }
int cudaDeviceGetAttribute(int* value, int attribute, int device) {
  *value = attribute == 75 ? 9 : attribute == 16 ? 132 : 0;  // major number of the capability, multiprocessors
  return 0;
}
const char* cudaGetErrorString(int error) { return "none"; }
int cudaRuntimeGetVersion(int* version) { *version = 13000; return 0; }
"""

DEVICE = {
    "name": "H200",
    "capability": "9.0",
    "sm_count": 132,
    "shared_bytes_per_block": 232448,
    "l2_bytes": 52428800,
    "bytes_per_second": 4.0e12,
}

REFUSED_HERE = "No valid engine configs"
BATCHES, HEADS = 2, 4
OPTIONS = ["alibi", "causal", "bottom_right", "window", "lengths", "ragged", "drop_mask", "drop", "bias", "sink", "soft_cap", "blocks"]
FP8_OPTIONS = ["causal", "lengths", "sink", "half_results"]
FACTORS = {
    "forward": ["descale_q", "descale_k", "descale_v", "descale_s", "scale_s", "scale_o"],
    "backward": ["descale_q", "descale_k", "descale_v", "descale_o", "descale_dO", "descale_s", "descale_dP"]
    + ["scale_s", "scale_dQ", "scale_dK", "scale_dV", "scale_dP"],
}


class Pass:
    """A graph with the options that were drawn for it."""

    def __init__(self, cudnn, device, drawn):
        self.cudnn, self.drawn = cudnn, drawn
        self.types = cudnn.data_type
        self.io = self.types.FP8_E4M3 if drawn["fp8"] else drawn["io"](self.types)
        self.graph = cudnn.pygraph(
            io_data_type=self.io,
            intermediate_data_type=self.types.FLOAT,
            compute_data_type=self.types.FLOAT,
            device_property=device,
        )

    def has(self, option):
        return option in self.drawn["options"]

    def tensor(self, name, dim, data_type=None, stride=None):
        stride = stride or [dim[1] * dim[2] * dim[3], dim[2] * dim[3], dim[3], 1]
        return self.graph.tensor(name=name, dim=dim, stride=stride, data_type=data_type or self.io)

    def number(self, name):
        return self.tensor(name, [1, 1, 1, 1], self.types.FLOAT)

    def offsets(self, tensor, name):
        if self.has("ragged"):
            tensor.set_ragged_offset(self.tensor(f"{name}_offsets", [BATCHES + 1, 1, 1, 1], self.types.INT32))

    def heads(self, name, heads, rows, size):
        """Heads of a position side by side, as ragged tensors have them."""
        tensor = self.tensor(name, [BATCHES, heads, rows, size], stride=[rows * heads * size, size, heads * size, 1])
        self.offsets(tensor, name)
        return tensor

    def stored(self, tensor, name, heads, rows, size):
        tensor.set_output(True).set_dim([BATCHES, heads, rows, size])
        tensor.set_stride([rows * heads * size, size, heads * size, 1])
        if self.drawn["fp8"]:
            tensor.set_data_type(self.types.HALF if self.has("half_results") else self.io)
        self.offsets(tensor, name)

    def options(self, is_backward):
        """What both passes are told of scores and probabilities."""
        d, told = self.drawn, {}
        scores = [BATCHES, HEADS, d["queries"], d["keys"]]
        if self.has("alibi"):
            told["use_alibi_mask"] = True
        if self.has("causal") or self.has("window"):
            told["use_causal_mask"] = True
        if self.has("bottom_right"):
            told["use_causal_mask_bottom_right"] = True
        if self.has("window"):
            told["sliding_window_length"] = 64
        if self.has("lengths") or self.has("ragged"):
            length = lambda name: self.tensor(name, [BATCHES, 1, 1, 1], self.types.INT32)
            told.update(use_padding_mask=True, seq_len_q=length("lengths_q"), seq_len_kv=length("lengths_kv"))
        if self.has("drop_mask"):
            factors = ["drop_scale", "drop_scale_inv"] if is_backward else ["drop_scale"]
            told["dropout"] = (self.tensor("drop_mask", scores), *map(self.number, factors))
        elif self.has("drop"):
            state = [self.tensor(name, [1, 1, 1, 1], self.types.INT64) for name in ("seed", "offset")]
            told["dropout"] = (0.1, *state)
        if self.has("bias"):
            told["bias"] = self.tensor("bias", [1, *scores[1:]])
        if self.has("sink"):
            told["sink_token"] = self.tensor("sink", [1, HEADS, 1, 1], self.types.FLOAT)
        return told

    def capped(self, graph, scores):
        self.cap = graph.tensor(name="cap", dim=[1, 1, 1, 1], stride=[1, 1, 1, 1], data_type=self.types.FLOAT)
        self.small = graph.div(a=scores, b=self.cap)
        return graph.mul(a=graph.tanh(self.small), b=self.cap)

    def capped_gradient(self, graph, gradient):
        of_small = graph.tanh_backward(loss=graph.mul(a=gradient, b=self.cap), input=self.small)
        return graph.div(a=of_small, b=self.cap)

    def forward(self):
        d, told = self.drawn, self.options(False)
        queries, keys, (size, value_size) = d["queries"], d["keys"], d["head"]
        if self.has("blocks"):
            tiles = lambda rows: (rows + 127) // 128
            dim = [BATCHES, HEADS, tiles(queries), (tiles(keys) + 7) // 8]
            told["block_mask"] = self.tensor("blocks", dim, self.types.UINT8)
        if self.has("soft_cap"):
            told["score_mod"] = self.capped
        q = self.heads("q", HEADS, queries, size)
        k, v = self.heads("k", d["key_heads"], keys, size), self.heads("v", d["key_heads"], keys, value_size)
        if d["fp8"]:
            told.update({name: self.number(name) for name in FACTORS["forward"]})
            o, stats, *largest = self.graph.sdpa_fp8(q=q, k=k, v=v, attn_scale=0.125, generate_stats=True, **told)
            self.keep(largest)
        else:
            o, stats = self.graph.sdpa(q=q, k=k, v=v, attn_scale=0.125, generate_stats=True, **told)[:2]
        stats.set_output(True).set_data_type(self.types.FLOAT)
        self.stored(o, "o", HEADS, queries, value_size)

    def backward(self):
        d, told = self.drawn, self.options(True)
        queries, keys, key_heads, (size, value_size) = d["queries"], d["keys"], d["key_heads"], d["head"]
        if self.has("sink"):
            told["dSink_token"] = self.tensor("dsink", [1, HEADS, 1, 1], self.types.FLOAT)
            told["dSink_token"].set_output(True)
        if self.has("bias"):
            told["dBias"] = self.tensor("dbias", [1, HEADS, queries, keys])
            told["dBias"].set_output(True)
        if self.has("soft_cap"):
            told.update(score_mod=self.capped, score_mod_bprop=self.capped_gradient)
        read = dict(
            q=self.heads("q", HEADS, queries, size),
            k=self.heads("k", key_heads, keys, size),
            v=self.heads("v", key_heads, keys, value_size),
            o=self.heads("o", HEADS, queries, value_size),
            dO=self.heads("do", HEADS, queries, value_size),
            stats=self.tensor("stats", [BATCHES, HEADS, queries, 1], self.types.FLOAT),
        )
        if d["fp8"]:
            told.update({name: self.number(name) for name in FACTORS["backward"]})
            *gradients, a, b, c, e = self.graph.sdpa_fp8_backward(attn_scale=0.125, **read, **told)
            self.keep([a, b, c, e])
        else:
            gradients = self.graph.sdpa_backward(attn_scale=0.125, **read, **told)
        extents = [("dq", HEADS, queries, size), ("dk", key_heads, keys, size), ("dv", key_heads, keys, value_size)]
        for gradient, where in zip(gradients, extents):
            self.stored(gradient, *where)

    def keep(self, largest):
        for tensor in largest:
            tensor.set_output(True).set_dim([1, 1, 1, 1]).set_stride([1, 1, 1, 1]).set_data_type(self.types.FLOAT)

    def ask(self):
        """Whether there are plans; raises what the frontend raises."""
        self.backward() if self.drawn["backward"] else self.forward()
        self.graph.validate()
        self.graph.build_operation_graph()
        self.graph.create_execution_plans([self.cudnn.heur_mode.A])


def draw(generator):
    pick = generator.choice
    fp8 = generator.random() < 0.2
    options = FP8_OPTIONS if fp8 else OPTIONS
    size = pick([64, 128, 128, 256] if fp8 else [64, 128, 72, 256])
    types = [lambda types: types.HALF, lambda types: types.BFLOAT16]
    return {
        "backward": generator.random() < 0.6,
        "fp8": fp8,
        "io": pick(types),
        "options": [option for option in options if generator.random() < 0.2],
        "key_heads": pick([HEADS, HEADS, 2, 1]),
        "head": [size, size if generator.random() < 0.8 else 128],
        "queries": pick([1, 64, 128, 200]),
        "keys": pick([64, 128, 200, 300]),
    }


def told(drawn):
    kind = ("FP8 " if drawn["fp8"] else "") + ("backward" if drawn["backward"] else "forward")
    extents = {key: drawn[key] for key in ("key_heads", "head", "queries", "keys")}
    return f"{kind}, {' + '.join(drawn['options']) or 'no options'}, {extents}"


def sweep(arguments):
    import cudnn

    device = cudnn.create_device_properties(json.dumps(DEVICE))
    generator = random.Random(arguments.seed)
    refusals, counts = collections.defaultdict(list), collections.Counter()
    for number in range(arguments.count):
        drawn = draw(generator)
        try:
            Pass(cudnn, device, drawn).ask()
            outcome = "has plans"
        except Exception as error:
            text = " ".join(str(error).split())
            outcome = "refused here" if REFUSED_HERE in text else "refused by the frontend"
            refusals[outcome].append((drawn, text))
        counts[outcome] += 1
        if arguments.verbose:
            print(f"{number}: {told(drawn)}: {outcome}")
    for drawn, _ in refusals["refused here"]:
        print(f"refused here: {told(drawn)}")
    reasons = collections.defaultdict(list)
    for drawn, text in refusals["refused by the frontend"]:
        reasons[text.split("python engines declined")[0][:240]].append(drawn)
    for text, all_drawn in sorted(reasons.items(), key=lambda reason: -len(reason[1])):
        print(f"refused by the frontend, {len(all_drawn)} times: {text}; first: {told(all_drawn[0])}")
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.most_common()))
    return 1 if refusals["refused here"] else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="this library's C ABI")
    parser.add_argument("--count", type=int, default=200, help="graphs (200)")
    parser.add_argument("--seed", type=int, default=1, help="what they are drawn from (1)")
    parser.add_argument("--verbose", action="store_true", help="tell each graph")
    arguments = parser.parse_args()
    library = pathlib.Path(arguments.library).resolve()
    if not library.is_file():
        parser.error(f"{library}: no such file; `cargo build -p fusewright-cudnn` makes it")
    if os.environ.get("FUSEWRIGHT_FRONTEND_SWEEP") == "1":
        status = sweep(arguments)
        sys.stdout.flush()
        os._exit(status)  # the bindings list what they leak
    # the loader reads its path when a process starts
    with tempfile.TemporaryDirectory() as folder:
        for name in ("libcudnn.so.9", "libcudnn.so"):
            os.symlink(library, os.path.join(folder, name))
        source = os.path.join(folder, "runtime.c")
        pathlib.Path(source).write_text(RUNTIME)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", os.path.join(folder, "libcudart.so.13"), source], check=True)
        environment = dict(os.environ, LD_LIBRARY_PATH=folder, FUSEWRIGHT_FRONTEND_SWEEP="1")
        return subprocess.run([sys.executable, *sys.argv], env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
