"""What is said of kinds that are not run here, and that nothing of theirs is touched."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.reconcile.make import (
    CLUSTER,
    HERE,
    NOW,
    built,
    model,
    reason,
    seconds,
    served,
    server,
    state,
    task,
    training,
    version,
)
from tests.unit.reconcile.make_joint import gateway, joint
from tests.unit.reconcile.make_joint import observed as joint_observed

from modelwright.api.inference_model import InferenceModel
from modelwright.api.joint_inference_service import JointModel
from modelwright.api.training_model import TrainingModel, TrainingModelStatus
from modelwright.ports.capabilities import Capabilities
from modelwright.reconcile import inference_model, joint_inference_service, model_version, training_model
from modelwright.reconcile.plan import Plan
from modelwright.reconcile.training_attempts import task_name

BUILDS = msgspec.structs.replace(CLUSTER, default_registry="registry.test", programs=frozenset({"buildImage"}))
NAMES = {"Ready": "False", "Reconciling": "False", "Stalled": "True"}


def serve(subject: InferenceModel, here: Capabilities = BUILDS, *, runs: bool = False) -> Plan:
    seen = server(inference_model.server_name(subject)) if runs else None
    facts = inference_model.Observed(model_version=built(), server=seen, capabilities=here)
    return inference_model.reconcile(subject, facts, NOW)


def train(subject: TrainingModel, *names: str) -> Plan:
    tasks = tuple(task(name, "Running") for name in names)
    facts = training_model.Observed(base=None, result=None, tasks=tasks, capabilities=BUILDS)
    return training_model.reconcile(subject, facts, NOW)


def subset(plan: Plan) -> dict[str, str]:
    return {key: value for key, value in state(plan.status.conditions).items() if key in NAMES}


def test_an_inference_model_says_what_runs_here_instead() -> None:
    plan = serve(served())
    assert plan.workloads == ()
    assert subset(plan) == NAMES
    message = plan.status.conditions[0].message
    assert message.startswith("an InferenceModel is not run by this operator, which runs Model, ModelVersion on this")
    assert "`modelwright up`" in message
    assert reason(plan.status.conditions, "Stalled") == "NotImplemented"


def test_it_is_said_before_anything_else() -> None:
    """Neither the framework, the image, the registry nor a version that is missing is worth a word then."""
    for subject in (served(framework_type="none"), served(image="serving:1"), served(model_version="none")):
        assert reason(serve(subject).status.conditions, "Stalled") == "NotImplemented"
    assert reason(train(training(image="train:1")).status.conditions, "Stalled") == "NotImplemented"


def test_an_image_needs_containers_to_run_among_the_programs() -> None:
    models = msgspec.structs.replace(BUILDS, programs=BUILDS.programs | {"modelServer"})
    told = serve(served(image="serving:1"), models).status.conditions[0]
    assert told.reason == "NotImplemented"
    assert told.message.startswith("an InferenceModel with an image is not run by this operator")
    assert reason(serve(served(image="serving:1"), HERE).status.conditions) == "NeedsContainers"


def test_a_training_says_it_and_what_runs_is_left() -> None:
    subject = training()
    plan = train(subject)
    assert (plan.workloads, plan.create, plan.keep) == ((), (), frozenset())
    assert subset(plan) == NAMES
    assert train(subject, task_name(subject, 1)).keep == {task_name(subject, 1)}


def test_a_training_that_had_ended_stays_what_it_was() -> None:
    done = TrainingModelStatus(phase="Succeeded", model_version="train", attempts=1, observed_generation=1)
    status = train(training(status=done)).status
    assert (status.phase, status.model_version, status.attempts) == ("Succeeded", "train", 1)


def test_a_joint_service_makes_and_deletes_no_model() -> None:
    subject = joint(edge_model=JointModel(spec=served().spec))
    plan = joint_inference_service.reconcile(subject, joint_observed(here=BUILDS, edge=None), NOW)
    assert (plan.workloads, plan.create, plan.update, plan.delete) == ((), (), (), ())
    assert subset(plan) == NAMES
    assert plan.keep == {gateway(subject).name}


def look(subject: Any, *, later: float = 0) -> Plan:
    """Reconcile whatever it is, with nothing to be seen of it."""
    now = NOW + seconds(later)
    match subject:
        case InferenceModel():
            served_facts = inference_model.Observed(model_version=None, server=None, capabilities=BUILDS)
            return inference_model.reconcile(subject, served_facts, now)
        case TrainingModel():
            facts = training_model.Observed(base=None, result=None, tasks=(), capabilities=BUILDS)
            return training_model.reconcile(subject, facts, now)
    return joint_inference_service.reconcile(subject, joint_observed(here=BUILDS, gateway=None), now)


@pytest.mark.parametrize("subject", [served(), training(), joint()], ids=lambda each: each.kind)
def test_nothing_differs_the_second_time(subject: Any) -> None:
    first = look(subject)
    again = look(msgspec.structs.replace(subject, status=first.status), later=60)
    assert again.status == first.status


@pytest.mark.parametrize("subject", [served(), training(), joint()], ids=lambda each: each.kind)
def test_what_is_suspended_or_deleted_is_not_spoken_of(subject: Any) -> None:
    def changed(**changes: Any) -> Any:
        return msgspec.structs.replace(subject, metadata=msgspec.structs.replace(subject.metadata, **changes))

    assert look(changed(annotations={"modelwright.dev/suspend": "true"})) == Plan(untouched=True)
    assert look(changed(deletion_timestamp=NOW)) == Plan()


def test_versions_are_built_where_nothing_else_runs() -> None:
    facts = model_version.Observed(model=model(), tasks=(), capabilities=BUILDS)
    assert len(model_version.reconcile(version(), facts, NOW).workloads) == 1
