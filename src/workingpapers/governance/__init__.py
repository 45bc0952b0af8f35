"""Tools for those who are accountable for AI."""
