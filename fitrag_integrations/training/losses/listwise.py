"""Listwise loss, which ranks the passages that answer a question first."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

FAR = -1e4  # a logit that adds nothing to a sum of exponentials


def list_loss(logits: Tensor, gold: Tensor, sizes: Sequence[int]) -> Tensor:
    """Compute the listwise loss of passages that answer the same question.

    The softmax over a list is read as the probability of being ranked first; the loss is minus the
    log of the positives' share of it, averaged over lists and labels.

    Source: the top-one probability of ListNet (Cao et al., 2007, section 4), with all positives
    equally right. FIT-RAG (section 4.2) fits each pair alone; this term orders a list.

    Inputs:
        ===================== ============================ ================
        question's passages   labels of each               counts
        ===================== ============================ ================
        some right, some not  0 or 1                       yes
        all or none right     0 or 1                       no: no order
        any unknown           NaN                          no
        ===================== ============================ ================

    When to use it: with lists as a retriever returns them, beside cross-entropy, which keeps the
    logits calibrated; this loss is blind to a number added to a whole list. Pairs drawn one by one
    have no list.

    Args:
        logits: Logits, grouped by question. Shape: (pairs,) or (pairs, labels).
        gold: Labels, 0, 1 or NaN. Same shape.
        sizes: Number of pairs of each list.

    Returns:
        The mean loss, shape (); 0 if no list counts. No step waits for the device.

    Example:
        >>> list_loss(torch.tensor([2.0, 0.0, 0.0]), torch.tensor([1.0, 0.0, 0.0]), [3])
        tensor(0.2395)
    """
    logits, gold = (given.reshape(len(given), -1) for given in (logits, gold.to(logits.device)))
    rows = torch.arange(len(logits)).split(list(sizes))
    padded = pad_sequence(list(rows), batch_first=True, padding_value=-1)
    lists = padded.to(logits.device)  # (lists, longest)
    inside = (lists >= 0).unsqueeze(-1)
    scores = logits[lists.clamp(min=0)].masked_fill(~inside, -torch.inf)  # (lists, longest, labels)
    right = gold[lists.clamp(min=0)].masked_fill(~inside, 0.0)
    positives = right.sum(1)
    ranked = (positives > 0) & (positives < inside.sum(1))  # of a NaN both are false
    chosen = scores.masked_fill(right != 1, FAR).logsumexp(1)  # finite: so is its gradient
    missed = scores.logsumexp(1) - chosen
    return missed.masked_fill(~ranked, 0.0).sum() / ranked.sum().clamp(min=1)
