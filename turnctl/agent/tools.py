"""A tool from a plain function: its type hints are the schema, and what it does to the world passes the ledger's gate.

Invariants
  T1  What the model wrote is read wholly before the function is called. What does not fit is a ``BadCall`` whose text
      is for the model, and nothing was done.
  T2  A tool that declares an effect is called inside ``turn.effect`` and nowhere else: admitted and claimed, or not
      called. One whose key was completed before is not called again: the model is told the receipt.
  T3  A tool with an effect that raises leaves it ``unknown``, and the model is told so, unless the function itself has
      told what became of it.
  T4  A stop (``CancelledError``) passes through; ``began`` says whether the function had been called by then.

``invoke`` blocks as long as the function does, on the caller's thread. With an effect it is a checkpoint before the
function, and blocks for the ledger. A tool is not changed by being used: any number of threads may.
"""

from __future__ import annotations

import copy
import functools
import inspect
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from turnctl.agent.contents import canonical, not_lazy, parts_of
from turnctl.agent.declaring import check_options, shape_told
from turnctl.agent.docstrings import told_of
from turnctl.agent.elsewhere import refuse_elsewhere
from turnctl.agent.encodable import copied
from turnctl.agent.hints import Field, Shape, field_of, object_shape
from turnctl.clock import parse_duration
from turnctl.errors import BadArgument, BadCall, EffectCompleted, LedgerRefused
from turnctl.records.messages import Call, Result, ResultStatus
from turnctl.spelling import described
from turnctl.tokens.callables import check_plain
from turnctl.tokens.ids import check_name
from turnctl.waiting.forks import EndsForks

if TYPE_CHECKING:
    from turnctl.ledger.acting import TurnEffect
    from turnctl.ledger.adapters import Adapter
    from turnctl.ledger.effecting import EffectingTurn
    from turnctl.records.effects import Consequence

__all__ = ["Acts", "Invoked", "Tool", "digest_of", "tool"]

Arguments = Mapping[str, Any]
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
#: parameters with these hints are given by turnctl, and the model does not hear of them
_GIVEN = {"turnctl.turns.Turn": "turn", "turnctl.ledger.acting.TurnEffect": "effect"}


class Acts:
    """What a tool does to the world, declared: the ``kind`` of effect, and how its key and payload are told.

    ``key(arguments)`` names the one intent: with the same kind and key it is done once for the task, also after a
    restart. Without it, the same tool with the same arguments is the same intent. ``payload(arguments)`` is what is
    sent, by default the arguments; ``receipt(value)`` is what is kept of the tool's value, by default what the model
    is shown. The functions get the arguments as the tool does.
    """

    __slots__ = ("adapter", "consequence", "key", "kind", "payload", "receipt")

    def __init__(
        self,
        kind: str,
        *,
        key: Callable[[Arguments], str] | None = None,
        payload: Callable[[Arguments], Any] | None = None,
        receipt: Callable[[Any], Any] | None = None,
        adapter: Adapter | None = None,
        consequence: Consequence = "medium",
    ) -> None:
        if not check_name(kind) or " " in kind:
            raise BadArgument(f"the kind of an effect is a non-empty str without spaces, not {kind!r}")
        if consequence not in ("low", "medium", "high"):
            raise BadArgument(f"unknown consequence {consequence!r}; use low, medium or high")
        for name, given in (("key", key), ("payload", payload), ("receipt", receipt)):
            if given is not None:
                check_plain(f"{name} of effect {kind}", given)
        self.kind, self.key, self.payload, self.receipt = kind, key, payload, receipt
        self.adapter, self.consequence = adapter, consequence

    def __repr__(self) -> str:
        return f"Acts({self.kind!r})"


class Invoked(NamedTuple):
    """What came of a call: what the model is told, what the function gave, and what it raised, if it did."""

    result: Result
    value: Any = None
    error: Exception | None = None


def digest_of(call: Call) -> str:
    """A digest of what is called with what: the same for the same arguments in any order, another for any other."""
    told = call.raw if call.raw is not None else canonical(call.arguments)
    return sha256(f"{call.name} {told}".encode(errors="backslashreplace")).hexdigest()


class Tool:
    """A function that a model may call.

    The parameters' hints are its schema, with ``Annotated[..., "text"]`` or the docstring for what they mean; the
    docstring's text is its description. A hint that no schema can tell raises ``BadArgument`` here. A parameter with
    the hint ``turnctl.Turn`` or ``turnctl.TurnEffect`` is given by the loop. With ``schema`` that is taken instead of
    the hints, and arguments are passed as they come.

    ``effect`` declares what it does to the world: an ``Acts``, or its kind alone. For the loop: ``parallel`` says that
    it may run beside other calls, ``approval`` that somebody is asked first (a function of the arguments may decide),
    ``timeout`` how long it may take.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        schema: Mapping[str, Any] | None = None,
        effect: Acts | str | None = None,
        parallel: bool = True,
        approval: bool | Callable[[Arguments], bool] = False,
        timeout: float | str | None = None,
    ) -> None:
        if isinstance(fn, type) or not callable(fn):
            raise BadArgument(f"a tool is made of a function, not of {fn!r}")
        found = _name_of(name if name is not None else getattr(fn, "__name__", type(fn).__name__))
        self.fn = fn
        self.name: str = found
        called = _function_of(fn)
        if inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called):
            raise BadArgument(
                f"tool {found} is a coroutine function; wrap it in a plain one that calls turnctl.run_coroutine"
            )
        if inspect.isgeneratorfunction(called):
            raise BadArgument(f"tool {found} is a generator; a tool gives one value, so collect what it yields")
        said, parameters = told_of(called)
        self.description: str = said if description is None else description
        self._given: dict[str, str] = {}
        self._positional: tuple[str, ...] = ()
        self._shape = self._read_hints(parameters) if schema is None else shape_told(schema, found)
        self.schema: dict[str, Any] = self._shape.schema
        self.effect = Acts(effect) if isinstance(effect, str) else effect
        if self.effect is not None and not isinstance(self.effect, Acts):
            raise BadArgument(f"the effect of tool {found} is Acts(...) or the kind of one, not {effect!r}")
        if "effect" in self._given.values() and self.effect is None:
            raise BadArgument(f"tool {found} takes a TurnEffect and declares no effect; give effect=Acts(...)")
        check_options(found, description=description, parallel=parallel, approval=approval)
        self.parallel = parallel
        self.approval = approval
        self.timeout_s: float | None = (
            None if timeout is None else parse_duration(timeout, what=f"timeout of tool {found}")
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function itself, called by the host. One that has an effect is called through ``invoke`` alone."""
        if self.effect is not None:
            raise BadArgument(f"tool {self.name} acts on the world; call it by invoke(call, turn), which asks first")
        return self.fn(*args, **kwargs)

    def named(self, name: str) -> Tool:
        """The same under another name."""
        made = copy.copy(self)
        made.name = _name_of(name)
        return made

    def __repr__(self) -> str:
        acts = "" if self.effect is None else f" {self.effect.kind}"
        return f"<Tool {self.name}{acts}>"

    # -- how it is defined ------------------------------------------------------------------------------------------

    def _read_hints(self, said: Mapping[str, str]) -> Shape:
        fn, where = self.fn, f"of tool {self.name}"
        try:
            signature = inspect.signature(fn)
            hints = typing.get_type_hints(_function_of(fn), include_extras=True)
        except (NameError, TypeError, ValueError, AttributeError) as error:
            raise BadArgument(
                f"the hints {where} cannot be read ({error}); names that are imported for type checkers alone are "
                "not there at run time"
            ) from error
        fields: dict[str, Field] = {}
        positional = []
        for name, parameter in signature.parameters.items():
            place = f"parameter {name} {where}"
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise BadArgument(f"{place} takes any number, which a model cannot be told; name each, or take a list")
            if parameter.kind is parameter.POSITIONAL_ONLY:
                positional.append(name)
            if name not in hints:
                why = "the model needs to know what it is"
                if name in ("self", "cls"):
                    why = "of a method, make the tool of the bound one, Tool(thing.method)"
                raise BadArgument(f"{place} has no type hint; {why}")
            hint = hints[name]
            if (given := _given_by(hint)) is not None:
                self._given[name] = given
                continue
            default = MISSING if parameter.default is parameter.empty else parameter.default
            field = field_of(hint, place, default)
            if name in said and "description" not in field.shape.schema:
                shape = field.shape._replace(schema={**field.shape.schema, "description": said[name]})
                field = field._replace(shape=shape)
            fields[name] = field
        self._positional = tuple(positional)
        return object_shape(fields, dict)

    # -- how it is called -------------------------------------------------------------------------------------------

    def arguments(self, call: Call) -> dict[str, Any]:
        """What the function gets for ``call``. Raises ``BadCall``, worded for the model, if it does not fit (T1)."""
        if call.raw is not None:
            text = f"{self.name} was not called: its arguments are not a JSON object: {_short(call.raw)}"
            raise BadCall(text, problems=("the arguments are not a JSON object",))
        problems: list[str] = []
        found = self._shape.read(copied(call.arguments), "", problems)  # a tool may change what it gets
        if problems:
            raise BadCall(f"{self.name} was not called: {'; '.join(problems)}", problems=tuple(problems))
        return typing.cast("dict[str, Any]", found)

    def needs_approval(self, arguments: Arguments) -> bool:
        """Whether somebody is to be asked before it is called with ``arguments``."""
        return bool(self.approval(arguments)) if callable(self.approval) else self.approval

    def invoke(
        self,
        call: Call,
        turn: EffectingTurn | None = None,
        *,
        arguments: Arguments | None = None,
        began: Callable[[], object] | None = None,
    ) -> Invoked:
        """Call it, and say what came of that. No ``Exception`` of the function leaves: it is in what is returned.

        ``arguments`` are those that ``arguments`` gave for this call, if they were read before. ``began`` is called
        right before the function is.
        """
        try:
            found = dict(self.arguments(call) if arguments is None else arguments)
        except BadCall as error:
            return Invoked(Result(call.id, str(error), "failed", self.name), error=error)
        if self.effect is not None or "turn" in self._given.values():
            if turn is None:
                raise BadArgument(f"tool {self.name} needs a turn: begin one, and give it to invoke")
            found.update({name: turn for name, what in self._given.items() if what == "turn"})
        if self.effect is not None and turn is not None:
            return self._act(self.effect, call, turn, found, began)
        try:
            value = self._call(found, began)
        except Exception as error:  # noqa: BLE001 - whatever a tool raises, the model is told
            return Invoked(self._failed(call, error), error=error)
        return Invoked(self._told(call, value), value)

    def intent_of(self, call: Call) -> str:
        """What the ledger knows the effect of ``call`` by. Raises ``BadCall``, and what the key's function raises."""
        if self.effect is None:
            raise BadArgument(f"tool {self.name} declares no effect")
        return f"{self.effect.kind} {self._key(self.effect, call, self.arguments(call))}"

    def _key(self, acts: Acts, call: Call, shown: Arguments) -> str:
        return acts.key(shown) if acts.key is not None else f"{self.name} {digest_of(call)[:32]}"

    def _call(self, found: dict[str, Any], began: Callable[[], object] | None) -> Any:
        first = [found.pop(name) for name in self._positional if name in found]
        if began is None:
            return not_lazy(self.fn(*first, **found))
        began()
        try:
            with EndsForks():  # a process that it forks has no part in the run, nor in its effects
                return not_lazy(self.fn(*first, **found))
        except BaseException as error:
            refuse_elsewhere(error)
            raise

    def _act(
        self, acts: Acts, call: Call, turn: EffectingTurn, found: dict[str, Any], began: Callable[[], object] | None
    ) -> Invoked:
        shown = {name: value for name, value in found.items() if name not in self._given}
        try:
            key = self._key(acts, call, shown)
            payload = canonical(call.arguments) if acts.payload is None else acts.payload(shown)
            effect = turn.effect(
                acts.kind, key=key, payload=payload, adapter=acts.adapter, consequence=acts.consequence
            )
        except Exception as error:  # noqa: BLE001 - nothing was done yet, and the model is told
            return Invoked(self._failed(call, error), error=error)
        found.update({name: effect for name, what in self._given.items() if what == "effect"})
        entered = False
        result: Result | None = None
        try:
            with effect:
                entered = True
                value = self._call(found, began)
                result = self._told(call, value)
                if effect.disposition == "pending" and result.status == "completed":
                    effect.complete(result.text if acts.receipt is None else acts.receipt(value))
        except EffectCompleted as error:
            if entered:
                return Invoked(self._left(call, error, effect, result), error=error)
            text = f"it was done before, and is not done again; its receipt: {_short(error.receipt or '')}"
            return Invoked(Result(call.id, text, "completed", self.name), error=error)
        except LedgerRefused as error:
            if entered:
                return Invoked(self._left(call, error, effect, result), error=error)
            status: ResultStatus = "unknown" if error.code == "unresolved" else "denied"
            return Invoked(Result(call.id, f"not done: {error}", status, self.name), error=error)
        except Exception as error:  # noqa: BLE001 - the same as without an effect
            return Invoked(self._left(call, error, effect, result), error=error)
        return Invoked(result, value)

    # -- what the model is told -------------------------------------------------------------------------------------

    def _told(self, call: Call, value: Any) -> Result:
        if isinstance(value, Result):
            return Result(call.id, value.content, value.status, self.name)
        return Result(call.id, parts_of(value), "completed", self.name)

    def _failed(self, call: Call, error: Exception) -> Result:
        return Result(call.id, described(error), "failed", self.name)

    def _left(self, call: Call, error: Exception, effect: TurnEffect, given: Result | None) -> Result:
        """Something raised within the effect: what is known is what the effect's row says (T3)."""
        if given is not None and effect.disposition != "completed":
            text = f"it came back ({_short(given.text)}), and that could not be recorded: {described(error)}"
            return Result(call.id, text, "unknown", self.name)
        if effect.disposition == "completed":
            return Result(call.id, f"it was done; afterwards it raised {described(error)}", "completed", self.name)
        if effect.disposition in ("rejected", "provider_cancelled"):
            return self._failed(call, error)
        return Result(call.id, f"{described(error)}; whether it was carried out is not known", "unknown", self.name)


def _name_of(given: Any) -> str:
    if not isinstance(given, str) or not _NAME.fullmatch(given):
        raise BadArgument(f"a tool's name is 1 to 64 letters, digits, _ and -, not {given!r}; give another by name=")
    return given


def _function_of(fn: Any) -> Any:
    """What has the hints and the docstring: below wrappers and ``partial``, and the method of a callable object."""
    if isinstance(fn, functools.partial):
        return _function_of(fn.func)
    return inspect.unwrap(fn if inspect.isroutine(fn) else type(fn).__call__)


def _given_by(hint: Any) -> str | None:
    options = [hint, *typing.get_args(hint)]
    names = (f"{getattr(one, '__module__', '')}.{getattr(one, '__qualname__', '')}" for one in options)
    return next((_GIVEN[name] for name in names if name in _GIVEN), None)


def _short(text: str, most: int = 200) -> str:
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"


@overload
def tool(fn: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    schema: Mapping[str, Any] | None = None,
    effect: Acts | str | None = None,
    parallel: bool = True,
    approval: bool | Callable[[Arguments], bool] = False,
    timeout: float | str | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(fn: Callable[..., Any] | None = None, /, **options: Any) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """A ``Tool`` of the function below it: ``@tool``, or ``@tool(effect="mail.send")`` with any option of ``Tool``."""
    if fn is not None:
        return Tool(fn, **options)
    return lambda one: Tool(one, **options)
