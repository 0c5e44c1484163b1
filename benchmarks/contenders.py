"""Score pairs by another library, in a process of its own, as often as it is told to.

    PYTHON benchmarks/contenders.py NAME FOLDER

`speed.py` starts these, since what they want beside them does not fit into one environment
(benchmarks/peers.txt and peers-onnx.txt). FOLDER is a cross-encoder of one output with its
tokenizer; FlashRank's own names lie below it. The first line read is a JSON list of a question and
its texts, the first one written names the versions. For each further line the texts are scored, and
written are the seconds of processor time and the scores, in the order given. All on one thread.
"""

import json
import math
import os
import sys
import time
import warnings
from importlib.metadata import version
from itertools import count

os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
FLASHRANK = "ms-marco-MiniLM-L-12-v2", "flashrank-MiniLM-L-12-v2_Q.onnx"  # a name that it knows


def cross_encoder(**how):
    """Make sentence-transformers' cross-encoder."""

    def load(folder):
        from sentence_transformers import CrossEncoder

        cross = CrossEncoder(folder, device="cpu", max_length=384, **how)
        return lambda question, texts: cross.predict(
            [(question, text) for text in texts], show_progress_bar=False
        ).tolist()

    return load


def one_thread():
    """Have ONNX Runtime use one thread, also where it is opened without options."""
    import onnxruntime

    class Session(onnxruntime.InferenceSession):
        def __init__(self, *given, sess_options=None, **named):
            options = sess_options or onnxruntime.SessionOptions()
            options.intra_op_num_threads = 1
            super().__init__(*given, sess_options=options, **named)

    onnxruntime.InferenceSession = Session


def onnx(folder):
    """Make the cross-encoder on ONNX Runtime, which it exports itself."""
    one_thread()
    return cross_encoder(backend="onnx", model_kwargs={"provider": "CPUExecutionProvider"})(folder)


def openvino(precision):
    """Make the cross-encoder on OpenVINO, which it exports itself."""
    how = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": precision}
    return cross_encoder(backend="openvino", model_kwargs={"ov_config": how})


def reranked(folder):
    """Make the ranker of `rerankers`."""
    from rerankers import Reranker

    ranker = Reranker(folder, model_type="cross-encoder", dtype="float32", device="cpu", verbose=0)

    def score(question, texts):
        found = ranker.rank(question, texts, doc_ids=list(range(len(texts)))).results
        found.sort(key=lambda each: each.document.doc_id)
        return [1 / (1 + math.exp(-each.score)) for each in found]

    return score


def flashranked(folder):
    """Make FlashRank's ranker, over a graph of the same weights in the place of its download."""
    one_thread()
    from flashrank import Ranker, RerankRequest

    ranker = Ranker(FLASHRANK[0], cache_dir=folder, max_length=384, log_level="ERROR")

    def score(question, texts):
        given = [{"id": i, "text": text} for i, text in enumerate(texts)]
        found = ranker.rerank(RerankRequest(query=question, passages=given))
        return [float(each["score"]) for each in sorted(found, key=lambda each: each["id"])]

    return score


def naive(folder):
    """Make a LangChain loop that calls a Runnable for each document."""
    from langchain_core.runnables import RunnableLambda

    predict = cross_encoder()(folder)
    one = RunnableLambda(lambda pair: predict(pair[0], [pair[1]])[0])
    return lambda question, texts: [one.invoke((question, text)) for text in texts]


def whole_retriever(**how):
    """Make the FIT-RAG retriever of whatever checkout is on the path; in torch, if options say."""

    def load(folder):
        from langchain_core.documents import Document
        from langchain_core.runnables import RunnableLambda

        from fitrag_integrations.langchain import FitRagRetriever

        given = {}
        if how:
            from fitrag_integrations.models import OnePassScorer

            given = {"scorer": OnePassScorer.embedded(**how)}

        rounds = count()

        def retrieve(question, texts):
            mark = f" {next(rounds)}"  # no round finds a passage that an earlier one left scored
            found = [
                Document(t + mark, id=str(i), metadata={"title": ""}) for i, t in enumerate(texts)
            ]
            FitRagRetriever(base=RunnableLambda(lambda _: found), **given).invoke(question)

        return retrieve

    return load


CONTENDERS = {
    "CrossEncoder.predict float32": cross_encoder(),
    "CrossEncoder.predict bfloat16": cross_encoder(model_kwargs={"dtype": "bfloat16"}),
    "CrossEncoder.predict ONNX Runtime": onnx,
    "CrossEncoder.predict OpenVINO float32": openvino("f32"),
    "CrossEncoder.predict OpenVINO bfloat16": openvino("bf16"),
    "rerankers float32": reranked,
    "FlashRank ONNX Runtime": flashranked,
    "LangChain, a Runnable per document": naive,
    "FitRagRetriever": whole_retriever(),
    "FitRagRetriever, scorer in torch": whole_retriever(device="cpu"),
}
PACKAGES = ("sentence-transformers", "rerankers", "flashrank", "torch", "onnxruntime", "openvino")


def main():
    """Answer line by line; a contender that is not there says why instead of its versions."""
    name, folder = sys.argv[1:]
    told, sys.stdout = sys.stdout, sys.stderr  # libraries print
    warnings.simplefilter("ignore")
    question, texts = json.loads(sys.stdin.readline())
    try:
        score = CONTENDERS[name](folder)
        score(question, texts[:2])
    except Exception as error:  # libraries raise anything where a part of them is missing
        print(json.dumps({"missing": f"{type(error).__name__}: {error}"}), file=told, flush=True)
        return
    used = [each for each in PACKAGES if each.replace("-", "_") in sys.modules]
    found = ", ".join(f"{each} {version(each)}" for each in used)
    print(json.dumps({"with": found}), file=told, flush=True)
    for _ in sys.stdin:
        began = time.process_time()
        scores = score(question, texts)
        seconds = time.process_time() - began
        print(json.dumps({"seconds": seconds, "scores": scores}), file=told, flush=True)


if __name__ == "__main__":
    main()
