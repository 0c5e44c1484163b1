"""Ask a running `fitrag serve` with the clients that people have, and compare with `rerank`.

    FITRAG_SERVE_API_KEY=sk-test-0123456789 fitrag serve --port 8123 &
    npm install @langchain/cohere @langchain/core   # in FOLDER
    pip install cohere litellm langchain-cohere langchain-community jina-haystack infinity-client \
        llama-index-postprocessor-cohere-rerank llama-index-postprocessor-tei-rerank
    FITRAG_SERVE_API_KEY=sk-test-0123456789 python benchmarks/serve_clients.py \
        http://127.0.0.1:8123 --node FOLDER --python PYTHON

PYTHON is an interpreter that has this package, where the clients are installed without it. Prints a
line a client and ends with 1 where one found other scores than `fitrag_integrations.rerank`.
"""

import argparse
import json
import os
import subprocess
import sys

QUESTION = "Where does the Danube rise?"
TEXTS = [
    "The Rhine ends in the North Sea.",
    "Lunch is at noon. The Danube rises in the Black Forest. It is long.",
    "🙂 Rivers carry water. Nobody knows where.",
]
KEY = os.environ["FITRAG_SERVE_API_KEY"]
GIVEN = {"query": QUESTION, "documents": TEXTS, "model": "fitrag", "top_n": 3}
IN_PYTHON = """
import json, sys
from fitrag_integrations import rerank
given = json.load(sys.stdin)
found = rerank(given["query"], given["documents"])
print(json.dumps({one.passage.id: one.score for one in found}))
"""
IN_JAVASCRIPT = """
import { CohereRerank } from "@langchain/cohere";
import { CohereClient } from "cohere-ai";
const [url, token, given] = process.argv.slice(1);
const { query, documents } = JSON.parse(given);
const client = new CohereClient({ environment: url, token });
const ranker = new CohereRerank({ client, model: "fitrag", topN: 3 });
const found = await ranker.rerank(documents, query, { maxChunksPerDoc: 10 });
console.log(JSON.stringify(Object.fromEntries(found.map((o) => [o.index, o.relevanceScore]))));
"""


def run(words, **options):
    """Run a program that prints scores by index as JSON."""
    done = subprocess.run(words, capture_output=True, text=True, check=False, **options)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-500:])
    return {int(index): score for index, score in json.loads(done.stdout).items()}


def ranked(found):
    return {
        one["index"] if isinstance(one, dict) else one.index: one["relevance_score"]
        if isinstance(one, dict)
        else one.relevance_score
        for one in found
    }


def cohere(url, version):
    import cohere

    client = {1: cohere.Client, 2: cohere.ClientV2}[version](KEY, base_url=url)
    return ranked(client.rerank(**GIVEN).results)


def litellm(url, provider, **more):
    import litellm

    given = {**GIVEN, "model": f"{provider}/fitrag", **more}
    return ranked(litellm.rerank(**given, api_base=url, api_key=KEY).results)


def infinity(url):
    from infinity_client import Client
    from infinity_client.api.default import rerank
    from infinity_client.models import RerankInput

    client = Client(base_url=url, headers={"Authorization": f"Bearer {KEY}"})
    return ranked(rerank.sync(client=client, body=RerankInput(**GIVEN)).results)


def haystack(url):
    from haystack import Document
    from haystack.utils import Secret
    from haystack_integrations.components.rankers.jina import JinaRanker

    ranker = JinaRanker("fitrag", Secret.from_token(KEY), base_url=f"{url}/v1/rerank")
    found = ranker.run(QUESTION, [Document(content=text) for text in TEXTS])["documents"]
    return {TEXTS.index(one.content): one.score for one in found}


def langchain(make, url):
    from langchain_core.documents import Document

    found = make(url).compress_documents([Document(text) for text in TEXTS], QUESTION)
    return {TEXTS.index(d.page_content): d.metadata["relevance_score"] for d in found}


def langchain_cohere(url):
    import cohere
    from langchain_cohere import CohereRerank

    return CohereRerank(client=cohere.ClientV2(KEY, base_url=url), model="fitrag", top_n=3)


def langchain_jina(url):
    from langchain_community.document_compressors import jina_rerank

    jina_rerank.JINA_API_URL = f"{url}/v1/rerank"  # the class has no option for it
    return jina_rerank.JinaRerank(jina_api_key=KEY, model="fitrag")


def langchain_infinity(url):
    from infinity_client import Client
    from langchain_community.document_compressors.infinity_rerank import InfinityRerank

    InfinityRerank.model_rebuild(_types_namespace={"Client": Client})
    client = Client(base_url=url, headers={"Authorization": f"Bearer {KEY}"})
    return InfinityRerank(client=client, model="fitrag")


def llama_index(url, kind):
    from llama_index.core.schema import NodeWithScore, TextNode
    from llama_index.postprocessor.cohere_rerank import CohereRerank
    from llama_index.postprocessor.tei_rerank import TextEmbeddingInference

    if kind == "cohere":
        ranker = CohereRerank(api_key=KEY, base_url=url, model="fitrag", top_n=3)
    else:
        ranker = TextEmbeddingInference(base_url=url, auth_token=f"Bearer {KEY}", top_n=3)
    nodes = [NodeWithScore(node=TextNode(text=text), score=0.0) for text in TEXTS]
    found = ranker.postprocess_nodes(nodes, query_str=QUESTION)
    return {TEXTS.index(one.node.get_content()): one.score for one in found}


CLIENTS = {
    "cohere v1": lambda url: cohere(url, 1),
    "cohere v2": lambda url: cohere(url, 2),
    "litellm cohere": lambda url: litellm(f"{url}/v2/rerank", "cohere"),
    "litellm jina": lambda url: litellm(f"{url}/v1/rerank", "jina_ai"),
    "litellm hosted_vllm": lambda url: litellm(url, "hosted_vllm"),
    # Infinity sends documents back as strings, Jina and vLLM, and so the service, as objects.
    "litellm infinity": lambda url: litellm(url, "infinity", return_documents=False),
    "infinity_client": infinity,
    "jina-haystack JinaRanker": haystack,
    "langchain-cohere CohereRerank": lambda url: langchain(langchain_cohere, url),
    "langchain-community JinaRerank": lambda url: langchain(langchain_jina, url),
    "langchain-community InfinityRerank": lambda url: langchain(langchain_infinity, url),
    "llama-index CohereRerank": lambda url: llama_index(url, "cohere"),
    "llama-index TextEmbeddingInference": lambda url: llama_index(url, "tei"),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("url", type=lambda url: url.rstrip("/"))
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--node", help="folder in which npm installed @langchain/cohere")
    args = parser.parse_args()
    given, wrong, clients = json.dumps(GIVEN), 0, dict(CLIENTS)
    expected = run([args.python, "-c", IN_PYTHON], input=given)
    if args.node:
        words = ["node", "--input-type=module", "-e", IN_JAVASCRIPT, "--"]
        clients["LangChain.js CohereRerank"] = lambda url: run(
            [*words, url, KEY, given], cwd=args.node
        )
    print("expected:", expected)
    for name, ask in clients.items():
        try:
            found = ask(args.url)
            same = all(abs(found[i] - score) < 1e-4 for i, score in expected.items())
        except Exception as error:  # noqa: BLE001 - it is what there is to report
            same, found = False, f"{type(error).__name__}: {error}"
        wrong += not same
        print(f"{name}: {'equal scores' if same else found}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
