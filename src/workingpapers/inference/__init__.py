"""Serving models and what they index: decoding, kernels, compact codes."""
