"""Small language models that can be trained on the spot: a Llama of some hundred thousand weights on verifiable tasks.

:func:`ready` trains one on a task (a minute or two, once), keeps it in the user's cache as an ordinary folder for
``from_pretrained``, and returns model and tokenizer. Every character is a token.
"""

from workingpapers.foundations.lazy import lazy_names

__all__ = [
    "Addition",
    "Example",
    "PointerChasing",
    "Recipe",
    "Sorting",
    "StringEdit",
    "Task",
    "character_tokenizer",
    "planted_preferences",
    "ready",
    "train",
]
__getattr__ = lazy_names(
    __name__,
    {
        "tasks": ["Addition", "Example", "PointerChasing", "Sorting", "StringEdit", "Task", "planted_preferences"],
        "training": ["Recipe", "ready", "train"],
        "vocabulary": ["character_tokenizer"],
    },
)
