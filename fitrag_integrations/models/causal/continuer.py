"""Continue answers that were begun, with the probability of each new token.

Used by FLARE and REFEED's ensemble, over a local generator or a server.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from fitrag_integrations.core.checks import check_many
from fitrag_integrations.core.http import finish
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import PortError, raise_if, refuse_if
from fitrag_integrations.models.causal import decoding as causal_decoding
from fitrag_integrations.models.causal.generator import LocalGenerator, prompt_and_draft
from fitrag_integrations.models.remote.generator import RemoteGenerator
from fitrag_integrations.models.remote.replies import BLANKS, read_text, read_tokens
from fitrag_integrations.models.runtime.worker import Steps
from fitrag_integrations.models.words import checked_texts, joined
from fitrag_integrations.values.decision import Continuation
from fitrag_integrations.values.prompt import LimitedPrompt


class Continuer:
    """Generator that returns the tokens it writes with their probabilities (FLARE, section 3.2).

    A local generator measures them in a second pass over what was written.

    Args:
        generator: `LocalGenerator`, or `RemoteGenerator` over "completions" whose service returns
            log-probabilities. Its `max_new_tokens` bound every continuation.

    Raises:
        InputError: For any other generator.
    """

    def __init__(self, generator: LocalGenerator | RemoteGenerator) -> None:
        refuse_if(
            not isinstance(generator, LocalGenerator | RemoteGenerator),
            "generator",
            generator,
            "a LocalGenerator or a RemoteGenerator, which tell token probabilities",
        )
        if isinstance(generator, RemoteGenerator):
            refuse_if(
                generator._api != "completions",
                "generator.api",
                generator._api,
                "'completions', where an answer that was begun can be gone on with",
            )
        self.generator = generator

    @property
    def name(self) -> str:
        """The generator's name."""
        return self.generator.name

    def continue_with_logprobs(
        self, prompts: Sequence[str], beginnings: Sequence[str]
    ) -> Sequence[Continuation | Exception]:
        """Continue the beginning of an answer to each prompt, greedily.

        Args:
            prompts: Prompts.
            beginnings: One beginning per prompt; may be blank.

        Returns:
            The new text of each item, without blanks around it, with its tokens. From a server an
            item that fails has its error in its place.
        """
        texts = self._begun(prompts, beginnings)
        if isinstance(self.generator, RemoteGenerator):
            return finish(lambda: self._asked(texts))
        pairs = list(zip(texts, self.generator.generate(texts), strict=True))
        return self.generator._call(self._measured, pairs)

    async def acontinue_with_logprobs(
        self, prompts: Sequence[str], beginnings: Sequence[str]
    ) -> Sequence[Continuation | Exception]:
        """Async version of `continue_with_logprobs`.

        Args:
            prompts: Prompts.
            beginnings: One beginning per prompt; may be blank.
        """
        texts = self._begun(prompts, beginnings)
        if isinstance(self.generator, RemoteGenerator):
            return await self._asked(texts)
        written = await self.generator.agenerate(texts)
        return await self.generator._acall(self._measured, list(zip(texts, written, strict=True)))

    def _begun(self, prompts: Sequence[str], beginnings: Sequence[str]) -> list[str]:
        """Write each prompt, in the model's chat template where it has one, and the beginning."""
        asked, begun = checked_texts("prompts", prompts), check_many("beginnings", beginnings, str)
        refuse_if(
            len(asked) != len(begun),
            "beginnings",
            len(begun),
            f"one per prompt, {len(asked)}, blank where there is none",
        )
        if isinstance(self.generator, LocalGenerator):
            asked = [self.generator._engine.render(prompt) for prompt in asked]
        wanted = [LimitedPrompt(prompt) for prompt in prompts]
        return [
            LimitedPrompt(joined(one, text, spaced=True) if text else one, **vars(mark))
            for one, text, mark in zip(asked, begun, wanted, strict=True)
        ]

    def _measured(self, pairs: Sequence[tuple[str, str]]) -> Steps[list[Continuation]]:
        """Cut what was written into tokens, and measure them. On the worker only."""
        assert isinstance(self.generator, LocalGenerator)
        engine = self.generator._engine
        rows = prompt_and_draft(engine, [pair for pair in pairs if pair[1]])
        facts = iter((yield from causal_decoding.rescore(engine, rows)))
        ids = iter(row for _, row in rows)
        found = []
        for _, text in pairs:
            if not text:
                found.append(Continuation(""))
                continue
            own, decode = next(ids), engine.tokenizer.decode
            decoded = decode(own)  # split into what each token adds; one may end no character
            lengths = (len(decode(own[:n]).rstrip("\ufffd")) for n in range(1, len(own)))
            cuts = pairwise([*accumulate(lengths, max, initial=0), len(decoded)])
            logprobs = [fact[0] for fact in next(facts)]
            found.append(_trimmed(text, [decoded[a:b] for a, b in cuts], logprobs))
        return found

    async def _asked(self, texts: Sequence[str]) -> list[Continuation | Exception]:
        generator = self.generator
        assert isinstance(generator, RemoteGenerator)
        tokens = generator.max_new_tokens
        bodies = [
            generator._body(text, tokens=tokens, logprobs=True, stop=generator._stop)
            for text in texts
        ]
        return await generator._ask(bodies, _read)


def _read(reply: Row) -> Continuation:
    text, facts = read_text(reply), read_tokens(reply)
    raise_if(
        text.strip() and not facts,
        PortError,
        "the service gave no log-probabilities, which a continuation needs",
    )
    spelled = [one.text.replace(BLANKS[3], " ").replace(BLANKS[4], " ") for one in facts]
    return _trimmed(text.strip(), spelled, [one.logprob for one in facts])


def _trimmed(text: str, pieces: Sequence[str], logprobs: Sequence[float]) -> Continuation:
    """Cut the blanks around the text from its pieces; a piece of them alone goes.

    A piece without a character, as the first bytes of one are, joins the next. Pieces that do not
    spell the text out, as those of some services do not, raise `PortError`.
    """
    whole = "".join(pieces)
    start = whole.rfind(text)
    raise_if(
        start < 0,
        PortError,
        f"the model's tokens do not spell out what it wrote: {whole[:80]!r}",
    )
    kept, at, held = [], 0, 0.0
    for piece, logprob in zip(pieces, logprobs, strict=True):
        low, high = max(start, at), min(start + len(text), at + len(piece))
        if low < high:
            kept.append((whole[low:high], min(0.0, held + logprob)))
            held = 0.0
        elif not piece and at >= start:
            held += logprob
        at += len(piece)
    return Continuation(text, tuple(one for one, _ in kept), tuple(one for _, one in kept))
