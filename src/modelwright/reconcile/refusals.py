"""What is said of a resource when what it needs was refused, or could not be begun."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from modelwright.api.model_version import ModelVersionStatus
from modelwright.api.training_model import TrainingModelStatus
from modelwright.ports.errors import ModelwrightError
from modelwright.reconcile import conditions


def refused(resource: Any, planned: Any, error: ModelwrightError, now: datetime) -> Any:
    """The planned status, except that it is not on its way: Stalled, or trying again where the error may mend itself.

    What the planned status says of anything else (a url, replicas) was seen, and stays.
    """
    say = conditions.reconciling if error.retryable else conditions.stalled
    wanted = say(error.reason, error.message)
    types = {condition.type for condition in wanted}
    others = tuple(condition for condition in planned.conditions if condition.type not in types)
    message = error.message[: conditions.MESSAGE_LIMIT]
    if isinstance(planned, ModelVersionStatus):
        planned = msgspec.structs.replace(planned, image_build_phase=None, message=message, progress=None)
    elif isinstance(planned, TrainingModelStatus):
        planned = msgspec.structs.replace(planned, message=message)
    generation = resource.metadata.generation
    settled = conditions.settle((*wanted, *others), resource.status.conditions, generation, now)
    return msgspec.structs.replace(planned, observed_generation=generation, conditions=settled)
