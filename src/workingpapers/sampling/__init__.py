"""Sampling: methods that turn densities, data or losses into samples and bounds."""
