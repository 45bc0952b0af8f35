"""A tokenizer of single characters, an ordinary one of transformers: saved, loaded and trained with like any other."""

from __future__ import annotations

import string
from typing import Any

PAD, BOS, EOS, UNK = "<pad>", "<bos>", "<eos>", "<unk>"
CHARACTERS = string.digits + string.ascii_letters + string.punctuation + " \n"


def character_tokenizer() -> Any:
    """Return a `PreTrainedTokenizerFast` whose tokens are the printable ASCII characters and the newline.

    A text begins with ``<bos>``; ``<eos>`` is what a model ends with.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    fast: Any = PreTrainedTokenizerFast

    vocabulary = {token: number for number, token in enumerate([PAD, BOS, EOS, UNK, *CHARACTERS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNK))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A $B", special_tokens=[(BOS, vocabulary[BOS])]
    )
    return fast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        bos_token=BOS,
        eos_token=EOS,
        unk_token=UNK,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )
