"""Components written as plain values by the frameworks' own functions, and built again of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.load import dumps, loads
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, HumanMessagePromptTemplate, PromptTemplate
from langchain_core.runnables import RunnableSequence
from llama_index.core.schema import NodeWithScore, TextNode

from fitrag_integrations import langchain as lc
from fitrag_integrations import llama_index as li
from fitrag_integrations.errors import InputError
from fitrag_integrations.methods import ActionThresholds, FitRag
from fitrag_integrations.methods.defaults import default_model

QUESTION = "Who wrote the score of Amarcord?"
TEXTS = ["Rome is old. It lies on the Tiber.", "Amarcord opened in 1973. Nino Rota scored it."]
PROMPT = ChatPromptTemplate.from_template("{question}")
THEIRS = [ChatPromptTemplate, HumanMessagePromptTemplate, PromptTemplate, StrOutputParser]
LANGCHAIN: list[Any] = [
    lc.BiLabelReranker(top_n=1, weight=0.0),
    lc.SubDocumentCompressor(max_tokens=20, max_share=None),
    lc.KnowledgeRefiner(),
    lc.RetrievalGate(llm=PROMPT, threshold=0.4),
    lc.RetrievalJudge(thresholds=ActionThresholds(0.5, -0.5)),
    lc.RetrievalJudge(thresholds="popqa"),
    lc.KnowledgeRouter(known=PROMPT, unknown=StrOutputParser(), llm=PROMPT),
    lc.SubDocumentCompressor().as_runnable() | PROMPT,
]


def again(component: Any) -> Any:
    ours = [getattr(lc, name) for name in lc.__all__ if isinstance(getattr(lc, name), type)]
    known = [kind for kind in [*ours, type(component)] if hasattr(kind, "lc_id")]
    runnable = type(lc.SubDocumentCompressor().as_runnable())
    allowed = [*known, *THEIRS, RunnableSequence, runnable]
    return loads(
        dumps(component), allowed_objects=allowed, valid_namespaces=["fitrag_integrations"]
    )


@pytest.mark.filterwarnings("ignore:The function `loads` is in beta")
class TestLangChain:
    @pytest.mark.parametrize("component", LANGCHAIN, ids=lambda each: type(each).__name__)
    def test_dumps_and_loads(self, component):
        assert repr(again(component)) == repr(component)

    def test_none_is_a_value(self):
        given = lc.SubDocumentCompressor(top_n=None, max_share=None)
        assert again(given) == given and given != lc.SubDocumentCompressor()
        assert again(given).as_runnable() == given.as_runnable()

    def test_a_bundled_model_goes_by_its_name(self):
        documents = [Document(text) for text in TEXTS]
        given = lc.BiLabelReranker(scorer=default_model("scorer"), top_n=1)
        assert json.loads(dumps(given))["kwargs"] == {"top_n": 1, "scorer": "embedded"}
        found = again(given).compress_documents(documents, QUESTION)
        assert found == given.compress_documents(documents, QUESTION)

    @pytest.mark.parametrize(
        ("component", "name"),
        [
            (lc.FitRagRetriever(base=lambda question: []), "RunnableLambda"),
            (lc.MethodRunnable(method=FitRag()), "FitRag"),
            (lc.BiLabelReranker(scorer=lambda pairs: [0.0 for _ in pairs]), "lambda"),
        ],
    )
    def test_what_no_text_can_name_is_refused_by_its_name(self, component, name):
        with pytest.raises(NotImplementedError, match=name):
            again(component)


@pytest.mark.parametrize(
    "component",
    [
        li.BiLabelReranker(top_n=1, weight=0.0),
        li.SubDocumentCompressor(max_tokens=20),
        li.KnowledgeRefiner(evaluator=default_model("evaluator"), top_n=2),
        li.BiLabelReranker(scorer="embedded"),
        li.EncoderEmbedding(),
    ],
    ids=lambda each: type(each).__name__,
)
def test_to_dict_and_from_dict(component):
    made = type(component).from_dict(json.loads(component.to_json()))
    assert made.to_dict() == component.to_dict()
    if not isinstance(component, li.EncoderEmbedding):
        nodes = [NodeWithScore(node=TextNode(id_=text, text=text)) for text in TEXTS]
        kept = component.postprocess_nodes(nodes, query_str=QUESTION)
        assert made.postprocess_nodes(nodes, query_str=QUESTION) == kept


def test_what_no_plain_value_can_name_is_refused():
    with pytest.raises(InputError, match="scorer.*a bundled model"):
        li.BiLabelReranker(scorer=lambda pairs: [0.0 for _ in pairs]).to_dict()

    class Own:
        def encode(self, texts):
            return [[1.0] for _ in texts]

    with pytest.raises(InputError, match="encoder.*Own"):
        li.EncoderEmbedding.from_dict(li.EncoderEmbedding(Own()).to_dict())
