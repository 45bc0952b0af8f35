"""Causal inference and data."""
