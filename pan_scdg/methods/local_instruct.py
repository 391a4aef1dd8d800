"""An instruction-tuned checkpoint of this machine that answers one chat at a time, by greedy decoding."""

from typing import Any

from pan_scdg.methods.endpoint import NEW_TOKENS, Messages, Reply
from pan_scdg.errors import UserError


class LocalInstruct:
    """A loaded model with the chat template of its tokenizer.

    Args:
        model: a causal language model of transformers, in evaluation mode.
        tokenizer: that of the same checkpoint.
        name: the name of the model.
        positions: longest input and answer in tokens that it reads; None: it names no limit.

    Raises:
        UserError: the tokenizer has no chat template, so that it is not an instruction-tuned checkpoint.
    """

    def __init__(self, model: Any, tokenizer: Any, name: str, positions: int | None) -> None:
        if not getattr(tokenizer, "chat_template", None):
            raise UserError(
                f"{name} has no chat template", "give the folder of an instruction-tuned checkpoint with its template"
            )
        self._model, self._tokenizer, self.name, self._positions = model, tokenizer, name, positions
        self._control = sorted(str(token) for token in tokenizer.added_tokens_decoder.values() if token.special)
        model.generation_config = _build_greedy_config(model.generation_config.eos_token_id, tokenizer.eos_token_id)

    def complete(self, messages: Messages) -> Reply:
        """Return the most probable answer, token by token, of at most ``NEW_TOKENS`` tokens.

        A control token of the chat in a document is split by a space after its first character, so that
        it stays a part of the document.

        Raises:
            UserError: the chat is longer than the model reads, or its template refuses it.
        """
        import torch

        ids = self._encode([{**message, "content": self._disarm(message["content"])} for message in messages])
        inputs = torch.tensor([ids], device=self._model.device)
        with torch.inference_mode():
            output = self._model.generate(input_ids=inputs, attention_mask=torch.ones_like(inputs))
        return Reply(str(self._tokenizer.decode(output[0, len(ids) :], skip_special_tokens=True)), self.name)

    def _encode(self, messages: Messages) -> list[int]:
        from jinja2 import TemplateError

        try:
            ids = self._tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)[
                "input_ids"
            ]
        except TemplateError as e:
            raise UserError(f"the chat template of {self.name} refuses the prompt: {e}", "choose another model") from e
        if self._positions is not None and len(ids) + NEW_TOKENS > self._positions:
            raise UserError(
                f"a prompt of {len(ids)} tokens and an answer of {NEW_TOKENS} are more than {self.name} reads, "
                f"which is {self._positions}",
                "lower characters in the profile",
            )
        return list(ids)

    def _disarm(self, content: str) -> str:
        for token in self._control:
            content = content.replace(token, f"{token[0]} {token[1:]}")
        return content


def _build_greedy_config(model_ends: Any, tokenizer_end: int | None) -> Any:
    """Return greedy decoding without the checkpoint's own sampling and penalties; only its end tokens are kept."""
    import transformers

    ends = tokenizer_end if model_ends is None else model_ends
    config: Any = transformers.GenerationConfig
    return config(
        do_sample=False,
        max_new_tokens=NEW_TOKENS,
        eos_token_id=ends,
        pad_token_id=ends[0] if isinstance(ends, list) else ends,
    )
