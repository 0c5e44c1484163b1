"""What a docstring of a public name must say, as rules that a test can hold it to."""

import ast
import dataclasses
import importlib.util
import inspect
import pkgutil
import re
import textwrap
from functools import cache, cached_property

import fitrag_integrations
from fitrag_integrations.ports import Method

OWN = "fitrag_integrations"
PAPER = re.compile(
    r"arXiv|FIT-RAG|\bCRAG\b|Corrective RAG|\bIK\b|SlimPLM|ITRG|et al\.|section \d|equation \d"
)
RANGE = re.compile(r"\d|between|probabilit|share|seconds|log-|tokens|score|grade|any number")
FLOATS = re.compile(r"\bfloat\b")
NO_VERB = {"a", "an", "the", "this", "these", "it", "class", "function", "method", "helper"}
OF_THE_FRAMEWORK = {"callback_manager", "callbacks", "config", "query_bundle", "run_manager"}
PLAIN_S = {"address", "process", "pass", "guess", "press", "express", "compress", "discuss"}


def public_packages():
    """Give every package and module of ours that promises names by ``__all__``."""
    yield OWN
    for found in pkgutil.walk_packages(fitrag_integrations.__path__, f"{OWN}."):
        hidden = any(part.startswith("_") for part in found.name.split("."))
        if found.ispkg and not hidden and hasattr(importlib.import_module(found.name), "__all__"):
            yield found.name


def is_own(value):
    return getattr(value, "__module__", "").startswith(OWN)


def own_classes(cls):
    return [base for base in cls.__mro__ if is_own(base)]


@cache
def tree_of(value):
    try:
        source = textwrap.dedent(inspect.getsource(value))
    except (OSError, TypeError):
        return None
    return ast.parse(source).body[0]


def field_texts(cls):
    """Give the texts that follow the fields of a class and its bases."""
    texts = []
    for base in own_classes(cls):
        body = getattr(tree_of(base), "body", [])
        for field, text in zip(body, body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                texts.append(f"{ast.unparse(field.target)}: {ast.literal_eval(text.value)}")
    described = getattr(cls, "model_fields", {}).items()
    return texts + [f"{name}: {spec.description}" for name, spec in described if spec.description]


@cache
def class_text(cls):
    """Give all that is said about a class: its own text and that of its bases and fields."""
    texts = [base.__doc__ or "" for base in own_classes(cls)]
    texts += [base.__init__.__doc__ or "" for base in own_classes(cls) if "__init__" in vars(base)]
    texts += [base.__call__.__doc__ or "" for base in own_classes(cls) if "__call__" in vars(base)]
    return "\n".join([*texts, *field_texts(cls)])


def text_around(cls):
    """Give what is said about a class, and about the classes of ours that its own text names."""
    others = [looked_up(word, cls) for word in re.findall(r"`+([\w.]+)", cls.__doc__ or "")]
    named = [other for other in others if inspect.isclass(other) and is_own(other)]
    return "\n".join(map(class_text, [cls, *named]))


def looked_up(word, cls):
    """Find what a docstring names: something in its module, or the whole path to it."""
    module, _, name = word.rpartition(".")
    home = importlib.import_module(module) if is_package(module) else inspect.getmodule(cls)
    return getattr(home, name, None)


def is_package(name):
    return name.startswith(OWN) and importlib.util.find_spec(name) is not None


def public_members(cls):
    """Give name, kind and function of what a class of ours defines and shows."""
    for base in own_classes(cls):
        for name, value in vars(base).items():
            if name.startswith("_") and name != "__call__":
                continue
            if isinstance(value, property | staticmethod | classmethod):
                value = value.fget if isinstance(value, property) else value.__func__
            if inspect.isfunction(value) and is_own(value) and vars(cls).get(name, value) is value:
                yield name, value


def from_a_framework(cls, name):
    """Say whether a class outside this package has prescribed a method."""
    return any(name in vars(base) for base in cls.__mro__ if not is_own(base))


def first_line_faults(text, *, is_noun=False):
    """List the faults of a first line; that of a class or a property may be a noun phrase."""
    if not text or not text.strip():
        return ["no docstring"]
    first = text.strip().split("\n\n")[0].split("\n::")[0].strip()
    sentence = re.split(r"(?<=[.:?])\s", first)[0]
    word = re.split(r"\W", sentence)[0].lower()
    faults = []
    if not sentence.endswith((".", ":", "?")):
        faults.append("its first sentence does not end")
    if not is_noun and (word in NO_VERB or (word.endswith("s") and word not in PLAIN_S)):
        faults.append(f"it begins with {word!r}, not with what to do")
    return faults


def is_told(name, text):
    """Say whether a parameter is mentioned, by its name in the singular or plural."""
    stems = {name, name.removesuffix("s"), f"{name}s", re.sub(r"ies$", "y", name)}
    return any(re.search(rf"(?<![A-Za-z]){re.escape(stem)}(?![a-z])", text) for stem in stems)


def parameters(function):
    for name, parameter in inspect.signature(function).parameters.items():
        packed = parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        plain = name not in {"self", "cls"} | OF_THE_FRAMEWORK and not name.startswith("_")
        if plain and not packed:
            yield name


def raised(function):
    """Give the names of our errors that a function raises in its own lines."""
    for node in ast.walk(tree_of(function) or ast.Module([], [])):
        if isinstance(node, ast.Raise) and node.exc is not None:
            name = ast.unparse(node.exc).split("(")[0].split(".")[0]
            if name[:1].isupper() and name.endswith("Error"):
                yield name


def gives_a_float(function):
    return bool(FLOATS.search(str(function.__annotations__.get("return", ""))))


def function_faults(function, around="", *, is_property=False):
    """List what a function's docstring leaves out; ``around`` is the text of its class."""
    text = inspect.getdoc(function) or ""
    faults = first_line_faults(text, is_noun=is_property)
    both = f"{text}\n{around}"
    faults += [f"parameter {name}" for name in parameters(function) if not is_told(name, both)]
    faults += [f"error {name}" for name in sorted({*raised(function)}) if name not in both]
    if gives_a_float(function) and not RANGE.search(text):
        faults.append("no range of what it gives")
    return faults


def fields(cls):
    """Give the public fields of a dataclass or of a model that this package declares."""
    for base in own_classes(cls):
        for name, kind in vars(base).get("__annotations__", {}).items():
            if not name.startswith("_") and "ClassVar" not in str(kind) and name != "KW_ONLY":
                yield name


def named_in(text, cls):
    """Give the texts of the methods a docstring points to, such as the sync side of an async."""
    words = {*re.findall(r"`+(\w+)", text)}
    return "\n".join(inspect.getdoc(getattr(cls, word, None)) or "" for word in sorted(words))


def class_faults(cls):
    """List what the docstrings of a class and of its public methods leave out."""
    about = text_around(cls)
    faults = first_line_faults(cls.__doc__ if "__doc__" in vars(cls) else "", is_noun=True)
    faults += [f"field {name}" for name in dict.fromkeys(fields(cls)) if not is_told(name, about)]
    init = vars(cls).get("__init__")
    if inspect.isfunction(init) and is_own(init) and not dataclasses.is_dataclass(cls):
        faults += [f"parameter {name}" for name in parameters(init) if not is_told(name, about)]
    for name, function in public_members(cls):
        text = inspect.getdoc(getattr(cls, name, function)) or ""
        twins = [
            vars(base)[name].__doc__ or ""
            for base in [*own_classes(cls), Method]
            if name in vars(base)
        ]
        around = "\n".join([about, named_in(text, cls), *twins])
        kept_as = next((vars(base)[name] for base in own_classes(cls) if name in vars(base)), None)
        is_property = isinstance(kept_as, property | cached_property)
        found = function_faults(function, around, is_property=is_property)
        if not function.__doc__ and text:
            found = [fault for fault in found if fault != "no docstring"]
        if from_a_framework(cls, name):
            found = [fault for fault in found if not fault.startswith("parameter")]
        faults += [f"{name}: {fault}" for fault in found]
    return faults


def faults_of(value):
    """List what is missing in the docstrings of a public name."""
    if inspect.isclass(value):
        return class_faults(value)
    return function_faults(value) if inspect.isfunction(value) else []


def names_a_paper(value):
    """Say whether a class, or the module it is in, says whose idea it is."""
    module = inspect.getmodule(value).__doc__ or ""
    about = class_text(value) if inspect.isclass(value) else (inspect.getdoc(value) or "")
    return bool(PAPER.search(f"{about}\n{module}"))
