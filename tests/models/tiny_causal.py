"""Random causal language models of a few thousand weights, made on the spot."""

import json

import torch
from tiny import SIZES

from fitrag_integrations.models.causal import adapters as causal_adapters
from fitrag_integrations.models.causal.loading import base_of, shared_causal
from fitrag_integrations.models.causal.states import KnownHead, default_layers, feature_count
from fitrag_integrations.models.runtime.engine import Options
from fitrag_integrations.models.runtime.folder import write_manifest, write_tensors
from fitrag_integrations.values.thresholds import FittedThreshold

CPU = Options(device="cpu")
WORDS = ["Yes", "No", " Yes", " No", "True", "False", "Known", "Question", ":", "Answer"]
TEXTS = [
    "Question: who wrote the score of the film?\nAnswer: a king of Rome wrote it\n",
    "Question: what sea is the Danube in?\nAnswer: the Black Sea\n",
    "Do you know the answer by yourself? Yes or No: the river, the ocean and the city",
]
CHAT = (
    "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
QUESTIONS = ["who wrote the score?", "what sea?", "is the Danube a river of Rome or of the ocean?"]
DRAFTS = ["a king of Rome", "", "the Black Sea, the Danube and the river"]


def plainly(folder):
    """Load a model and its tokenizer with transformers alone."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    return tuple(kind.from_pretrained(folder) for kind in (AutoModelForCausalLM, AutoTokenizer))


def write_tokenizer(folder, *, whole=True, pad=True, chat=False):
    """Write a byte-level BPE; without `whole` words every byte is a token."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420 if whole else 259,
        special_tokens=["<|end|>", "<|pad|>", "<|user|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([*TEXTS, *(w for w in WORDS for _ in range(9))], trainer)
    made = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>")
    if pad:
        made.pad_token = "<|pad|>"
    if chat:
        made.chat_template = CHAT
    made.save_pretrained(folder)
    return len(made)


def write_llama(folder, *, seed=0, positions=512, **tokenizer):
    """Write a Llama of 2 layers and width 32; gives the folder."""
    from transformers import LlamaConfig, LlamaForCausalLM

    size = write_tokenizer(folder, **tokenizer)
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=size,
        **SIZES,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=positions,
        initializer_range=0.3,
        bos_token_id=None,
        eos_token_id=0,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return str(folder)


def write_rotary(folder, kind, *, seed=0, positions=4096):
    """Write a "llama", "qwen2" or "mistral" of real depth of positions; gives the folder."""
    from transformers import AutoConfig, AutoModelForCausalLM

    size = write_tokenizer(folder)
    config = AutoConfig.for_model(
        kind,
        vocab_size=size + 1,  # Qwen's tokenizer adds a token of its own
        max_position_embeddings=positions,
        rope_parameters={"rope_type": "default", "rope_theta": 500_000.0},
        attention_dropout=0.1,
        initializer_range=0.15,
        num_attention_heads=2,
        num_key_value_heads=1,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=None,
        **SIZES,
    )
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config)
    for name, weight in model.named_parameters():
        if "q_proj.weight" in name or "k_proj.weight" in name:
            weight.data *= 3**0.5  # sharp attention, which a wrong angle moves elsewhere
    model.save_pretrained(folder)
    return str(folder)


def write_gpt2(folder, *, seed=0, positions=512, **tokenizer):
    """Write a GPT-2 of 2 layers and width 32: tied weights, positions learnt, no pad token."""
    from transformers import GPT2Config, GPT2LMHeadModel

    size = write_tokenizer(folder, **{"pad": False, **tokenizer})
    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=size,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=positions,
        initializer_range=0.3,
        bos_token_id=0,
        eos_token_id=0,
    )
    GPT2LMHeadModel(config).save_pretrained(folder)
    return str(folder)


def write_ik(folder, base, *, variant="lora", seed=1, **fields):
    """Write a random IK classifier over a base; gives the folder."""
    entry = {"base": base, "variant": variant, "draft_tokens": 8, "model": "tiny", **fields}
    entry["temperatures"] = [2.0, 0.5]
    engine = shared_causal(base_of(folder, base), CPU)
    torch.manual_seed(seed)
    if variant == "lora":
        entry["weights"] = _write_adapter(engine, folder, base)
    else:
        layers = default_layers(engine)
        head = KnownHead(feature_count(engine, layers))
        written = write_tensors(folder, "head.safetensors", head.state_dict())
        entry["weights"] = {**written, "layers": layers, "hidden": 0}
    engine.release()
    write_manifest(folder, "model.json", kind="ik", fields=entry)
    return str(folder)


def write_judge(folder, base, *, seed=2, **fields):
    """Write a random necessity judge over a base; gives the folder."""
    engine = shared_causal(base, CPU)
    torch.manual_seed(seed)
    entry = _write_adapter(engine, folder, base)
    engine.release()
    fields = {"base": base, "template": "paper", "model": "tiny", "weights": entry, **fields}
    write_manifest(folder, "model.json", kind="necessity", fields=fields)
    return str(folder)


def _write_adapter(engine, folder, base):
    config = causal_adapters.lora_config(engine.model, rank=4, alpha=8, dropout=0.3)
    name = engine.attach(config, {})
    for key, parameter in engine.model.named_parameters():
        if "lora_B" in key and name in key:
            torch.nn.init.normal_(parameter, std=0.3)
    entry = causal_adapters.save(engine.model, folder, name, base=base)
    engine.detach(name)
    return entry


def set_field(folder, **fields):
    """Change a manifest in place."""
    path = folder / "model.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def fitted(value, model):
    return FittedThreshold(value, model=model, target="best accuracy", rows=9).to_dict()
