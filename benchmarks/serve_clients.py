"""Ask a running `fitrag serve` with the clients that people have, and compare their scores.

    FITRAG_SERVE_API_KEY=sk-test-0123456789 fitrag serve --port 8123 &
    pip install cohere litellm langchain-cohere llama-index-postprocessor-cohere-rerank \
        llama-index-postprocessor-tei-rerank
    FITRAG_SERVE_API_KEY=sk-test-0123456789 python benchmarks/serve_clients.py http://127.0.0.1:8123

Prints a line a client and ends with 1 where one found other scores than plain HTTP gives.
"""

import json
import os
import sys
import urllib.request

QUESTION = "Where does the Danube rise?"
TEXTS = [
    "The Rhine ends in the North Sea.",
    "Lunch is at noon. The Danube rises in the Black Forest. It is long.",
    "🙂 Rivers carry water. Nobody knows where.",
]
KEY = os.environ["FITRAG_SERVE_API_KEY"]


def plain(url):
    body = json.dumps({"query": QUESTION, "texts": TEXTS}).encode()
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(f"{url}/rerank", body, headers)) as reply:
        return {row["index"]: row["score"] for row in json.load(reply)}


def cohere(url):
    import cohere

    found = cohere.ClientV2(api_key=KEY, base_url=url).rerank(
        model="fitrag", query=QUESTION, documents=TEXTS
    )
    return {row.index: row.relevance_score for row in found.results}


def litellm(url, provider):
    import litellm

    found = litellm.rerank(model=f"{provider}/fitrag", query=QUESTION, documents=TEXTS, top_n=3,
                           api_base=url, api_key=KEY)  # fmt: skip
    return {row["index"]: row["relevance_score"] for row in found.results}


def langchain_cohere(url):
    import cohere
    from langchain_cohere import CohereRerank
    from langchain_core.documents import Document

    client = cohere.ClientV2(api_key=KEY, base_url=url)
    reranker = CohereRerank(client=client, model="fitrag", top_n=3)
    kept = reranker.compress_documents([Document(text) for text in TEXTS], QUESTION)
    return {TEXTS.index(d.page_content): d.metadata["relevance_score"] for d in kept}


def nodes():
    from llama_index.core.schema import NodeWithScore, TextNode

    return [NodeWithScore(node=TextNode(text=text), score=0.0) for text in TEXTS]


def llama_cohere(url):
    from llama_index.postprocessor.cohere_rerank import CohereRerank

    reranker = CohereRerank(api_key=KEY, base_url=url, model="fitrag", top_n=3)
    kept = reranker.postprocess_nodes(nodes(), query_str=QUESTION)
    return {TEXTS.index(n.node.get_content()): n.score for n in kept}


def llama_tei(url):
    from llama_index.postprocessor.tei_rerank import TextEmbeddingInference

    reranker = TextEmbeddingInference(base_url=url, auth_token=f"Bearer {KEY}", top_n=3)
    kept = reranker.postprocess_nodes(nodes(), query_str=QUESTION)
    return {TEXTS.index(n.node.get_content()): n.score for n in kept}


def main(url):
    expected, wrong = plain(url), 0
    clients = {
        "cohere": cohere,
        "litellm cohere": lambda url: litellm(f"{url}/v2/rerank", "cohere"),
        "litellm jina": lambda url: litellm(f"{url}/v1/rerank", "jina_ai"),
        "litellm hosted_vllm": lambda url: litellm(url, "hosted_vllm"),
        "langchain-cohere": langchain_cohere,
        "llama-index cohere": llama_cohere,
        "llama-index tei": llama_tei,
    }
    for name, ask in clients.items():
        try:
            found = ask(url)
            same = all(abs(found[i] - score) < 1e-4 for i, score in expected.items())
        except Exception as error:  # noqa: BLE001 - it is what there is to tell
            same, found = False, f"{type(error).__name__}: {error}"
        wrong += not same
        print(f"{name}: {'equal scores' if same else found}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1].rstrip("/")))
