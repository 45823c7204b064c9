"""What the sweeps beside cuDNN and PyTorch share: files of cases, graphs of the frontend, timing of their plans, the table of ratios."""

import argparse
import json
import math
import os
import random
import sys

# Names of types, as graph files and the frontend have them, and as PyTorch does.
TYPES = {"HALF": "float16", "BFLOAT16": "bfloat16", "FLOAT": "float32", "FP8_E4M3": "float8_e4m3fn", "INT32": "int32"}


def write_cases(folder, cases, graph):
    """`cases.json`, and a graph file of each case."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "cases.json"), "w") as file:
        json.dump(cases, file, indent=1)
    for case in cases:
        with open(os.path.join(folder, case["case"] + ".json"), "w") as file:
            json.dump(graph(case), file)
    print(f"{len(cases)} graphs in {folder}")


def read_cases(folder):
    with open(os.path.join(folder, "cases.json")) as file:
        return json.load(file)


def time_plans(cudnn, handle, graph, pack, plans, time, record):
    """Builds a graph of the frontend and times its first plans: `median_ms` is that of the first, `best_ms` the least."""
    import torch

    graph.validate()
    graph.build_operation_graph()
    graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
    graph.check_support()
    graph.build_plans(cudnn.build_plan_policy.HEURISTICS_CHOICE)
    workspace = torch.empty(max(graph.get_workspace_size(), 1), device="cuda", dtype=torch.uint8)
    record["median_ms"] = record["best_ms"] = time(lambda: graph.execute(pack, workspace, handle=handle))
    for number in range(1, min(plans, graph.get_execution_plan_count())):
        try:
            graph.build_plan_at_index(number)
            size = max(graph.get_workspace_size_plan_at_index(number), 1)
            own = torch.empty(size, device="cuda", dtype=torch.uint8)
            run = lambda: graph.execute_plan_at_index(pack, own, number, handle=handle)
            record["best_ms"] = min(record["best_ms"], time(run))
        except Exception:
            continue


class Peers:
    """cuDNN and PyTorch on one case; a sweep says what `operands` a case has, and measures them by `eager` and by `library` into a record."""

    def __init__(self, plans, repetitions, alone=False):
        import cudnn
        import torch
        from triton.testing import do_bench

        self.cudnn, self.torch, self.plans, self.alone = cudnn, torch, plans, alone
        self.handle = cudnn.create_handle()
        self.time = lambda run: do_bench(run, warmup=10, rep=repetitions, return_mode="median")

    def measure(self, case):
        record = dict(case=case["case"], flops=case["flops"])
        operands = self.operands(case)
        measurements = [] if self.alone else [("torch_error", self.eager)]
        for key, measured in [*measurements, ("verdict", self.library)]:
            try:
                measured(case, operands, record)
            except Exception as error:
                record[key] = str(error)[:200]
        return record

    def dtype(self, data_type):
        return getattr(self.torch, TYPES[data_type])


class Built:
    """A graph of the frontend, with what is bound to it."""

    def __init__(self, peers, data_type):
        self.peers, self.pack = peers, {}
        real = peers.cudnn.data_type.FLOAT
        types = dict(io_data_type=self.type(data_type), intermediate_data_type=real, compute_data_type=real)
        self.graph = peers.cudnn.pygraph(handle=peers.handle, **types)

    def type(self, name):
        return getattr(self.peers.cudnn.data_type, name)

    def input(self, value):
        dtype = str(value.dtype).removeprefix("torch.")
        name = next(name for name, known in TYPES.items() if known == dtype)
        tensor = self.graph.tensor(dim=list(value.shape), stride=list(value.stride()), data_type=self.type(name))
        self.pack[tensor] = value
        return tensor

    def output(self, tensor, value, data_type):
        tensor.set_output(True).set_data_type(self.type(data_type)).set_dim(list(value.shape)).set_stride(list(value.stride()))
        self.pack[tensor] = value

    def time(self, record):
        peers = self.peers
        time_plans(peers.cudnn, peers.handle, self.graph, self.pack, peers.plans, peers.time, record)


def measure(folder, out, measured):
    """Puts each case to `measured`, and what it answers into a file, case by case."""
    records = []
    cases = read_cases(folder)
    for number, case in enumerate(cases):
        records.append(measured(case))
        print(f"{number + 1}/{len(cases)} {case['case']} {records[-1].get('best_ms')} {records[-1].get('torch_ms')}", file=sys.stderr)
        with open(out, "w") as file:
            json.dump({"cases": records}, file)


def by_case(path):
    with open(path) as file:
        data = json.load(file)
    return {record["case"]: record for record in (data["cases"] if isinstance(data, dict) else data)}


def show_table(args, groups, shape):
    """Ratios of the bar, cuDNN's best plan or PyTorch, over ours, by groups of cases; cases below `args.below` with their shape."""
    ours, peers = by_case(args.ours), by_case(args.peers)
    ratios = []
    for case in read_cases(args.folder):
        name = case["case"]
        bars = [peers.get(name, {}).get(key) for key in ("best_ms", "torch_ms")]
        bar, own = min((ms for ms in bars if ms), default=None), ours.get(name, {}).get("median_ms")
        if bar and own:
            ratios.append((bar / own, own, bar, case, ours[name].get("config", "")))
        else:
            print(f"{name}: {'no peer: ' + peers.get(name, {}).get('verdict', '') if own else 'not run by us'}")
    mean = lambda some: math.exp(sum(math.log(ratio) for ratio in some) / len(some)) if some else float("nan")
    for name, wanted in groups.items():
        some = [ratio for ratio, _, _, case, _ in ratios if wanted(case)]
        print(f"{name:10} {len(some):4} cases, geometric mean {mean(some):.3f}, under 1 {sum(r < 1 for r in some)}, under 0.8 {sum(r < 0.8 for r in some)}")
    for ratio, own, bar, case, config in sorted(ratios, key=lambda row: row[0]):
        if ratio < args.below:
            print(f"{ratio:6.2f} {own:8.4f} ms, bar {bar:8.4f}  {shape(case)}  {config}")


def run(about, draw, graph, peers, groups, describe, count):
    """A sweep's three commands: its head, how a case is drawn of a generator and a number, its graph file, what measures peers (`Peers`), groups of
    cases in the table, how a case is described, and how many cases there are unless told."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)

    def write(args):
        generator = random.Random(args.seed)
        write_cases(args.folder, [draw(generator, number) for number in range(args.count)], graph)

    graphs = commands.add_parser("graphs")
    graphs.add_argument("folder")
    graphs.add_argument("--count", type=int, default=count)
    graphs.add_argument("--seed", type=int, default=1)
    graphs.set_defaults(run=write)
    beside = commands.add_parser("peers")
    beside.add_argument("folder")
    beside.add_argument("out")
    beside.add_argument("--plans", type=int, default=4)
    # as long as `fusewright bench` measures: shorter runs end before large products have heated the chip to its power limit
    beside.add_argument("--repetitions", type=int, default=100, help="milliseconds of measuring, each")
    beside.add_argument("--alone", action="store_true", help="the library that the loader finds, without PyTorch")
    beside.set_defaults(run=lambda args: measure(args.folder, args.out, peers(args.plans, args.repetitions, args.alone).measure))
    shown = commands.add_parser("table")
    for name in ("folder", "ours", "peers"):
        shown.add_argument(name)
    shown.add_argument("--below", type=float, default=0.9, help="ratios that are listed")
    shown.set_defaults(run=lambda args: show_table(args, {"all": lambda case: True, **groups}, describe))
    args = parser.parse_args()
    args.run(args)


def by_value(key, values):
    """A group of cases for each value of theirs at a key."""
    return {value: lambda case, value=value: case[key] == value for value in values}
