"""Mathematics and plumbing that two or more papers share; imports nothing above it."""
