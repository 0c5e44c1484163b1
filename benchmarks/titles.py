"""Count the pairs of equal texts, apart in one metadata key, whose right one is put first.

    python benchmarks/titles.py

`titles.jsonl` has five pairs for each of ten keys that splitters and loaders write. The wrong one
stands first in what is given. Beside the rerankers of both frameworks stands the cosine of the
bundled encoder over the `MetadataMode.EMBED` text of a node, which is what LlamaIndex's
`SentenceTransformerRerank` reads.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from langchain_core.documents import Document
from llama_index.core.schema import MetadataMode, NodeWithScore, TextNode

from fitrag_integrations import langchain, llama_index
from fitrag_integrations.core.jsonl import read_jsonl
from fitrag_integrations.retrieval import Encoder

ROWS = Path(__file__).with_name("titles.jsonl")


def main() -> None:
    """Print for each key how often the right one is first."""
    encoder, first = Encoder(), Counter[tuple[str, str]]()
    ours = langchain.BiLabelReranker(top_n=1), llama_index.BiLabelReranker(top_n=1)
    rows = list(read_jsonl(ROWS))
    for row in rows:
        key, question = row["key"], row["question"]
        abouts = [{key: row["wrong"]}, {key: row["right"]}]
        documents = [Document(row["text"], metadata=about) for about in abouts]
        nodes = [NodeWithScore(node=TextNode(text=row["text"], metadata=a)) for a in abouts]
        (best,) = ours[0].compress_documents(documents, question)
        first[key, "LangChain"] += best.metadata[key] == row["right"]
        (node,) = ours[1].postprocess_nodes(nodes, query_str=question)
        first[key, "LlamaIndex"] += node.metadata[key] == row["right"]
        texts = [node.get_content(metadata_mode=MetadataMode.EMBED) for node in nodes]
        wrong, right = encoder.encode(texts) @ encoder.encode([question])[0]
        first[key, "EMBED text, cosine"] += bool(right > wrong)
    ways = ["LangChain", "LlamaIndex", "EMBED text, cosine"]
    for key in dict.fromkeys(row["key"] for row in rows):
        print(f"{key:16}", ", ".join(f"{way} {first[key, way]}" for way in ways))
    print(
        f"{'of ' + str(len(rows)):16}",
        ", ".join(f"{w} {sum(n for (_, way), n in first.items() if way == w)}" for w in ways),
    )


if __name__ == "__main__":
    main()
