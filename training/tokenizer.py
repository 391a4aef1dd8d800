"""A byte-level BPE tokenizer whose tokens never cross a newline.

Pair detection needs the ids of ``source + "\\n\\n" + target`` to end with the ids of ``target`` alone (paper, PAN25
input construction). With every newline a token of its own no merge can span the joint, so this holds for any text,
targets that begin with white space included.
"""

from collections.abc import Iterable
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

BOS, EOS = "<|bos|>", "<|eos|>"


def train_tokenizer(texts: Iterable[str], vocabulary: int) -> PreTrainedTokenizerFast:
    """Learn ``vocabulary`` byte-level BPE tokens; ids 0 and 1 are BOS and EOS, BOS is added in front of every text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split("\n", behavior="isolated"),
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[BOS, EOS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A $B", special_tokens=[(BOS, 0)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=BOS,
        eos_token=EOS,
        model_max_length=32768,
        clean_up_tokenization_spaces=False,
    )


def save_tokenizer(texts: Iterable[str], vocabulary: int, folder: Path) -> None:
    """Train on ``texts`` and write the tokenizer files into ``folder``."""
    train_tokenizer(texts, vocabulary).save_pretrained(folder)
