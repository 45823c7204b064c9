"""A graph as a whole: as text, checked, explained."""

from __future__ import annotations

import json
from typing import Any, overload

from .._core import Graph, Verdict
from .._errors import MalformedGraph
from .._handle import Handle
from .arguments import _kind
from .execution import _text
from .fp8_attention import _Fp8Attention
from .tensor import Tensor, _inferred


class _Described(_Fp8Attention):
    def to_json(self) -> str:
        """The graph as JSON of frontend 1.32; of one that was deserialized, what it was read from."""
        if self._text is not None:
            return self._text
        used: dict[int, Tensor] = {}
        for node in self._nodes:
            for tensor in (*node.inputs.values(), *node.outputs.values()):
                used[tensor._uid] = tensor
                if tensor._ragged_offset is not None:
                    used[tensor._ragged_offset._uid] = tensor._ragged_offset
        context = {
            **({"name": self._name} if self._name else {}),
            "io_data_type": self._io_data_type,
            "intermediate_data_type": self._intermediate_data_type,
            "compute_data_type": self._compute_data_type,
            "sm_count": self._sm_count,
            "is_dynamic_shape_enabled": self._is_dynamic_shape_enabled,
            "is_override_shape_enabled": self._is_override_shape_enabled,
        }
        return json.dumps(
            {
                "context": context,
                "cudnn_backend_version": "9.23.0",
                "cudnn_frontend_version": 13200,
                "gid": 1,
                "json_version": "2.0",
                "nodes": [node.json() for node in self._nodes],
                "tensors": [used[uid]._json() for uid in sorted(used)],
            }
        )

    def serialize(self) -> str:
        """The graph as JSON, which ``deserialize`` and ``fusewright.loads`` read."""
        return self.to_json()

    @overload
    def deserialize(self, data: str | bytes, /) -> None: ...
    @overload
    def deserialize(self, handle: object, data: str | bytes, /) -> None: ...
    def deserialize(self, *arguments: Any) -> None:
        """Reads what ``serialize`` wrote into a graph without operations; a handle may come first, whose stream it has.

        Tensors are named by uid or name then. Raises ``MalformedGraph`` for what is no graph, and where operations are
        in the graph already.
        """
        if not 1 <= len(arguments) <= 2:
            raise TypeError(f"deserialize: found {len(arguments)} arguments; required: what serialize() wrote")
        *handles, data = arguments
        if not isinstance(data, str | bytes):
            raise TypeError(f"deserialize: data: found {_kind(data)}; required: str or bytes")
        if self._nodes or self._text is not None:
            raise MalformedGraph(f"graph {self._name!r}: deserialize: it has operations; required: a graph without any")
        text = data if isinstance(data, str) else _text(data)
        self._graph = Graph.from_json(text, self._name or "graph")
        self._text = text
        if handles and isinstance(handles[0], Handle):
            self._handle = handles[0]

    def finalize(self) -> Graph:
        """The graph with all types, extents and strides inferred. Raises ``MalformedGraph``."""
        if self._graph is None:
            if not self._nodes:
                raise MalformedGraph(f"graph {self._name!r}: no operation")
            self._graph = Graph.from_json(self.to_json(), self._name or "graph")
            self._inferred = _inferred(self._graph, self._tensors)
        return self._graph

    def key(self) -> int:
        """A number of the graph's structure, types and shapes, not of its names."""
        return int(self.finalize().key, 16)

    def check(self, arch: str | None = None) -> Verdict:
        """Whether the graph runs on a chip, and every rule that stands against it."""
        return self.finalize().check(arch or self._arch)

    def explain(self, arch: str | None = None) -> str:
        """What ``fusewright explain`` prints about the graph."""
        return self.finalize().explain(arch or self._arch)

    def source(self, arch: str | None = None) -> str:
        """The CUDA text of the graph's kernel. Raises ``NotSupported``."""
        return self.finalize().source(arch or self._arch)

    def validate(self) -> None:
        """Raises ``MalformedGraph`` for a graph that is not well formed."""
        self.finalize()

    def build_operation_graph(self) -> None:
        """As ``validate``."""
        self.finalize()
