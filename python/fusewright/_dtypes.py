"""Names of types of elements."""

DTYPES = {
    "bfloat16": "BFLOAT16",
    "bool": "BOOLEAN",
    "double": "DOUBLE",
    "float": "FLOAT",
    "float16": "HALF",
    "float32": "FLOAT",
    "float4_e2m1fn": "FP4_E2M1",
    "float64": "DOUBLE",
    "float8_e4m3fn": "FP8_E4M3",
    "float8_e5m2": "FP8_E5M2",
    "float8_e8m0fnu": "FP8_E8M0",
    "half": "HALF",
    "int32": "INT32",
    "int4": "INT4",
    "int64": "INT64",
    "int8": "INT8",
    "uint8": "UINT8",
}
"""cuDNN's names, by the spelling of dtypes in PyTorch, numpy and ml_dtypes."""
