"""Comparing and measuring people and models."""
