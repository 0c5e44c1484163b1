"""Count the tokens three chains send for one question, for every retriever.

    python benchmarks/naive_chain.py

"naive" is `{"context": retriever} | prompt`, "shown" is `retriever | numbered_documents` as the
README has it, "plain" the same naive chain over the retriever underneath, which gives five pages.
Tokens are counted roughly, as the package does without a tokenizer.
"""

from __future__ import annotations

from typing import Any

from langchain_core.documents import Document
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough

from fitrag_integrations.langchain import (
    BiLabelReranker,
    CompressingRetriever,
    CorrectiveRetriever,
    FitRagRetriever,
    ITRGRetriever,
    KnowledgeRefiner,
    SlimPLMRetriever,
    SubDocumentCompressor,
    numbered_documents,
)
from fitrag_integrations.text.tokens import approximate_tokens

QUESTION = "Who designed the bridge over the Tirva?"
PAGES = {
    "Bridge over the Tirva": "The bridge over the Tirva was opened in 1932. It was designed by "
    "Ilse Marbach, who had never built one before. Trams crossed it until 1968. Today it carries "
    "two lanes of cars and a cycle path.",
    "Ilse Marbach": "Ilse Marbach was an engineer from Graz. She studied in Vienna and built "
    "mostly grain silos. Her papers are kept in the city archive.",
    "Tirva": "The Tirva is a river of 84 kilometres. It rises below the Hohe Wand and ends in a "
    "lake. Otters came back to it in the nineties.",
    "Corran Head": "The lighthouse of Corran Head was built by Anna Vell in 1870. It stands on a "
    "rock of slate. The lamp was electrified in 1951.",
    "Ferry": "The ferry to Corran Head leaves at noon. On Sundays there is a second crossing at "
    "six. Bicycles travel free of charge.",
}


def main() -> None:
    """Print a table."""
    base = RunnableLambda(_found)
    plain = sent(base)
    print(f"{'retriever':<44} naive  shown  plain")
    for name, retriever in retrievers(base).items():
        naive, shown = sent(retriever), sent(retriever | numbered_documents)
        print(f"{name:<44} {naive:>5}  {shown:>5}  {plain:>5}")


def retrievers(base: Any) -> dict[str, Any]:
    """Give every retriever, as it is without options, and the compressors in one."""
    steps = {
        "BiLabelReranker": [BiLabelReranker()],
        "SubDocumentCompressor": [SubDocumentCompressor()],
        "KnowledgeRefiner": [KnowledgeRefiner()],
    }
    return {
        "FitRagRetriever": FitRagRetriever(base=base),
        "CorrectiveRetriever": CorrectiveRetriever(base=base),
        "SlimPLMRetriever": SlimPLMRetriever(base=base),
        "ITRGRetriever": ITRGRetriever(base=base),
        **{
            f"CompressingRetriever, {name}": CompressingRetriever(base=base, compressors=some)
            for name, some in steps.items()
        },
    }


def sent(context: Any) -> int:
    """Count the tokens of the prompt that is sent with this context."""
    prompt = ChatPromptTemplate.from_template("{context}\n\nQuestion: {question}")
    chain = {"context": context, "question": RunnablePassthrough()} | prompt
    return approximate_tokens(chain.invoke(QUESTION).to_string())


def _found(question: str) -> list[Document]:
    return [
        Document(text, id=f"page-{n}", metadata={"title": title, "source": f"{title}.txt"})
        for n, (title, text) in enumerate(PAGES.items())
    ]


if __name__ == "__main__":
    main()
