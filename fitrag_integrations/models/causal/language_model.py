"""The engine under everything that runs a causal language model.

One copy of the base weights, its tokenizer, and one worker that alone touches either. A generator,
an IK classifier and a necessity judge of the same base share an engine; what each was fitted with,
a LoRA adapter or a head, is small and its own. Adapters are switched on the worker, so no pass ever
sees another's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor, nn
from transformers import DynamicCache, GenerationConfig

from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import ModelLoadError, refuse_if
from fitrag_integrations.models.causal import adapters as causal_adapters
from fitrag_integrations.models.causal.templates import render_template
from fitrag_integrations.models.runtime.engine import Options, SharedEngine
from fitrag_integrations.models.runtime.loading import position_limit
from fitrag_integrations.models.runtime.placing import GPUS, padded
from fitrag_integrations.models.runtime.worker import Steps
from fitrag_integrations.models.words import common_prefix

Ids: TypeAlias = Sequence[int]
WORTH_KEEPING = 32  # tokens that many prompts begin with
BEGUN = 4  # of their beginnings that are kept
WORTH_SHARING = 512  # tokens not computed again, that pay for a pass of their own


class CausalEngine(SharedEngine):
    """Run passes over token ids, on the engine's own worker."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        options: Options,
        *,
        name: str = "",
        manifest: Row | None = None,
    ) -> None:
        refuse_if(
            options.compile,
            "compile",
            True,
            'False for a language model: generation_kwargs={"cache_implementation": "static"} '
            "compiles decoding",
        )
        super().__init__(model, options, name=type(model).__name__)
        self.model = model.requires_grad_(False)
        self.tokenizer = tokenizer
        self.name = name
        self.options = options
        self.manifest = dict(manifest or {})
        given = getattr(model.generation_config, "eos_token_id", None)
        ends = [tokenizer.eos_token_id, *(given if isinstance(given, list | tuple) else [given])]
        self.eos_ids = tuple(dict.fromkeys(i for i in ends if i is not None))
        # without a pad token the end of text pads: the mask hides it either way
        self.pad_id = _first(tokenizer.pad_token_id, *self.eos_ids, 0)
        self.limit = position_limit(model.config)
        self._template_kwargs = {"enable_thinking": False, **options.chat_template_kwargs}
        if self.is_chat:
            self._turn("")  # reports an unusable template when the model is loaded
        self._takes = set(inspect.signature(model.forward).parameters)
        self._caches = "past_key_values" in self._takes and not getattr(
            model, "_is_stateful", False
        )
        self._attached = 0
        self._begun: dict[
            tuple[object, ...], Any
        ] = {}  # keys and values of what prompts begin with
        # what a gate reads must be repeatable: the sampling settings a model ships with are dropped
        model.generation_config = GenerationConfig(
            do_sample=False,
            pad_token_id=self.pad_id,
            eos_token_id=list(self.eos_ids) or None,
            **options.generation_kwargs,
        )
        # the last positions of a batch are a slice of it, for which torch's product in bfloat16 on
        # a CPU takes hundreds of times as long
        layer = model.get_output_embeddings()
        if layer is not None and _contiguous not in layer._forward_pre_hooks.values():
            layer.register_forward_pre_hook(_contiguous)

    def attach(self, config: Any, tensors: Mapping[str, Tensor]) -> str:
        """Attach a LoRA adapter and return the name that switches it on."""
        self._attached += 1
        name = f"adapter_{self._attached}"
        self._change(lambda: causal_adapters.attach(self.model, config, tensors, name))
        return name

    def detach(self, name: str) -> None:
        """Drop an adapter; the base weights and the other adapters stay."""
        if not self.worker.closed:
            self._change(lambda: causal_adapters.detach(self.model, name))

    def _change(self, change: Callable[[], None]) -> None:
        """Change the model between two passes, on the worker."""
        self._begun = {}
        self.worker.call(lambda changes: [each() for each in changes], [change])

    def use(self, adapter: str | None) -> None:
        """Run the next passes with an adapter, or with the base alone. On the worker only."""
        causal_adapters.switch(self.model, adapter)

    @property
    def is_chat(self) -> bool:
        """Whether the tokenizer has a chat template."""
        return bool(getattr(self.tokenizer, "chat_template", None))

    def render(self, text: str) -> str:
        """Render a text as a user's turn in the chat template, if there is one.

        A text that was rendered before is returned unchanged. Unless `chat_template_kwargs` enables
        thinking, the turn ends where the answer begins: a thought that the template opens is
        closed, and a model that names channels is put into the final one.
        """
        if not self.is_chat:
            return text
        before, _, _ = self._turn("\x00").partition("\x00")
        return text if before and text.startswith(before) else self._turn(text)

    def _turn(self, text: str) -> str:
        known = {name: str(token) for name, token in self.tokenizer.special_tokens_map.items()}
        try:
            template = self.tokenizer.get_chat_template()
            rendered = render_template(template, text, {**known, **self._template_kwargs})
        except Exception as error:  # a template is a program of others
            raise ModelLoadError(
                f"{self.name or 'the model'}: its chat template fails ({error}); pass another, "
                "tokenizer_kwargs={'chat_template': ...}, or other chat_template_kwargs"
            ) from error
        if not self._template_kwargs["enable_thinking"]:
            if rendered.rstrip().endswith("<think>"):
                return rendered.rstrip() + "\n\n</think>\n\n"
            if rendered.endswith("<|start|>assistant"):
                return rendered + "<|channel|>final<|message|>"
        return rendered

    def encode(self, texts: Sequence[str], *, raw: bool = False) -> list[list[int]]:
        """Encode prompts. On the worker only.

        An end-of-text token that the tokenizer appends is removed; tokens of a chat template never
        are, though some of them are end-of-text ids too (Phi-3's `<|end|><|assistant|>`).

        Args:
            texts: Texts to continue.
            raw: Whether they were not rendered in the chat template, which has its own special
                tokens.

        Raises:
            InputError: For a text that fills the model's input; nothing is truncated silently.
        """
        if not texts:
            return []
        special = raw or not self.is_chat
        encoded = self.tokenizer(list(texts), add_special_tokens=special, verbose=False)
        rows: list[list[int]] = [list(ids) for ids in encoded["input_ids"]]
        end = self.tokenizer.eos_token
        for at, text in enumerate(texts):
            appended = special and not (end and text.endswith(end))
            if appended and rows[at] and rows[at][-1] == self.tokenizer.eos_token_id:
                rows[at] = rows[at][:-1]
            refuse_if(
                self.limit is not None and len(rows[at]) >= self.limit,
                "tokens of a prompt",
                len(rows[at]),
                f"fewer than {self.limit}, the input of {self.name or 'the model'}",
            )
        start = _first(self.tokenizer.bos_token_id, *self.eos_ids, self.pad_id)
        return [row or [start] for row in rows]

    @torch.inference_mode()
    def inferred(self, rows: Sequence[Ids], *, keep: int = 1, hidden: bool = False) -> Any:
        """Run `passed` without gradients, on the worker only.

        Ids with which all rows begin, such as a template's, are computed once where that saves
        enough and their keys and values fit.
        """
        listed, past = list(map(tuple, rows)), None
        shared = common_prefix(min(listed), max(listed))
        if not hidden and self._caches and shared * (len(rows) - 1) >= WORTH_SHARING:
            past = self.begun(rows[0][:shared], rows, keep=keep)
        return self.passed(rows, keep=keep, hidden=hidden, past=past)

    @torch.inference_mode()
    def begun(self, begins: Ids, rows: Sequence[Ids], *, keep: int = 1) -> Any:
        """Return keys and values of the ids that rows begin with, None where they are few.

        They are computed once for the same ids, and stand where padding on the left puts each row,
        at least `keep` before its end. On the worker only.
        """
        widest = max(map(len, rows))
        count = min(min(map(len, rows)) - keep, *(common_prefix(begins, row) for row in rows))
        room = self.cache_tokens()
        if count < WORTH_KEEPING or (room is not None and len(rows) * widest > room):
            return None
        key = (getattr(self.model, "switched", None), *begins[:count])
        if (kept := self._begun.pop(key, None)) is None:
            # a cache without the model's configuration keeps all, whatever its layers' windows
            kept = self.passed([begins[:count]], past=DynamicCache()).past_key_values
        self._begun = {**dict(list(self._begun.items())[1 - BEGUN :]), key: kept}
        shifts = torch.tensor([[widest - len(row)] for row in rows])
        places, cache = (torch.arange(count) - shifts).clamp(min=0), DynamicCache()
        for at, layer in enumerate(kept.layers):
            both = (each[0][:, places].transpose(0, 1) for each in (layer.keys, layer.values))
            cache.update(*both, at)
        return cache

    def passed(
        self,
        rows: Sequence[Ids],
        *,
        keep: int = 1,
        hidden: bool = False,
        past: Any = None,
    ) -> Any:
        """Run one padded batch through the model.

        `logits` of the last `keep` positions, shape (batch, keep, vocabulary), float32; with
        `hidden` also `hidden_states`, one (batch, tokens, width) per layer. Padding is on the left.
        `past` are keys and values of the first columns, which are then not computed.
        """
        ids, mask, positions = left_padded(rows, pad_id=self.pad_id, device=self.device)
        start = 0 if past is None else past.get_seq_length()
        extra = {"position_ids": positions[:, start:], "logits_to_keep": keep}
        taken = {name: value for name, value in extra.items() if name in self._takes}
        if past is not None:
            taken["past_key_values"] = past
        out = self.model(
            input_ids=ids[:, start:],
            attention_mask=mask,
            use_cache=past is not None,
            output_hidden_states=hidden,
            **taken,
        )
        out.logits = out.logits[:, -keep:].float()
        # the largest shows them all: what precedes a row shows nothing
        self.check_finite((finite(out.logits) | (mask[:, -keep:] == 0)).all())
        return out

    def next_logits(
        self, asked: Sequence[tuple[Ids, Ids]], *, adapter: str | None = None
    ) -> Steps[list[list[float]]]:
        """Return the logits of some ids as the next token of a row. On the worker only.

        Items are (ids of the row, ids asked about).
        """

        def one_batch(batch: list[tuple[Ids, Ids]]) -> list[list[float]]:
            wanted = torch.tensor([list(ids) for _, ids in batch], device=self.device)
            self.use(adapter)
            return cast(list[list[float]], self._wanted([row for row, _ in batch], wanted).tolist())

        return self.batched(asked, one_batch, length=lambda x: len(x[0]))

    def _wanted(self, rows: Sequence[Ids], wanted: Tensor) -> Tensor:
        """Return the logits of some ids after each row. Shapes: (rows, ids) both; float32.

        Half precision has steps of .06 where logits stand at 10, and a gap of two decides. So
        these few are computed again from the last states in float32, unless the architecture does
        more to them than its output layer.
        """
        head, states = self.model.get_output_embeddings(), list[Tensor]()
        hook = head.register_forward_pre_hook(lambda _, given: states.append(given[0][:, -1]))
        try:
            rounded: Tensor = self.inferred(rows).logits[:, -1].gather(-1, wanted)
        finally:
            hook.remove()
        if self.dtype == torch.float32 or type(head) is not nn.Linear:
            return rounded
        exact = torch.einsum("bw,biw->bi", states[-1].float(), head.weight[wanted].float())
        if head.bias is not None:
            exact = exact + head.bias[wanted].float()
        near = torch.isclose(exact, rounded, rtol=0.02, atol=0.1).all()  # stays on the device
        return torch.where(near, exact, rounded)

    def cache_tokens(self) -> int | None:
        """Return how many tokens' keys and values fit in half of the GPU's free memory.

        Memory that torch's allocator has reserved and does not use counts as free. None on other
        devices.
        """
        if self.device.type not in GPUS:
            return None
        free, _ = torch.cuda.mem_get_info(self.device)
        free += torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        config = self.model.config.get_text_config()
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        a_token: int = 2 * config.num_hidden_layers * heads * size * self.dtype.itemsize
        return max(1, int(free // 2 // a_token))


def left_padded(
    rows: Sequence[Sequence[int]], *, pad_id: int, device: torch.device | str
) -> tuple[Tensor, Tensor, Tensor]:
    """Pad rows on the left. Gives ids, mask, positions that start at each row's first token."""
    ids, mask = padded(rows, pad_id, device, side="left")
    return ids, mask, (mask.cumsum(-1) - 1).clamp(min=0)


def finite(logits: Tensor) -> Tensor:
    """Return whether each position has numbers for logits, of which some may be excluded (-inf)."""
    return logits.amax(-1).isfinite()


def _first(*ids: int | None) -> int:
    return next(i for i in ids if i is not None)


def _contiguous(_: object, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(states.contiguous() for states in given)
