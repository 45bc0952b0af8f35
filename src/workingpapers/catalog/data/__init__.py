"""Data files of the catalog."""
