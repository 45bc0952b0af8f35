"""Preferences of people and models: what they allow, and how to follow them."""
