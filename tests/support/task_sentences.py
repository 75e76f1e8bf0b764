"""What a person reads of a task, written by hand: for each state, and what became of its effects, the whole line.

In each: P stands for "promise no-new-actions", S for "stop requested by alice (enough), promise no-new-actions",
N for "no decision is needed".
"""

from __future__ import annotations

__all__ = ["SENTENCES"]

_TEXT = """
running | nothing | running; P; no effect is on record; N
running | completed | running; P; one effect already happened: mail.send '1'; N
running | rejected | running; P; one effect was refused by the receiver: mail.send '1'; N
running | provider_cancelled | running; P; one effect was cancelled by the provider before taking place: mail.send '1'; N
running | suppressed | running; P; one effect was never sent: mail.send '1'; N
running | admitted | running; P; one effect is admitted and not sent yet: mail.send '1'; N
running | claimed | running; P; one effect is on the way: mail.send '1'; N
running | unknown | running; P; one effect may have happened and is to be looked up: mail.send '1'; a decision is needed (notify): ask its receiver, or close it by name
running | closed | running; P; one effect may have happened, closed as unknown by bob: mail.send '1'; N
running | completed+unknown | running; P; one effect already happened: mail.send '1'; one effect may have happened and is to be looked up: mail.send '2'; a decision is needed (notify): ask its receiver, or close it by name
cancel_requested | nothing | cancellation requested; S; still open: worker 100 (generation 1) has not acknowledged; no effect is on record; N
cancel_requested | completed | cancellation requested; S; still open: worker 100 (generation 1) has not acknowledged; one effect already happened, admitted before the stop: mail.send '1'; N
cancel_requested | rejected | cancellation requested; S; still open: worker 100 (generation 1) has not acknowledged; one effect was refused by the receiver: mail.send '1'; N
cancel_requested | provider_cancelled | cancellation requested; S; still open: worker 100 (generation 1) has not acknowledged; one effect was cancelled by the provider before taking place: mail.send '1'; N
cancel_requested | suppressed | cancellation requested; S; still open: worker 100 (generation 1) has not acknowledged; one effect was never sent: mail.send '1'; N
cancel_requested | admitted | cancellation requested; S; still open: worker 100 (generation 1) has not acknowledged; one effect is admitted and not sent yet: mail.send '1'; N
cancel_requested | claimed | cancellation requested; S; still open: worker 100 (generation 1) has not acknowledged; one effect is on the way, admitted before the stop, and still being checked: mail.send '1'; N
cancel_requested | unknown | cancellation requested; S; still open: worker 100 (generation 1) has not acknowledged; one effect may have happened, admitted before the stop, and is to be looked up: mail.send '1'; a decision is needed (notify): ask its receiver, or close it by name
cancel_requested | closed | cancellation requested; S; still open: worker 100 (generation 1) has not acknowledged; one effect may have happened, admitted before the stop, closed as unknown by bob: mail.send '1'; N
cancel_requested | completed+unknown | cancellation requested; S; still open: worker 100 (generation 1) has not acknowledged; one effect already happened, admitted before the stop: mail.send '1'; one effect may have happened, admitted before the stop, and is to be looked up: mail.send '2'; a decision is needed (notify): ask its receiver, or close it by name
draining | nothing | draining; S; still open: the worker is not known to be through; no effect is on record; N
draining | completed | draining; S; still open: the worker is not known to be through; one effect already happened, admitted before the stop: mail.send '1'; N
draining | rejected | draining; S; still open: the worker is not known to be through; one effect was refused by the receiver: mail.send '1'; N
draining | provider_cancelled | draining; S; still open: the worker is not known to be through; one effect was cancelled by the provider before taking place: mail.send '1'; N
draining | suppressed | draining; S; still open: the worker is not known to be through; one effect was never sent: mail.send '1'; N
draining | admitted | draining; S; still open: the worker is not known to be through; one effect is admitted and not sent yet: mail.send '1'; N
draining | claimed | draining; S; still open: the worker is not known to be through; one effect is on the way, admitted before the stop, and still being checked: mail.send '1'; N
draining | unknown | draining; S; still open: the worker is not known to be through; one effect may have happened, admitted before the stop, and is to be looked up: mail.send '1'; a decision is needed (notify): ask its receiver, or close it by name
draining | closed | draining; S; still open: the worker is not known to be through; one effect may have happened, admitted before the stop, closed as unknown by bob: mail.send '1'; N
draining | completed+unknown | draining; S; still open: the worker is not known to be through; one effect already happened, admitted before the stop: mail.send '1'; one effect may have happened, admitted before the stop, and is to be looked up: mail.send '2'; a decision is needed (notify): ask its receiver, or close it by name
stopped_unresolved | unknown | stopped, effects unresolved; S; one effect may have happened, admitted before the stop, and is to be looked up: mail.send '1'; a decision is needed (notify): ask its receiver, or close it by name
stopped_unresolved | completed+unknown | stopped, effects unresolved; S; one effect already happened, admitted before the stop: mail.send '1'; one effect may have happened, admitted before the stop, and is to be looked up: mail.send '2'; a decision is needed (notify): ask its receiver, or close it by name
cancelled_settled | nothing | cancelled, settled; S; no effect is on record; N
cancelled_settled | completed | cancelled, settled; S; one effect already happened, admitted before the stop: mail.send '1'; N
cancelled_settled | rejected | cancelled, settled; S; one effect was refused by the receiver: mail.send '1'; N
cancelled_settled | provider_cancelled | cancelled, settled; S; one effect was cancelled by the provider before taking place: mail.send '1'; N
cancelled_settled | suppressed | cancelled, settled; S; one effect was never sent: mail.send '1'; N
cancelled_settled | closed | cancelled, settled; S; one effect may have happened, admitted before the stop, closed as unknown by bob: mail.send '1'; N
completed | nothing | completed; P; no effect is on record; N
completed | completed | completed; P; one effect already happened: mail.send '1'; N
completed | rejected | completed; P; one effect was refused by the receiver: mail.send '1'; N
completed | provider_cancelled | completed; P; one effect was cancelled by the provider before taking place: mail.send '1'; N
completed | suppressed | completed; P; one effect was never sent: mail.send '1'; N
completed | unknown | completed, effects unresolved; P; one effect may have happened and is to be looked up: mail.send '1'; a decision is needed (notify): ask its receiver, or close it by name
completed | closed | completed; P; one effect may have happened, closed as unknown by bob: mail.send '1'; N
completed | completed+unknown | completed, effects unresolved; P; one effect already happened: mail.send '1'; one effect may have happened and is to be looked up: mail.send '2'; a decision is needed (notify): ask its receiver, or close it by name
failed | nothing | failed; P; no effect is on record; N
failed | completed | failed; P; one effect already happened: mail.send '1'; N
failed | rejected | failed; P; one effect was refused by the receiver: mail.send '1'; N
failed | provider_cancelled | failed; P; one effect was cancelled by the provider before taking place: mail.send '1'; N
failed | suppressed | failed; P; one effect was never sent: mail.send '1'; N
failed | unknown | failed, effects unresolved; P; one effect may have happened and is to be looked up: mail.send '1'; a decision is needed (notify): ask its receiver, or close it by name
failed | closed | failed; P; one effect may have happened, closed as unknown by bob: mail.send '1'; N
failed | completed+unknown | failed, effects unresolved; P; one effect already happened: mail.send '1'; one effect may have happened and is to be looked up: mail.send '2'; a decision is needed (notify): ask its receiver, or close it by name
"""  # noqa: E501 - one line each, as a person reads it

_SHORT = {
    "P": "promise no-new-actions",
    "S": "stop requested by alice (enough), promise no-new-actions",
    "N": "no decision is needed",
}


def _whole(text: str) -> str:
    return "; ".join(_SHORT.get(part, part) for part in text.split("; "))


#: state on record and effects, to the line
SENTENCES: dict[tuple[str, str], str] = {
    (state.strip(), effects.strip()): _whole(text.strip())
    for state, effects, text in (one.split("|") for one in _TEXT.strip().splitlines())
}
