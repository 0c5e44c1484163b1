"""A GPU to rehearse on: a device of its own name whose memory is the CPU's.

To torch it is a backend like any other, so placement, dispatch, autograd and `Module.to` are the
real ones, and a tensor left behind on the CPU is refused as CUDA refuses it. What it adds is a
ledger of what costs a GPU time without showing on a CPU: every value that the host waits for, every
copy to the device, and how many kernels were started. What it cannot tell is how long anything
takes.

Loading this file registers the device, once per process and before the first backward pass.
"""

import ctypes
import sys
import threading
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

import torch
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from fitrag_integrations.models.runtime import placing

NAME = "rehearsal"
DEVICE = f"{NAME}:0"
FREE = 2**34  # bytes of memory that nobody has taken
_HOST = torch.device("cpu")
_PACKAGE = "fitrag_integrations"
_aten = torch.ops.aten

# What a GPU answers only when all before it is done: a value, or a shape that depends on values.
_WAITING = {
    _aten._local_scalar_dense.default,
    _aten._unique2.default,
    _aten.bincount.default,
    _aten.equal.default,
    _aten.masked_select.default,
    _aten.nonzero.default,
    _aten.repeat_interleave.Tensor,
    _aten.unique_consecutive.default,
    _aten.unique_dim.default,
}
_SUMS = ("sum", "mean", "_softmax", "_log_softmax", "logsumexp", "norm", "linalg_vector_norm")
_PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "dot", "linear")
_HALF = (torch.bfloat16, torch.float16)
_MAKING = ("empty", "empty_strided", "set_", "resize_")


@dataclass(frozen=True, slots=True)
class Read:
    """Hold one wait of the host for the device.

    `product` is the precision of the last matrix product before it, None where there was none.
    """

    op: str
    numbers: int
    dtype: torch.dtype
    product: torch.dtype | None
    where: str

    @property
    def rounded(self):
        """Say whether what was read are numbers that a product in half precision made."""
        return self.dtype.is_floating_point and (self.product in _HALF or self.dtype in _HALF)


@dataclass(slots=True)
class Ledger:
    """Count what was done on the device while it was open."""

    reads: list = field(default_factory=list)
    rounded: list = field(default_factory=list)  # sums of the package's own in half precision
    pinned: int = 0
    uploads: list = field(default_factory=list)
    kernels: Counter = field(default_factory=Counter)

    def told(self):
        """List where the host waited and how often, for a failing test."""
        places = Counter(f"{read.op} at {read.where}" for read in self.reads)
        return "\n".join(f"{count:4} x {place}" for place, count in places.most_common())


_open: list = []
_product = threading.local()


@contextmanager
def ledger():
    """Open a ledger; several may be open at once."""
    made = Ledger()
    _open.append(made)
    _product.dtype = None
    try:
        yield made
    finally:
        _open.remove(made)


def _where():
    """Name the innermost line of the package, else of whatever called torch."""
    frame: FrameType | None = sys._getframe(2)
    first = ""
    while frame is not None:
        path = frame.f_code.co_filename
        if f"/{_PACKAGE}/" in path:
            own = f"{_PACKAGE}{path.rpartition(_PACKAGE)[2]}:{frame.f_lineno}"
            return f"{own} through {first}" if first else own
        inside = "/torch/" in path or path == __file__
        if not first and not inside:
            first = f"{path.rpartition('site-packages/')[2]}:{frame.f_lineno}"
        frame = frame.f_back
    return first or "the backward pass"


# One memory under two names: DLPack hands a tensor over with its device, which is written anew.
_capsule = ctypes.pythonapi.PyCapsule_GetPointer
_capsule.restype, _capsule.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_KIND_AT, _KIND_CPU, _KIND_OTHER = 8, 1, 12  # DLTensor: a pointer, then the kind of the device


def _renamed(tensor, kind):
    capsule = torch._C._to_dlpack(tensor.detach())
    ctypes.c_int32.from_address(_capsule(capsule, b"dltensor") + _KIND_AT).value = kind
    return torch._C._from_dlpack(capsule)


def _is_ours(value):
    return isinstance(value, torch.Tensor) and value.device.type == NAME


class _Call:
    """Run one operation on the CPU's view of its arguments."""

    def __init__(self, op):
        self.op, self.given, self.first = op, {}, None

    def lowered(self, value):
        if isinstance(value, torch.Tensor):
            return self._lowered_tensor(value)
        if isinstance(value, list | tuple):
            return type(value)(self.lowered(each) for each in value)
        if isinstance(value, torch.device) and value.type == NAME:
            return _HOST
        return value

    def _lowered_tensor(self, tensor):
        if not _is_ours(tensor):
            # as on CUDA, a number may come along; a tensor may not
            if tensor.dim() and self.op is not _aten._copy_from.default:
                raise RuntimeError(
                    f"{self.op}: expected all tensors on {DEVICE}, found one of shape "
                    f"{tuple(tensor.shape)} on {tensor.device}, at {_where()}"
                )
            return tensor
        low = _renamed(tensor, _KIND_CPU)
        self.given[id(low)] = (tensor, low)
        self.first = tensor if self.first is None else self.first
        return low

    def raised(self, value, *, view):
        if isinstance(value, torch.Tensor):
            if id(value) in self.given:
                return self.given[id(value)][0]
            # a view of a tensor that may train stays one that autograd can follow
            lasting = view and self.first is not None and not self.first.is_inference()
            with torch.inference_mode(torch.is_inference_mode_enabled() and not lasting):
                return _renamed(value, _KIND_OTHER)
        if isinstance(value, list | tuple):
            return type(value)(self.raised(each, view=view) for each in value)
        return value


def _fallback(op, *args, **kwargs):
    call = _Call(op)
    low, named = call.lowered(args), {key: call.lowered(one) for key, one in kwargs.items()}
    low = _numbers_as_tensors(op, low)
    if op is _aten._copy_from.default:
        _count_copy(*args[:2])
        low[1].copy_(low[0])
        return args[1]
    returns = op._schema.returns
    view = any(r.alias_info is not None and not r.alias_info.is_write for r in returns)
    _count(op, args, low, view)
    outs = _outs(op, kwargs, named)
    found = op(*low, **named)
    for target, made in outs:
        if made.shape != target.shape:
            target.data = _renamed(made, _KIND_OTHER)
        call.given[id(made)] = (target, made)
    return found if op is _aten._local_scalar_dense.default else call.raised(found, view=view)


def _numbers_as_tensors(op, low):
    """Undo what the way into Python does to a plain number where a tensor is declared."""
    given = zip(low, op._schema.arguments, strict=False)
    return [
        torch.tensor(one)
        if type(one) in (int, float, bool) and str(wanted.type) == "Tensor"
        else one
        for one, wanted in given
    ]


def _outs(op, kwargs, named):
    """Pair what is written into with where it is; what is empty may grow, in memory of its own."""
    outs = []
    for argument in op._schema.arguments:
        target = kwargs.get(argument.name)
        if argument.is_out and isinstance(target, torch.Tensor):
            if not target.numel():
                named[argument.name] = torch.empty(0, dtype=target.dtype)
            outs.append((target, named[argument.name]))
    return outs


def _count_copy(source, target):
    if not _is_ours(target):
        _count_read("copy", source)
    elif not _is_ours(source):
        where = _where()
        for each in _open:
            each.uploads.append(where)
    else:
        for each in _open:
            each.kernels["copy"] += 1


def _count(op, args, low, view):
    name = op._schema.name.removeprefix("aten::")
    if op in _WAITING:
        _count_read(name, args[0])
    if name in _SUMS and any(one.dtype in _HALF for one in low if isinstance(one, torch.Tensor)):
        where = _where()
        for each in _open if where.startswith(_PACKAGE) and " through " not in where else ():
            each.rounded.append(f"{name} at {where}")
    if name in _PRODUCTS:
        _product.dtype = next(one.dtype for one in low if isinstance(one, torch.Tensor))
    if not view and name not in _MAKING:
        for each in _open:
            each.kernels[name] += 1


def _count_read(name, source):
    product = getattr(_product, "dtype", None)
    read = Read(name, source.numel(), source.dtype, product, _where())
    for each in _open:
        each.reads.append(read)


class _Module:
    """What torch asks of `torch.<device>`."""

    def is_available(self):
        return True

    def is_initialized(self):
        return True

    def device_count(self):
        return 1

    def current_device(self):
        return 0

    def synchronize(self, device=None):
        pass

    def empty_cache(self):
        pass

    def manual_seed_all(self, seed):
        pass  # its numbers are the CPU's

    def get_rng_state(self, device=None):
        return torch.get_rng_state()

    def set_rng_state(self, state, device=None):
        torch.set_rng_state(state)

    def get_amp_supported_dtype(self):
        return [torch.bfloat16, torch.float16]

    def _is_in_bad_fork(self):
        return False

    def _lazy_init(self):
        pass


def _pinned(self, device=None):
    """Count a copy to pinned memory, which there is none of."""
    for each in _open:
        each.pinned += 1
    return self


def _made(op):
    """Make what torch would make as empty and grow, which borrowed memory cannot."""

    def kernel(*args, **kwargs):
        return _renamed(op(*args, **{**kwargs, "device": _HOST, "pin_memory": None}), _KIND_OTHER)

    return kernel


def _copied_deeply(plain):
    """Copy what is on the device by a kernel: torch would ask for memory, and it is borrowed."""

    def deepcopy(self, memo):
        if not _is_ours(self) or type(self) is not torch.Tensor:
            return plain(self, memo)
        if id(self) not in memo:
            memo[id(self)] = self.detach().clone().requires_grad_(self.requires_grad)
        return memo[id(self)]

    return deepcopy


def _overload(name):
    packet, _, overload = name.partition(".")
    return getattr(getattr(_aten, packet), overload or "default")


def _register():
    _setup_privateuseone_for_python_backend(NAME, backend_module=_Module())
    everything = torch.library.Library("_", "IMPL")
    everything.fallback(_fallback, "PrivateUse1")
    everything.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    some = torch.library.Library("aten", "IMPL")
    for name in ("arange", "arange.start", "arange.start_step", "linspace", "randperm"):
        some.impl(name, _made(_overload(name)), "PrivateUse1")
    # What the package asks of CUDA alone it asks of this device too, and gets an answer.
    placing.GPUS.add(NAME)
    torch.Tensor.pin_memory = _pinned  # type: ignore[method-assign]
    torch.cuda.mem_get_info = lambda device=None: (FREE, 2 * FREE)
    torch.cuda.memory_reserved = torch.cuda.memory_allocated = lambda device=None: 0
    copied = _copied_deeply(torch.Tensor.__deepcopy__)
    torch.Tensor.__deepcopy__ = copied  # type: ignore[method-assign]
    # Tied weights stay tied on the way to a GPU; to torch only its own devices are alike enough.
    torch.__future__.set_swap_module_params_on_conversion(True)
    return everything, some


_libraries = _register()  # as long as they live, the device is there
