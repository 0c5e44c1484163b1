"""A small OpenAI-compatible server over a random causal language model, to run as a program.

::

    python openai_server.py FOLDER     # a folder of `write_causal`; prints its port, then serves

The name of the model asked for chooses how the server behaves: "lm" answers, and the others fail in
the ways of `REFUSALS` and of `Handler.answer`. `GET /seen` tells what was asked so far.
"""

import json
import math
import os
import sys
import threading
from collections import Counter
from contextlib import suppress
from functools import cache
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

WORDS = ["[PAD]", "[UNK]", "[EOS]", "Yes", " Yes", "No", " No", "who", "what", "old", "river"]
WORDS += ["king", "rome", "bridge", "question", "answer"]
ORDINARY = [i for i, word in enumerate(WORDS) if word.islower()]
SPELLED = [f" {word}" if word.islower() else word for word in WORDS]  # as in a text
REFUSALS = {"broken": 500, "teapot": 418, "forbidden": 401}


def write_causal(folder, *, seed=0):
    """Write a Llama of 2 layers and 16 words, which all fit among the 20 likeliest."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    model = models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]")
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]", eos_token="[EOS]"
    ).save_pretrained(folder)
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(WORDS),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=512,
        initializer_range=0.3,
    )
    LlamaForCausalLM(config).save_pretrained(folder)


@cache
def load(folder):
    """Load tokenizer and model once."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    return AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)


def logprobs_of(folder, text):
    """Give token ids, the pieces of text they cover, and each position's log-probabilities."""
    import torch

    tokenizer, model = load(folder)
    encoded = tokenizer(text, return_offsets_mapping=True, return_tensors="pt")
    ends = [0, *(end for _, end in encoded["offset_mapping"][0].tolist())]
    pieces = [text[start:end] for start, end in zip(ends, ends[1:], strict=False)]
    with torch.inference_mode():
        logits = model(encoded["input_ids"]).logits[0]
    return encoded["input_ids"][0].tolist(), pieces, logits.log_softmax(-1).tolist()


def chat_text(content):
    """Write a user's message as this model's chat template would."""
    return f"question {content} answer"


class Server(ThreadingHTTPServer):
    """Keep the folder, and what was asked."""

    daemon_threads = True

    def __init__(self, folder):
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder = folder
        self.guard, self.computing = threading.Lock(), threading.Lock()
        self.seen = Counter()
        self.keys = set()


class Handler(BaseHTTPRequestHandler):
    """Answer /v1/completions and /v1/chat/completions."""

    protocol_version = "HTTP/1.1"

    def handle(self):
        with suppress(ConnectionError):  # else a client that leaves leaves our socket open
            super().handle()

    def do_GET(self):
        seen = self.server
        self.reply({"seen": seen.seen, "keys": sorted(seen.keys)})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with self.server.guard:
            self.server.seen[body["model"]] += 1
            count = self.server.seen[body["model"]]
            self.server.keys.add(self.headers.get("authorization", ""))
        self.answer(body, count)

    def answer(self, body, count):
        name = body["model"]
        asked = body.get("prompt") or body["messages"][0]["content"]
        if name in REFUSALS:
            told = {"error": f"refused {self.headers.get('authorization')}"}
            return self.reply(told, status=REFUSALS[name])
        if name.startswith("echo-"):
            return self.echo_key(name.removeprefix("echo-"), self.headers["authorization"][7:])
        if name == "busy" and count == 1:
            return self.reply({"error": "busy"}, status=429, more={"Retry-After": "0"})
        if name == "later":
            return self.reply({"error": "later"}, status=429, more={"Retry-After": "3600"})
        if name == "picky" and "bridge" in asked:
            return self.reply({"error": "no bridges"}, status=400)
        if name == "mortal" and count > 1:
            self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 999\r\n\r\n{")
            self.wfile.flush()
            os._exit(1)
        if name == "garbled":
            return self.reply(["no object"])
        if name in ("silent", "mortal"):
            return self.reply({"choices": [{"text": "Perhaps", "logprobs": None}]})
        with self.server.computing:
            told = self.chat(body) if "messages" in body else self.completion(body)
        return self.reply(told)

    def echo_key(self, way, key):
        """Repeat the key in one of the ways in which servers, proxies and models do."""
        spelled = {
            "url": quote(key, safe=""),
            "json": json.dumps(key)[1:-1],
            "html": escape(key),
            "cut": key[:20],
            "long": "x" * 165 + key,
        }.get(way, key)
        if way == "answer":
            text = json.dumps(f"It is {key}.").replace(key[0], f"\\u{ord(key[0]):04x}")
            return self.send(200, f'{{"choices": [{{"text": {text}}}]}}')
        if way == "garbage":
            return self.send(200, "no gzip", more={"Content-Encoding": "gzip", "X-Key": key})
        reason = f"refused {key}" if way == "reason" else None
        return self.send(401, f"the key {spelled} is refused", reason, more={"X-Key": key})

    def send(self, status, text, reason=None, *, more=None):
        self.send_response(status, reason)
        headers = {"Content-Type": "application/json", "Content-Length": str(len(text))}
        for name, value in (headers | (more or {})).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text.encode())

    def completion(self, body):
        text, top = body["prompt"], body.get("logprobs") or 0
        tokens = self.continued(text, body["max_tokens"], top, body.get("stop") or [])
        written = "".join(token["token"] for token in tokens)
        count = len(tokens)
        if body.get("echo"):
            tokens, written = self.echoed(text, top) + tokens, text + written
        told = {
            "tokens": [token["token"] for token in tokens],
            "token_logprobs": [token["logprob"] for token in tokens],
            "top_logprobs": [token["top"] for token in tokens],
        }
        ended = "length" if count == body["max_tokens"] else "stop"
        choice = {"text": written, "logprobs": told if top else None, "finish_reason": ended}
        return {"choices": [choice], "usage": {"completion_tokens": count}}

    def chat(self, body):
        top = body.get("top_logprobs") or 0
        text = chat_text(body["messages"][0]["content"])
        tokens = self.continued(text, body["max_tokens"], top, [])
        content = [
            {
                "token": token["token"],
                "logprob": token["logprob"],
                "top_logprobs": [{"token": t, "logprob": p} for t, p in token["top"].items()],
            }
            for token in tokens
        ]
        message = {"role": "assistant", "content": "".join(t["token"] for t in tokens)}
        told = {"content": content} if body.get("logprobs") else None
        return {"choices": [{"message": message, "logprobs": told}]}

    def continued(self, text, count, top, stop):
        tokens = []
        for _ in range(count):
            row = logprobs_of(self.server.folder, text)[2][-1]
            best = max(ORDINARY, key=row.__getitem__)  # words that are read again as themselves
            spelled = SPELLED[best]
            if any(mark in spelled for mark in stop):
                break
            tokens.append({"token": spelled, "logprob": row[best], "top": shown(row, top)})
            text += spelled
        return tokens

    def echoed(self, text, top):
        ids, pieces, rows = logprobs_of(self.server.folder, text)
        first = {"token": pieces[0], "logprob": None, "top": None}
        rest = zip(ids[1:], pieces[1:], rows, strict=False)
        return [first] + [
            {"token": piece, "logprob": row[i], "top": shown(row, top)} for i, piece, row in rest
        ]

    def reply(self, told, *, status=200, more=None):
        self.send(status, json.dumps(told), more=more)

    def log_message(self, *_):
        pass


def shown(row, top):
    """Give the likeliest words with their log-probabilities."""
    best = sorted(range(len(row)), key=lambda i: -row[i])[:top]
    return {SPELLED[i]: row[i] for i in best if math.isfinite(row[i])}


if __name__ == "__main__":
    server = Server(str(Path(sys.argv[1])))
    print(server.server_address[1], flush=True)
    server.serve_forever()
