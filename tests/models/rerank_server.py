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
        found = getattr(self, "_" + re.sub(r"\W", "_", self.path.strip("/")))(body, documents, raw)
        return found if isinstance(found, tuple) else (200, found)

    def _rerank(self, body, texts, raw):
        if len(raw) > PAYLOAD:
            return 413, {"error": "payload too large"}
        if len(texts) > 32:
            return 422, {"error": f"batch size {len(texts)} > 32", "error_type": "Validation"}
        value = logit_of if body.get("raw_scores") else lambda text: share(logit_of(text))
        return ranked(texts, "score", value)

    def _v2_rerank(self, body, texts, raw):
        rows = ranked(texts, "relevance_score", lambda text: share(logit_of(text)))
        if body.get("relevant_spans", {}).get("mode") == "enabled":
            for row in rows:
                text = texts[row["index"]]
                at = text.find("answer")
                row["relevant_spans"] = [{"start": at, "end": at + 6, "score": 0.9}] * (at >= 0)
        return {"id": "1", "results": rows, "meta": {}}

    def _jina_v1_rerank(self, body, texts, raw):
        rows = ranked(texts, "relevance_score", lambda text: share(logit_of(text)))
        return {"model": body["model"], "usage": {"total_tokens": 1}, "results": rows}

    def _voyage_v1_rerank(self, body, texts, raw):
        if len(texts) > 1000:
            return 400, {"detail": "at most 1,000 documents"}
        rows = ranked(texts, "relevance_score", lambda text: share(logit_of(text)))
        return {"object": "list", "data": rows, "model": body["model"]}

    def _v1_score(self, body, texts, raw):
        rows = [{"index": i, "object": "score", "score": share(logit_of(text))}
                for i, text in enumerate(texts)]  # fmt: skip
        return {"id": "1", "object": "list", "data": rows, "usage": {}}

    def _llama_v1_rerank(self, body, texts, raw):
        if any(len(text) > LONGEST for text in texts):
            return 500, {"error": {"code": 500, "message": "input is too large to process"}}
        rows = ranked(texts, "relevance_score", logit_of)
        return {"model": "m", "object": "list", "usage": {}, "results": rows}

    def _infinity_rerank(self, body, texts, raw):
        value = logit_of if body.get("raw_scores") else lambda text: share(logit_of(text))
        return {"object": "rerank", "results": ranked(texts, "relevance_score", value)}

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


def ranked(texts, name, value):
    rows = [{"index": i, name: value(text)} for i, text in enumerate(texts)]
    return sorted(rows, key=lambda row: -row[name])


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
