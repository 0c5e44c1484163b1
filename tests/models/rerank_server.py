"""Rerank servers that speak each dialect, with the limits and the errors they really have.

A document's score is the number it holds, "score -1.25 ..." being a logit of -1.25; whoever answers
with probabilities gives its logistic function. Results come back best first, as they do.
"""

import json
import math
import re
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = "sk-rerank-0123456789"
PAYLOAD = 2_000_000
LONGEST = 4_000  # characters that fit into the model of llama.cpp
FIELDS = {
    "/rerank": {"query", "texts", "raw_scores", "truncate", "truncation_direction", "return_text"},
    "/v2/rerank": {"model", "query", "documents", "top_n", "max_tokens_per_doc", "relevant_spans"},
    "/infinity/rerank": {
        *("query", "documents", "return_documents", "raw_scores", "model", "top_n")
    },
    "/voyage/v1/rerank": {
        *("query", "documents", "model", "top_k", "return_documents", "truncation")
    },
    "/jina/v1/rerank": {"query", "documents", "model", "top_n", "return_documents"},
    "/v1/score": {"model", "text_1", "text_2", "truncate_prompt_tokens"},
    "/llama/v1/rerank": {"query", "documents", "model", "top_n"},
}


# The name of a score, the field that holds the list, and whether scores are logits (or as asked).
REPLIES = {
    "/rerank": ("score", None, None),
    "/v2/rerank": ("relevance_score", "results", False),
    "/infinity/rerank": ("relevance_score", "results", None),
    "/voyage/v1/rerank": ("relevance_score", "data", False),
    "/jina/v1/rerank": ("relevance_score", "results", False),
    "/v1/score": ("score", "data", False),
    "/llama/v1/rerank": ("relevance_score", "results", True),
}


def logit_of(text):
    return float(re.search(r"score (-?[\d.]+)", text)[1])


def share(logit):
    return 1.0 / (1.0 + math.exp(-logit))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle(self):
        with suppress(ConnectionError):  # else a client that leaves leaves our socket open
            super().handle()

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server = self.server
        with server.lock:
            server.open += 1
            server.busiest = max(server.busiest, server.open)
        try:
            self.reply(*self.answer(body))
        finally:
            with server.lock:
                server.open -= 1

    def answer(self, raw):
        server = self.server
        body = json.loads(raw)
        with server.lock:
            server.seen.append((self.path, body))
            storm, server.storm = server.storm, max(0, server.storm - 1)
        if server.key and self.headers.get("Authorization") != f"Bearer {server.key}":
            return 401, {"error": "no such key: " + self.headers.get("Authorization", "")}
        if server.fails is not None:
            return server.fails
        if storm:
            return 429, {"error": "Model is overloaded", "error_type": "Overloaded"}
        if foreign := set(body) - FIELDS[self.path]:
            return 422, {"message": f"unknown field: {sorted(foreign)}"}
        if body.get("model") == "not-a-reranker":
            return 424, {"error": "model is not a re-ranker model", "error_type": "Backend"}
        documents = body.get("texts") or body.get("documents") or body.get("text_2")
        if any("poison" in text for text in documents):
            return 422, {"error": "Input validation error", "error_type": "Validation"}
        if any("heavy" in text for text in documents):
            return 413, {"error": "payload too large"}
        if refusal := too_much(self.path, documents, raw):
            return refusal
        return 200, self.found(body, documents)

    def found(self, body, texts):
        name, list_in, raw = REPLIES[self.path]
        raw = body.get("raw_scores") if raw is None else raw
        value = logit_of if raw else lambda text: share(logit_of(text))
        rows = [{"index": i, name: value(text)} for i, text in enumerate(texts)]
        rows.sort(key=lambda row: -row[name])
        if body.get("relevant_spans", {}).get("mode") == "enabled":
            for row in rows:
                at = texts[row["index"]].find("answer")
                row["relevant_spans"] = [{"start": at, "end": at + 6, "score": 0.9}] * (at >= 0)
        return {"id": "1", list_in: rows, "usage": {}} if list_in else rows

    def reply(self, status, value):
        server = self.server
        data = json.dumps(value).encode()
        if status == 200:
            data = server.spoil(data)
        self.send_response(status)
        if status == 429:
            self.send_header("Retry-After", "0")
        for name, given in server.headers.items() if status == 200 else ():
            self.send_header(name, given)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if status == 200 and server.drip:
            for byte in data:
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
                time.sleep(server.drip)
        else:
            self.wfile.write(data)


def too_much(path, texts, raw):
    """Refuse what the servers themselves refuse to read at once."""
    if path == "/rerank" and len(raw) > PAYLOAD:
        return 413, {"error": "payload too large"}
    if path == "/rerank" and len(texts) > 32:
        return 422, {"error": f"batch size {len(texts)} > 32", "error_type": "Validation"}
    if path == "/voyage/v1/rerank" and len(texts) > 1000:
        return 400, {"detail": "at most 1,000 documents"}
    if path == "/llama/v1/rerank" and any(len(text) > LONGEST for text in texts):
        return 500, {"error": {"code": 500, "message": "input is too large to process"}}
    return None


class Server(ThreadingHTTPServer):
    """Serve every dialect; what is set on it spoils its answers."""

    daemon_threads = True

    def __init__(self, key=""):
        super().__init__(("127.0.0.1", 0), Handler)
        self.key, self.storm, self.drip, self.open, self.busiest = key, 0, 0.0, 0, 0
        self.spoil, self.fails, self.headers = bytes, None, {}
        self.seen, self.lock = [], threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, *_):
        pass  # a client that hangs up
