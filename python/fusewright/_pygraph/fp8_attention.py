"""The same in FP8."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .arguments import Choice, _choice, _float_bits, _row_major
from .attention import _Attention, _Mask
from .enumerations import attention_implementation
from .matrix import _or_none
from .tensor import Operand, Tensor


class _Fp8Attention(_Attention):
    """The same of tensors in FP8, each with a factor that descales it, or by which it is scaled: FLOAT [1, 1, 1, 1]."""

    def _totals(self, made: Sequence[Tensor]) -> None:
        """Largest magnitudes of whole tensors."""
        for total in made:
            total.set_dim([1, 1, 1, 1]).set_stride([1, 1, 1, 1]).set_data_type("FLOAT")

    def sdpa_fp8(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        descale_q: Tensor,
        descale_k: Tensor,
        descale_v: Tensor,
        descale_s: Tensor,
        scale_s: Tensor,
        scale_o: Tensor,
        is_inference: bool | None = None,
        attn_scale: Operand | None = None,
        bias: Tensor | None = None,
        use_alibi_mask: bool = False,
        use_padding_mask: bool = False,
        seq_len_q: Tensor | None = None,
        seq_len_kv: Tensor | None = None,
        use_causal_mask: bool = False,
        use_causal_mask_bottom_right: bool = False,
        sliding_window: int | None = None,
        diagonal_alignment: Choice = "TOP_LEFT",
        left_bound: int | None = None,
        right_bound: int | None = None,
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
        score_max: Tensor | None = None,
        score_sum_exp: Tensor | None = None,
        sink_token: Tensor | None = None,
        unfuse_fma: bool = False,
        implementation: Choice = "AUTO",
        cu_seq_len_q: Tensor | None = None,
        cu_seq_len_kv: Tensor | None = None,
        stats_use_log2: bool = False,
    ) -> list[Tensor | None]:
        """The result, log-sum-exp or ``None``, the largest magnitudes of the weights and of the result.

        The last two stay virtual unless they are set as outputs. Other arguments are those of ``sdpa``.
        """
        op = f"sdpa_fp8 {name!r}" if name else "sdpa_fp8"
        mask = _Mask(
            use_alibi_mask,
            use_padding_mask,
            seq_len_q,
            seq_len_kv,
            use_causal_mask,
            use_causal_mask_bottom_right,
            sliding_window,
            diagonal_alignment,
            left_bound,
            right_bound,
        )
        required = {
            "Q": ("q", q),
            "K": ("k", k),
            "V": ("v", v),
            "Descale_Q": ("descale_q", descale_q),
            "Descale_K": ("descale_k", descale_k),
            "Descale_V": ("descale_v", descale_v),
            "Descale_S": ("descale_s", descale_s),
            "Scale_S": ("scale_s", scale_s),
            "Scale_O": ("scale_o", scale_o),
        }
        for argument, tensor in required.values():
            self._own(tensor, f"{op}: {argument}")
        probability, dropout_ports = self._dropout(op, dropout)
        scale, scale_tensor = self._scale(op, attn_scale)
        has_stats = bool(generate_stats) if generate_stats is not None else is_inference is False
        chosen = _choice(attention_implementation, implementation, f"{op}: implementation")
        inputs: dict[str, tuple[str, object]] = {
            **required,
            "Attn_scale": ("attn_scale", scale_tensor),
            "Bias": ("bias", bias),
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
            "mma_core_mode": "FP8_E4M3",
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
        ports = ["O", *(["Stats"] if has_stats else []), "Amax_S", "Amax_O"]
        made = self._add(
            "sdpa_fp8", "SDPA_FP8_FWD", name, inputs, ports, compute_data_type, attributes=attributes, given=given
        )
        if q.get_dim() and v.get_dim():
            made[0].set_dim([*q.get_dim()[:-1], v.get_dim()[-1]])
            made[0].set_stride(_row_major(made[0]._dim))
        if has_stats:
            made[1].set_data_type("FLOAT")
        self._totals(made[-2:])
        return _or_none(dict(zip(ports, made, strict=True)), ["O", "Stats", "Amax_S", "Amax_O"])

    def sdpa_fp8_backward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        o: Tensor,
        dO: Tensor,
        stats: Tensor,
        descale_q: Tensor,
        descale_k: Tensor,
        descale_v: Tensor,
        descale_o: Tensor,
        descale_dO: Tensor,
        descale_s: Tensor,
        descale_dP: Tensor,
        scale_s: Tensor,
        scale_dQ: Tensor,
        scale_dK: Tensor,
        scale_dV: Tensor,
        scale_dP: Tensor,
        attn_scale: Operand | None = None,
        use_padding_mask: bool = False,
        seq_len_q: Tensor | None = None,
        seq_len_kv: Tensor | None = None,
        use_causal_mask: bool = False,
        use_causal_mask_bottom_right: bool = False,
        diagonal_alignment: Choice = "TOP_LEFT",
        left_bound: int | None = None,
        right_bound: int | None = None,
        use_deterministic_algorithm: bool = False,
        dropout: Sequence[Any] | None = None,
        compute_data_type: Choice = None,
        name: str = "",
        *,
        sink_token: Tensor | None = None,
        dSink_token: Tensor | None = None,
        max_total_seq_len_q: int | None = None,
        max_total_seq_len_kv: int | None = None,
    ) -> list[Tensor]:
        """Gradients of q, k and v, then the largest magnitudes of these and of the gradient of the scores.

        ``dSink_token`` is a tensor to write. Other arguments are those of ``sdpa_backward``.
        """
        op = f"sdpa_fp8_backward {name!r}" if name else "sdpa_fp8_backward"
        mask = _Mask(
            False,
            use_padding_mask,
            seq_len_q,
            seq_len_kv,
            use_causal_mask,
            use_causal_mask_bottom_right,
            None,
            diagonal_alignment,
            left_bound,
            right_bound,
        )
        required: dict[str, tuple[str, object]] = {
            "Q": ("q", q),
            "K": ("k", k),
            "V": ("v", v),
            "O": ("o", o),
            "dO": ("dO", dO),
            "Stats": ("stats", stats),
            "Descale_Q": ("descale_q", descale_q),
            "Descale_K": ("descale_k", descale_k),
            "Descale_V": ("descale_v", descale_v),
            "Descale_O": ("descale_o", descale_o),
            "Descale_dO": ("descale_dO", descale_dO),
            "Descale_S": ("descale_s", descale_s),
            "Descale_dP": ("descale_dP", descale_dP),
            "Scale_S": ("scale_s", scale_s),
            "Scale_dQ": ("scale_dQ", scale_dQ),
            "Scale_dK": ("scale_dK", scale_dK),
            "Scale_dV": ("scale_dV", scale_dV),
            "Scale_dP": ("scale_dP", scale_dP),
        }
        for argument, tensor in required.values():
            self._own(tensor, f"{op}: {argument}")
        probability, dropout_ports = self._dropout(op, dropout)
        scale, scale_tensor = self._scale(op, attn_scale)
        inputs: dict[str, tuple[str, object]] = {
            **required,
            "Attn_scale": ("attn_scale", scale_tensor),
            "SEQ_LEN_Q": ("seq_len_q", seq_len_q),
            "SEQ_LEN_KV": ("seq_len_kv", seq_len_kv),
            "SINK_TOKEN": ("sink_token", sink_token),
            **dropout_ports,
        }
        band = {key: value for key, value in mask.attributes(op).items() if key != "alibi_mask"}
        attributes = {
            **band,
            "dropout_probability": _float_bits(probability),
            "attn_scale_value": _float_bits(scale),
            "is_deterministic_algorithm": bool(use_deterministic_algorithm),
            "is_mxfp8": False,
            "max_total_seq_len_q": max_total_seq_len_q,
            "max_total_seq_len_kv": max_total_seq_len_kv,
        }
        made = self._add(
            "sdpa_fp8_backward",
            "SDPA_FP8_BWD",
            name,
            inputs,
            ["dQ", "dK", "dV", "Amax_dQ", "Amax_dK", "Amax_dV", "Amax_dP"],
            compute_data_type,
            attributes=attributes,
            given={"DSINK_TOKEN": ("dSink_token", dSink_token)},
        )
        for gradient, tensor in zip(made, (q, k, v), strict=False):
            if tensor.get_dim():
                gradient.set_dim(tensor.get_dim()).set_stride(tensor.get_stride())
        self._totals(made[3:])
        return made
