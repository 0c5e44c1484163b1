"""Put what the drop-ins give into vector stores and take it out again, metadata and all.

    pip install chromadb qdrant-client lancedb langchain-chroma langchain-qdrant
    python benchmarks/stores.py

Prints a line a store: how many of the documents came back with every piece of metadata they had. A
store whose package is missing is said to be; `chroma_server` is one behind a server. Ends with 1
where metadata was lost or refused.
"""

import math
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import InMemoryVectorStore

from fitrag_integrations.langchain import (
    CorrectiveRetriever,
    EncoderEmbeddings,
    FaissRetriever,
    FitRagRetriever,
)
from fitrag_integrations.types import Passage

RUNNING = ExitStack()  # what ends with its store's turn
QUESTION = "Where does the Danube rise?"
SHELF = [
    Document("The Danube rises in the Black Forest. It is long.", id="a", metadata={"page": 3}),
    Document("Lunch is at noon. The Rhine ends in the North Sea.", id="b", metadata={"page": 4}),
]


class Shelf(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        return SHELF


def kept():
    """Give the documents of two retrievers, ids made different."""
    found = [*FitRagRetriever(base=Shelf()).invoke(QUESTION)]
    found += [*CorrectiveRetriever(base=Shelf()).invoke(QUESTION)]
    return [Document(d.page_content, metadata=d.metadata, id=str(i)) for i, d in enumerate(found)]


def in_memory(embeddings, documents, _):
    return InMemoryVectorStore.from_documents(documents, embeddings)


def chroma(embeddings, documents, folder):
    from langchain_chroma import Chroma

    return Chroma.from_documents(documents, embeddings, persist_directory=folder)


def chroma_server(embeddings, documents, folder):
    """Ask a server in a process of its own."""
    import chromadb
    from langchain_chroma import Chroma

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    program = Path(sys.executable).with_name("chroma")
    how = [program, "run", "--path", folder, "--host", "127.0.0.1", "--port", str(port)]
    RUNNING.callback(subprocess.Popen(how, stdout=subprocess.DEVNULL).terminate)
    for _ in range(100):
        try:
            client = chromadb.HttpClient(host="127.0.0.1", port=port)
            break
        except ValueError:  # it is not up yet
            time.sleep(0.3)
    return Chroma.from_documents(documents, embeddings, client=client)


def qdrant(embeddings, documents, folder):
    from langchain_qdrant import QdrantVectorStore

    return QdrantVectorStore.from_documents(
        [Document(d.page_content, metadata=d.metadata) for d in documents],  # wants UUIDs
        embeddings,
        path=folder,
        collection_name="kept",
    )


def lance(embeddings, documents, folder):
    import lancedb

    vectors = embeddings.embed_documents([d.page_content for d in documents])
    rows = [
        {"vector": v, "text": d.page_content, **d.metadata}
        for v, d in zip(vectors, documents, strict=True)
    ]
    table = lancedb.connect(folder).create_table("kept", rows)

    class Store:
        def similarity_search(self, question, k):
            found = table.search(embeddings.embed_query(question)).limit(k).to_list()
            return [
                Document(row.pop("text"), metadata={
                    key: value for key, value in row.items()
                    if key not in ("vector", "_distance") and value is not None
                })
                for row in found
            ]  # fmt: skip

    return Store()


def faiss(embeddings, documents, _):
    from fitrag_integrations.retrieval import FaissIndex

    passages = [
        Passage(d.id, d.page_content, metadata={k: v for k, v in d.metadata.items()})
        for d in documents
    ]
    retriever = FaissRetriever(index=FaissIndex.build(passages), k=len(documents))

    class Store:
        def similarity_search(self, question, k):
            return retriever.invoke(question)

    return Store()


def equal(given, found):
    """Compare to nine digits: Chroma writes a number as a text of its own."""
    return all(
        key in found
        and (math.isclose(value, found[key]) if isinstance(value, float) else found[key] == value)
        for key, value in given.items()
    )


def main():
    embeddings, documents, lost = EncoderEmbeddings(), kept(), 0
    for store in (in_memory, chroma, chroma_server, qdrant, lance, faiss):
        with tempfile.TemporaryDirectory() as folder, RUNNING:
            try:
                made = store(embeddings, documents, folder)
            except ImportError as error:
                print(f"{store.__name__}: not here ({error.name})")
                continue
            found = made.similarity_search(QUESTION, k=len(documents))
            same = sum(
                any(
                    f.page_content == d.page_content and equal(d.metadata, f.metadata)
                    for f in found
                )
                for d in documents
            )
        lost += len(documents) - same
        print(f"{store.__name__}: {same} of {len(documents)} came back with all their metadata")
    return int(lost > 0)


if __name__ == "__main__":
    sys.exit(main())
