"""Variables of distributed workers, as the frameworks read them."""

from __future__ import annotations

import json
import re

import pytest

from modelwright.reconcile.distributed import variables

TWO = ("train-0.test:2222", "train-1.test:2223")


@pytest.mark.parametrize("framework", ["", "pytorch", "tensorflow", "sklearn", "onnx"])
@pytest.mark.parametrize("local", [True, False])
def test_every_worker_knows_its_rank_and_its_master(framework: str, local: bool) -> None:
    for index in ("0", "1"):
        found = variables(framework, index, TWO, local=local)
        assert (found["RANK"], found["WORLD_SIZE"]) == (index, "2")
        assert (found["MASTER_ADDR"], found["MASTER_PORT"]) == ("train-0.test", "2222")
        assert all(isinstance(value, str) for value in found.values())


def test_tensorflow_gets_its_cluster_with_worker_0_as_chief() -> None:
    config = json.loads(variables("tensorflow", "1", TWO, local=True)["TF_CONFIG"])
    assert config == {"cluster": {"worker": list(TWO)}, "task": {"type": "worker", "index": 1}}


def test_one_tensorflow_worker_is_a_cluster_of_one() -> None:
    config = json.loads(variables("TensorFlow", "0", TWO[:1], local=True)["TF_CONFIG"])
    assert config == {"cluster": {"worker": [TWO[0]]}, "task": {"type": "worker", "index": 0}}


def test_tensorflow_gets_none_of_torchruns_variables() -> None:
    assert "LOCAL_RANK" not in variables("tensorflow", "0", TWO, local=True)


def test_workers_on_one_node_are_one_group() -> None:
    found = variables("pytorch", "1", TWO, local=True)
    assert (found["LOCAL_RANK"], found["LOCAL_WORLD_SIZE"]) == ("1", "2")
    assert (found["GROUP_RANK"], found["GROUP_WORLD_SIZE"]) == ("0", "1")
    assert (found["ROLE_RANK"], found["ROLE_WORLD_SIZE"], found["ROLE_NAME"]) == ("1", "2", "default")


def test_workers_on_nodes_of_their_own_are_groups_of_one() -> None:
    found = variables("pytorch", "1", TWO, local=False)
    assert (found["LOCAL_RANK"], found["LOCAL_WORLD_SIZE"]) == ("0", "1")
    assert (found["GROUP_RANK"], found["GROUP_WORLD_SIZE"]) == ("1", "2")


def test_an_index_that_is_known_later_stands_as_a_reference_that_becomes_a_number() -> None:
    found = variables("tensorflow", "$(JOB_COMPLETION_INDEX)", TWO, local=False)
    assert found["RANK"] == "$(JOB_COMPLETION_INDEX)"
    expanded = re.sub(r"\$\(JOB_COMPLETION_INDEX\)", "1", found["TF_CONFIG"])
    assert json.loads(expanded)["task"]["index"] == 1


@pytest.mark.parametrize("framework", ["tensorflow", "pytorch"])
def test_rank_is_not_set_to_itself(framework: str) -> None:
    assert "RANK" not in variables(framework, "$(RANK)", TWO, local=True)


def test_variables_come_before_those_that_may_use_them() -> None:
    assert next(iter(variables("tensorflow", "0", TWO, local=True))) == "RANK"


def test_the_master_of_an_ipv6_cluster_has_no_brackets() -> None:
    assert variables("", "0", ("[::1]:2222",), local=True)["MASTER_ADDR"] == "::1"


@pytest.mark.parametrize("index", ["", "-1", "2", "one", "$RANK", "$(RANK", '0,"x":1', "0\n", "$(A)$(B)"])
def test_what_is_no_index_is_refused(index: str) -> None:
    with pytest.raises(ValueError, match="neither the index"):
        variables("tensorflow", index, TWO, local=True)


@pytest.mark.parametrize("address", ["host", "host:", ":1", "host:http", "host:٣"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="is not HOST:PORT"):
        variables("", "0", (address,), local=True)
