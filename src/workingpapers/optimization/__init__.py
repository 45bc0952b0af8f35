"""Optimization: methods that come with a guarantee, on problems where the guarantee is what one pays for."""
