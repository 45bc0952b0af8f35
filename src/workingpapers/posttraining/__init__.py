"""Post-training: methods that a person uses on a language model, inside the trainers that people already use."""
