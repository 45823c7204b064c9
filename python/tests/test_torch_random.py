"""Random models: what `random_models` makes of seeds, held against eager PyTorch."""

from collections import Counter

import pytest

torch = pytest.importorskip("torch")

import random_models  # noqa: E402
from torch_comparison import fresh_compiler  # noqa: E402, F401

from fusewright.torch import _translate  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script_method.*")


def test_random_models(request):
    """Through AOTAutograd and the pass; what is in no region runs operation by operation."""
    anchors = Counter()
    for seed in range(request.config.getoption("--seeds")):
        program, problems, reports = random_models.check(seed)
        assert not problems, "\n".join((f"seed {seed}", program.source, *problems))
        anchors.update(r.operation for r in reports if r.taken)
    kinds = {"mm", "addmm", "bmm", "baddbmm", "conv_fprop", "conv_dgrad", "conv_wgrad"}
    assert set(anchors) == kinds and anchors.total() > request.config.getoption("--seeds")


def test_random_models_in_inductors_code():
    for seed in range(4):
        program, problems, _ = random_models.check(seed, inductor=True)
        assert not problems, "\n".join((f"seed {seed}", program.source, *problems))


def test_random_models_of_symbolic_sizes(request):
    taken = 0
    for seed in range(1000, 1000 + request.config.getoption("--seeds") // 2):
        program, problems, reports = random_models.check(seed, dynamic=True)
        assert not problems, "\n".join((f"seed {seed}", program.source, *problems))
        taken += sum(r.taken and -1 in r.extents for r in reports)
    assert taken > request.config.getoption("--seeds") // 4


MUTATIONS = {
    "ne for eq": (torch.ops.aten.eq.Scalar, _translate._binary("CMP_NEQ"), 15),
    "lt for le": (torch.ops.aten.le.Scalar, _translate._binary("CMP_LT"), 61),
    "swapped sub": (
        torch.ops.aten.sub.Tensor,
        lambda writer, node: writer.pointwise("SUB", *reversed(_translate._operands(writer, node, 2))),
        9,
    ),
    "tanh for erf": (torch.ops.aten.erf.default, _translate._unary("TANH_FWD"), 50),
}
"""An operation, another translation of it, and a seed whose program shows that."""


@pytest.mark.parametrize("name", MUTATIONS)
def test_wrong_translations_are_found(monkeypatch, name):
    target, lowering, seed = MUTATIONS[name]
    assert not random_models.check(seed)[1]
    monkeypatch.setitem(_translate.POINTWISE, target, lowering)
    assert random_models.check(seed)[1]
