"""Scaled dot product attention and its gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .._errors import MalformedGraph
from .arguments import Choice, _choice, _float_bits, _number, _row_major
from .enumerations import attention_implementation, diagonal_alignment
from .matrix import _or_none
from .movement import _Movement
from .tensor import Operand, Tensor


class _Mask(NamedTuple):
    """Which scores are kept: by ALiBi's bias, sequence lengths, and a band round the diagonal."""

    use_alibi_mask: bool
    use_padding_mask: bool
    seq_len_q: Tensor | None
    seq_len_kv: Tensor | None
    use_causal_mask: bool
    use_causal_mask_bottom_right: bool
    sliding_window_length: int | None
    alignment: Choice
    left_bound: int | None
    right_bound: int | None

    def attributes(self, op: str) -> dict[str, Any]:
        """Attributes of the node; older spellings of a mask in terms of the band."""
        is_causal = self.use_causal_mask or self.use_causal_mask_bottom_right
        if is_causal and self.right_bound not in (None, 0):
            raise MalformedGraph(f"{op}: found a causal mask and diagonal_band_right_bound {self.right_bound}")
        if self.sliding_window_length is not None and self.left_bound is not None:
            raise MalformedGraph(f"{op}: found sliding_window_length and diagonal_band_left_bound; required: one")
        if self.use_padding_mask and (self.seq_len_q is None or self.seq_len_kv is None):
            raise MalformedGraph(f"{op}: use_padding_mask needs seq_len_q and seq_len_kv")
        left = self.left_bound if self.sliding_window_length is None else self.sliding_window_length
        alignment = _choice(diagonal_alignment, self.alignment, f"{op}: diagonal_alignment")
        return {
            "alibi_mask": bool(self.use_alibi_mask),
            "padding_mask": bool(self.use_padding_mask),
            "left_bound": left,
            "right_bound": 0 if is_causal else self.right_bound,
            "diagonal_alignment": "BOTTOM_RIGHT" if self.use_causal_mask_bottom_right else alignment,
        }


class _Attention(_Movement):
    """Scaled dot product attention: tensors are [B, H, S, D]."""

    def _scale(self, op: str, attn_scale: Operand | None) -> tuple[float | None, Tensor | None]:
        """The scale as a number or as a tensor."""
        if attn_scale is None or isinstance(attn_scale, Tensor):
            return None, attn_scale
        return _number(attn_scale, f"{op}: attn_scale"), None

    def _dropout(self, op: str, dropout: Sequence[Any] | None) -> tuple[float | None, dict[str, tuple[str, object]]]:
        """Probability, seed and offset; or mask and scales."""
        if dropout is None:
            return None, {}
        first, *rest = dropout
        if isinstance(first, Tensor) and 1 <= len(rest) <= 2:
            ports = ("Dropout_mask", "Dropout_scale", "Dropout_scale_inv")
            return None, {port: ("dropout", value) for port, value in zip(ports, dropout, strict=False)}
        if isinstance(first, Tensor) or len(rest) != 2:
            raise TypeError(f"{op}: dropout: required: (probability, seed, offset) or (mask, scale)")
        seed, offset = rest
        return _number(first, f"{op}: dropout"), {"Seed": ("dropout", seed), "Offset": ("dropout", offset)}

    def sdpa(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        is_inference: bool | None = None,
        attn_scale: Operand | None = None,
        bias: Tensor | None = None,
        block_mask: Tensor | None = None,
        use_alibi_mask: bool = False,
        use_padding_mask: bool = False,
        seq_len_q: Tensor | None = None,
        seq_len_kv: Tensor | None = None,
        use_causal_mask: bool = False,
        use_causal_mask_bottom_right: bool = False,
        sliding_window_length: int | None = None,
        diagonal_alignment: Choice = "TOP_LEFT",
        diagonal_band_left_bound: int | None = None,
        diagonal_band_right_bound: int | None = None,
        dropout: Sequence[Any] | None = None,
        rng_dump: Tensor | None = None,
        paged_attention_k_table: Tensor | None = None,
        paged_attention_v_table: Tensor | None = None,
        paged_attention_max_seq_len_kv: int | None = None,
        max_total_seq_len_q: int | None = None,
        max_total_seq_len_kv: int | None = None,
        compute_data_type: Choice = None,
        name: str = "",
        *,
        generate_stats: bool | None = None,
        implementation: Choice = "AUTO",
        score_max: Tensor | None = None,
        score_sum_exp: Tensor | None = None,
        sink_token: Tensor | None = None,
        unfuse_fma: bool = False,
        cu_seq_len_q: Tensor | None = None,
        cu_seq_len_kv: Tensor | None = None,
        stats_use_log2: bool = False,
    ) -> list[Tensor | None]:
        """The result, and with ``generate_stats`` (or ``is_inference=False``) the scores' log-sum-exp [B, H, S, 1].

        The result is row-major unless ``set_stride`` says otherwise. ``attn_scale`` multiplies the scores, ``dropout``
        is (probability, seed, offset) or (mask, scale); ``rng_dump``, ``score_max`` and ``score_sum_exp`` are tensors
        to write.
        """
        op = f"sdpa {name!r}" if name else "sdpa"
        mask = _Mask(
            use_alibi_mask,
            use_padding_mask,
            seq_len_q,
            seq_len_kv,
            use_causal_mask,
            use_causal_mask_bottom_right,
            sliding_window_length,
            diagonal_alignment,
            diagonal_band_left_bound,
            diagonal_band_right_bound,
        )
        for argument, tensor in (("q", q), ("k", k), ("v", v)):
            self._own(tensor, f"{op}: {argument}")
        probability, dropout_ports = self._dropout(op, dropout)
        scale, scale_tensor = self._scale(op, attn_scale)
        has_stats = bool(generate_stats) if generate_stats is not None else is_inference is False
        chosen = _choice(attention_implementation, implementation, f"{op}: implementation")
        inputs = {
            "Q": ("q", q),
            "K": ("k", k),
            "V": ("v", v),
            "Attn_scale": ("attn_scale", scale_tensor),
            "Bias": ("bias", bias),
            "Block_mask": ("block_mask", block_mask),
            "SEQ_LEN_Q": ("seq_len_q", seq_len_q),
            "SEQ_LEN_KV": ("seq_len_kv", seq_len_kv),
            "Page_table_K": ("paged_attention_k_table", paged_attention_k_table),
            "Page_table_V": ("paged_attention_v_table", paged_attention_v_table),
            "SINK_TOKEN": ("sink_token", sink_token),
            "CU_SEQ_LEN_Q": ("cu_seq_len_q", cu_seq_len_q),
            "CU_SEQ_LEN_KV": ("cu_seq_len_kv", cu_seq_len_kv),
            **dropout_ports,
        }
        attributes = {
            **mask.attributes(op),
            "dropout_probability": _float_bits(probability),
            "attn_scale_value": _float_bits(scale),
            "generate_stats": has_stats,
            "max_seq_len_kv": paged_attention_max_seq_len_kv,
            "mma_core_mode": "HALF",
            "implementation": "COMPOSITE" if chosen == "AUTO" else chosen,
            "unfuse_fma": bool(unfuse_fma),
            "is_mxfp8": False,
            "max_total_seq_len_q": max_total_seq_len_q,
            "max_total_seq_len_kv": max_total_seq_len_kv,
            "stats_use_log2": bool(stats_use_log2),
        }
        given = {
            "RNG_DUMP": ("rng_dump", rng_dump),
            "Max": ("score_max", score_max),
            "Sum_exp": ("score_sum_exp", score_sum_exp),
        }
        ports = ["O", "Stats"] if has_stats else ["O"]
        made = self._add("sdpa", "SDPA", name, inputs, ports, compute_data_type, attributes=attributes, given=given)
        if q.get_dim() and v.get_dim():
            made[0].set_dim([*q.get_dim()[:-1], v.get_dim()[-1]])
            made[0].set_stride(_row_major(made[0]._dim))
        if has_stats:
            made[1].set_data_type("FLOAT")
        return _or_none(dict(zip(ports, made, strict=True)), ["O", "Stats"])

    def sdpa_backward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        o: Tensor,
        dO: Tensor,
        stats: Tensor,
        attn_scale: Operand | None = None,
        bias: Tensor | None = None,
        dBias: Tensor | None = None,
        use_alibi_mask: bool = False,
        use_padding_mask: bool = False,
        seq_len_q: Tensor | None = None,
        seq_len_kv: Tensor | None = None,
        max_total_seq_len_q: int | None = None,
        max_total_seq_len_kv: int | None = None,
        use_causal_mask: bool = False,
        use_causal_mask_bottom_right: bool = False,
        sliding_window_length: int | None = None,
        diagonal_alignment: Choice = "TOP_LEFT",
        diagonal_band_left_bound: int | None = None,
        diagonal_band_right_bound: int | None = None,
        dropout: Sequence[Any] | None = None,
        rng_dump: Tensor | None = None,
        use_deterministic_algorithm: bool = False,
        compute_data_type: Choice = None,
        name: str = "",
        *,
        sink_token: Tensor | None = None,
        dSink_token: Tensor | None = None,
    ) -> list[Tensor]:
        """Gradients of q, k and v, with extents and strides of those unless they are set otherwise.

        ``dBias``, ``rng_dump`` and ``dSink_token`` are tensors to write.
        """
        op = f"sdpa_backward {name!r}" if name else "sdpa_backward"
        mask = _Mask(
            use_alibi_mask,
            use_padding_mask,
            seq_len_q,
            seq_len_kv,
            use_causal_mask,
            use_causal_mask_bottom_right,
            sliding_window_length,
            diagonal_alignment,
            diagonal_band_left_bound,
            diagonal_band_right_bound,
        )
        probability, dropout_ports = self._dropout(op, dropout)
        scale, scale_tensor = self._scale(op, attn_scale)
        arguments = {"q": q, "k": k, "v": v, "o": o, "dO": dO, "stats": stats}
        ports = ("Q", "K", "V", "O", "dO", "Stats")
        required = {
            port: (argument, self._own(tensor, f"{op}: {argument}"))
            for port, (argument, tensor) in zip(ports, arguments.items(), strict=True)
        }
        inputs: dict[str, tuple[str, object]] = {
            **required,
            "Attn_scale": ("attn_scale", scale_tensor),
            "Bias": ("bias", bias),
            "SEQ_LEN_Q": ("seq_len_q", seq_len_q),
            "SEQ_LEN_KV": ("seq_len_kv", seq_len_kv),
            "SINK_TOKEN": ("sink_token", sink_token),
            **dropout_ports,
        }
        attributes = {
            **mask.attributes(op),
            "dropout_probability": _float_bits(probability),
            "attn_scale_value": _float_bits(scale),
            "max_total_seq_len_q": max_total_seq_len_q,
            "max_total_seq_len_kv": max_total_seq_len_kv,
            "is_deterministic_algorithm": bool(use_deterministic_algorithm),
        }
        given = {
            "dBias": ("dBias", dBias),
            "RNG_DUMP": ("rng_dump", rng_dump),
            "DSINK_TOKEN": ("dSink_token", dSink_token),
        }
        made = self._add(
            "sdpa_backward",
            "SDPA_BWD",
            name,
            inputs,
            ["dQ", "dK", "dV"],
            compute_data_type,
            attributes=attributes,
            given=given,
        )
        for gradient, tensor in zip(made, (q, k, v), strict=True):
            if tensor.get_dim():
                gradient.set_dim(tensor.get_dim()).set_stride(tensor.get_stride())
        return made
