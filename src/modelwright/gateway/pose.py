"""How a request is put to a model: in which protocol, for which outputs, and whether that differs from what came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote

import msgspec

from modelwright.gateway import v1, v2
from modelwright.gateway.address import Address
from modelwright.gateway.describe import DEFAULT_SIGNATURE, Description
from modelwright.gateway.tensors import Spec, Tensor
from modelwright.http.asgi import RequestError

Request = v1.Request | v2.Request


class Selector(NamedTuple):
    """Which version is asked: `kind` is versions, labels, or empty for the default one."""

    kind: str = ""
    key: str = ""


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What is wanted of a model, in its own names.

    `outputs` are needed (None: what the request asks for), `scores` is welcome. `rows` are to be asked for (None: all),
    `count` is how many rows each output of the answer must have (None: nobody knows). `inputs` are this model's names
    for the request's inputs, where the request was not made for it (None: it was, and goes on as it is), and `made_for`
    are the inputs of the model that it was made for, as far as they are known.
    """

    outputs: tuple[str, ...] | None = None
    scores: str = ""
    rows: tuple[int, ...] | None = None
    count: int | None = None
    inputs: Mapping[str, str] | None = None
    made_for: tuple[Spec, ...] | None = None


class Posed(msgspec.Struct, frozen=True, kw_only=True):
    """A request to a model. `untouched`: its body is the client's. `specs` are the outputs of its answer, if known.

    `count` is how many rows each of them must have, if that is known. `selected`: it names a version or label.
    """

    protocol: str
    path: str
    body: v2.Body
    specs: tuple[Spec, ...] | None
    selected: bool = False
    untouched: bool = False
    columnar: bool = False
    count: int | None = None


class CannotPose(Exception):
    """The model cannot be asked for this; the message says why, `reason` is CamelCase."""

    def __init__(self, message: str, reason: str = "CannotBeAsked") -> None:
        super().__init__(message)
        self.reason = reason


def in_rows(description: Description) -> bool:
    """Whether the model takes any number of rows, as far as it is known."""
    return all(spec.shape is None or spec.shape[:1] == (-1,) for spec in description.inputs or ())


def pose(request: Request, wish: Wish, description: Description, address: Address, selector: Selector) -> Posed:
    """The request as this model understands it; raises CannotPose, RequestError (it asks for what there is not)."""
    if description.speaks(request.protocol) == "v1":
        signature = _signature(request, wish, description)
        if signature is not None:
            return _pose_v1(request, wish, description, address, selector, signature)
        if not description.v2:
            raise _no_signature(request, wish, description)
    return _pose_v2(request, wish, description, address, selector)


def _no_signature(request: Request, wish: Wish, description: Description) -> Exception:
    if wish.outputs is None and isinstance(request, v2.Request):
        known = ", ".join(repr(spec.name) for spec in description.outputs or ())
        return RequestError(f"the model does not give {', '.join(map(repr, request.wanted))} at once; it gives {known}")
    return CannotPose(f"no signature of it has the outputs {', '.join(wish.outputs or ())}")


def _signature(request: Request, wish: Wish, description: Description) -> str | None:
    """The signature to ask for; None if none has all that is needed."""
    base = request.signature if isinstance(request, v1.Request) else DEFAULT_SIGNATURE
    if base not in description.signatures and (wish.outputs is None or not description.signatures):
        return base  # unknown to us: the server says what it thinks of it
    if base not in description.signatures:
        base = DEFAULT_SIGNATURE
    needed = _needed(request, wish, description, base)
    if wish.scores:
        with_scores = description.signature_for(base, (*needed, wish.scores))
        if with_scores is not None:
            return with_scores
    return description.signature_for(base, needed)


def _needed(request: Request, wish: Wish, description: Description, base: str) -> tuple[str, ...]:
    if wish.outputs is not None:
        return wish.outputs
    if isinstance(request, v2.Request):
        return request.wanted or tuple(spec.name for spec in description.outputs or ())
    return description.signatures[base].output_names


def _pose_v1(
    request: Request, wish: Wish, description: Description, address: Address, selector: Selector, signature: str
) -> Posed:
    found = description.signatures.get(signature)
    untouched, columnar = False, True
    if isinstance(request, v1.Request):
        columnar = request.columnar
        untouched = signature == request.signature and wish.rows is None and not wish.inputs
        body = request.body if untouched else request.encode(signature, wish.rows, wish.inputs or {})
    else:
        tensors = _tensors(request, wish, found.inputs if found else None)
        columnar = len({tensor.rows for tensor in tensors}) != 1 or not tensors[0].shape
        body = v1.encode_tensors(tensors, signature, in_rows=not columnar)
    return Posed(
        protocol="v1",
        path=_path_v1(address, selector),
        body=v2.Body(body),
        specs=found.outputs if found else None,
        selected=bool(selector.kind),
        untouched=untouched,
        columnar=columnar,
        count=wish.count if columnar or wish.rows is not None else request.rows,
    )


def _pose_v2(request: Request, wish: Wish, description: Description, address: Address, selector: Selector) -> Posed:
    outputs = _asked(request, wish)
    specs = description.outputs
    if outputs is not None:
        specs = tuple(description.output(name) or Spec(name) for name in outputs)
    body, untouched = _body_v2(request, wish, description, outputs)
    path = _path_v2(address, selector)
    return Posed(
        protocol="v2",
        path=path,
        body=body,
        specs=specs,
        selected=bool(selector.kind),
        untouched=untouched,
        count=wish.count,
    )


def _body_v2(
    request: Request, wish: Wish, description: Description, outputs: tuple[str, ...] | None
) -> tuple[v2.Body, bool]:
    """The body, and whether it is the client's."""
    if isinstance(request, v1.Request):
        if outputs is None and request.signature != DEFAULT_SIGNATURE:
            raise CannotPose(f"it has no signature {request.signature!r}: it speaks the Open Inference Protocol only")
        if not (description.inputs or wish.made_for):
            raise CannotPose("it does not say which tensors it takes, and the request does not name them either")
        return v2.encode_tensors(_tensors(request, wish, description.inputs), outputs), False
    as_it_came = wish.rows is None and wish.inputs is None and (outputs or ()) == request.wanted
    if as_it_came and (description.binary or not request.uses_binary):
        return request.body, True
    tensors = None if wish.inputs is None and wish.rows is None else _tensors(request, wish, description.inputs)
    return request.encode(tensors, outputs, binary=description.binary), False


def _asked(request: Request, wish: Wish) -> tuple[str, ...] | None:
    """The outputs to name in the request; None for all."""
    wanted = wish.outputs
    if wanted is None:
        wanted = request.wanted if isinstance(request, v2.Request) and request.wanted else None
    if wanted is None or not wish.scores or wish.scores in wanted:
        return wanted
    return (*wanted, wish.scores)


def _tensors(request: Request, wish: Wish, specs: Sequence[Spec] | None) -> list[Tensor]:
    """The request's tensors under the model's names, of its data types, and only the rows that are wanted."""
    known = {spec.name: spec for spec in specs or ()}
    found = []
    for tensor in request.tensors(wish.made_for or _under_request_names(specs, wish)):
        name = (wish.inputs or {}).get(tensor.name, tensor.name)
        kept = tensor if wish.rows is None else tensor.take(wish.rows)
        found.append(_typed(kept, name, known.get(name)))
    return found


def _under_request_names(specs: Sequence[Spec] | None, wish: Wish) -> Sequence[Spec] | None:
    if not wish.inputs or specs is None:
        return specs
    back = {theirs: ours for ours, theirs in wish.inputs.items()}
    return [msgspec.structs.replace(spec, name=back.get(spec.name, spec.name)) for spec in specs]


def _typed(tensor: Tensor, name: str, spec: Spec | None) -> Tensor:
    """Whole numbers and floats are given as the model wants them; anything else stays what it is."""
    if spec is None or spec.datatype == tensor.datatype:
        return tensor.named(name, tensor.datatype)
    if spec.kind == "float" or spec.kind == tensor.kind:
        return tensor.named(name, spec.datatype)
    return tensor.named(name, tensor.datatype)


def _path_v1(address: Address, selector: Selector) -> str:
    chosen = f"/{selector.kind}/{quote(selector.key, safe='')}" if selector.kind else ""
    return f"/v1/models/{address.quoted}{chosen}:predict"


def _path_v2(address: Address, selector: Selector) -> str:
    if selector.kind == "labels":
        raise CannotPose("it speaks the Open Inference Protocol only, which has no labels")
    chosen = f"/versions/{quote(selector.key, safe='')}" if selector.kind else ""
    return f"/v2/models/{address.quoted}{chosen}/infer"


# Answers ------------------------------------------------------------------------------------------------------------


class Told(msgspec.Struct):
    """What a model answered, checked: its tensors in its own names."""

    tensors: dict[str, Tensor]
    version: str
    content: bytes
    binary_header: str | None


def understand(posed: Posed, content: bytes, headers: Mapping[str, str]) -> Told:
    """The tensors of an answer; raises ValueError if it is not what the model's description promises."""
    header = headers.get(v2.HEADER.lower())
    version = headers.get("x-model-version", "")
    if posed.protocol == "v2":
        answer = v2.decode_answer(content, header)
        tensors, version = answer.tensors, answer.version or version
    else:
        tensors = v1.decode_answer(content, posed.specs, columnar=posed.columnar)
    found = {tensor.name: tensor for tensor in tensors}
    for spec in posed.specs or ():
        if spec.name not in found:
            raise ValueError(f"it lacks the output {spec.name!r}")
        found[spec.name].conform(spec)
        _count(found[spec.name], spec, posed.count)
    if not found:
        raise ValueError("it has no outputs")
    return Told(found, version, content, header)


def _count(tensor: Tensor, spec: Spec, count: int | None) -> None:
    free = spec.shape is None or spec.shape[:1] == (-1,)
    if count is not None and free and tensor.rows != count:
        raise ValueError(f"{spec.name!r} has {tensor.rows} rows, not {count}")
