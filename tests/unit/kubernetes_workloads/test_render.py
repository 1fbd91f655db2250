"""What a build Task becomes: tables of objects."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.kubernetes_workloads.support import JSON, OWNER, SETTINGS, a_task

from modelwright.adapters.kubernetes.workloads import render_volume
from modelwright.adapters.kubernetes.workloads.labels import volume_name
from modelwright.adapters.kubernetes.workloads.render_job import job
from modelwright.ports.errors import Invalid
from modelwright.ports.job import BuildTask
from modelwright.ports.workloads import (
    BuildImage,
    Claim,
    Efs,
    HostPath,
    Nfs,
    Provenance,
    Resources,
    Storage,
    Task,
)

LOCAL = HostPath("/foo", "edge-0")
NFS = Nfs("nas.example.com", "/models/resnet")
EFS = Efs("fs-e8a95a42:/my/subpath:fsap-19f752f0068c22464", {"encryptInTransit": "true"})
CLAIM = Claim("theirs", "models/resnet")
ALL: tuple[Storage, ...] = (LOCAL, NFS, EFS, CLAIM)
BUILDERS = ("native", "kaniko")

replace = msgspec.structs.replace


def rendered(task: Task, settings: Any = SETTINGS) -> JSON:
    assert isinstance(task.action, BuildImage)
    return job(task, task.action, settings)


def pod_of(task: Task, settings: Any = SETTINGS) -> JSON:
    spec: JSON = rendered(task, settings)["spec"]["template"]["spec"]
    return spec


def containers(task: Task, settings: Any = SETTINGS) -> dict[str, JSON]:
    spec = pod_of(task, settings)
    return {each["name"]: each for each in (*spec.get("initContainers", ()), *spec["containers"])}


def told(container: JSON) -> BuildTask:
    """What the agent reads, after Kubernetes has expanded the value."""
    (value,) = [each["value"] for each in container["env"] if each["name"] == "MODELWRIGHT_TASK"]
    return msgspec.json.decode(value.replace("$$", "$"), type=BuildTask)


# Job and Pod --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("builder", BUILDERS)
@pytest.mark.parametrize("source", ALL)
def test_a_job_runs_one_pod_once_and_names_its_owner(source: Storage, builder: str) -> None:
    made = rendered(a_task(source, builder=builder))
    metadata, spec = made["metadata"], made["spec"]
    assert (made["apiVersion"], made["kind"]) == ("batch/v1", "Job")
    assert (metadata["namespace"], metadata["name"]) == ("vision", "resnet-3-build-1")
    assert metadata["labels"] == {
        "app.kubernetes.io/managed-by": "modelwright",
        "app.kubernetes.io/component": "build",
        "modelwright.dev/owner-uid": "uid-1",
    }
    assert spec["template"]["metadata"]["labels"] == metadata["labels"]
    (owner,) = metadata["ownerReferences"]
    assert owner == {"apiVersion": OWNER.api_version, "kind": OWNER.kind, "name": OWNER.name, "uid": OWNER.uid,
                     "controller": True}  # fmt: skip
    assert (spec["backoffLimit"], spec["podReplacementPolicy"]) == (0, "Failed")
    assert spec["podFailurePolicy"]["rules"][0]["action"] == "Ignore"
    assert "activeDeadlineSeconds" not in spec
    assert spec["template"]["spec"]["restartPolicy"] == "Never"


def test_a_deadline_is_the_jobs() -> None:
    assert rendered(a_task(NFS, deadline_seconds=600))["spec"]["activeDeadlineSeconds"] == 600


@pytest.mark.parametrize("builder", BUILDERS)
def test_no_pod_gets_a_token_or_the_addresses_of_services(builder: str) -> None:
    spec = pod_of(a_task(NFS, builder=builder))
    assert (spec["automountServiceAccountToken"], spec["enableServiceLinks"]) == (False, False)
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert "fsGroup" not in spec["securityContext"]
    assert "imagePullSecrets" not in spec
    with_secrets = pod_of(a_task(NFS, builder=builder), replace(SETTINGS, image_pull_secrets=("hub",)))
    assert with_secrets["imagePullSecrets"] == [{"name": "hub"}]


def test_the_agents_containers_need_no_right() -> None:
    native, kaniko = containers(a_task(NFS)), containers(a_task(NFS, builder="kaniko"))
    for made in (native["build"], kaniko["prepare"], kaniko["finish"]):
        assert made["securityContext"] == {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert made["image"] == "hub.example.com/modelwright:1"
        assert made["terminationMessagePolicy"] == "FallbackToLogsOnError"
        folders = {each["name"]: each["value"] for each in made["env"]}
        assert (folders["HOME"], folders["TMPDIR"]) == ("/tmp", "/tmp")
        assert {"name": "scratch", "mountPath": "/tmp"} in made["volumeMounts"]


def test_user_and_group_are_the_admins_to_say() -> None:
    settings = replace(SETTINGS, run_as_user=1000, run_as_group=2000)
    made = pod_of(a_task(NFS), settings)
    for context in (made["securityContext"], made["containers"][0]["securityContext"]):
        assert (context["runAsUser"], context["runAsGroup"]) == (1000, 2000)


def test_a_tasks_own_resources_come_before_those_of_the_settings() -> None:
    assert containers(a_task(NFS))["build"]["resources"] == {
        "requests": {"cpu": "100m", "memory": "128Mi"},
        "limits": {"memory": "1Gi"},
    }
    own = replace(a_task(NFS), resources=Resources(limits={"cpu": "2"}))
    assert containers(own)["build"]["resources"] == {"limits": {"cpu": "2"}}


def test_a_node_is_told_to_the_scheduler_and_its_taint_is_borne() -> None:
    spec = pod_of(a_task(LOCAL))
    required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (field,) = required["nodeSelectorTerms"][0]["matchFields"]
    assert field == {"key": "metadata.name", "operator": "In", "values": ["edge-0"]}
    assert spec["tolerations"] == [{"operator": "Exists", "effect": "NoSchedule"}]
    assert "nodeName" not in spec
    free = pod_of(a_task(NFS))
    assert not {"affinity", "tolerations", "nodeName"} & free.keys()


# What the agent is told ---------------------------------------------------------------------------------------------


def test_the_native_agent_is_told_its_task() -> None:
    task = a_task(NFS, push_secret="hub-login")
    build = containers(task)["build"]
    assert build["command"] == ["modelwright", "agent", "build"]
    assert isinstance(task.action, BuildImage)
    assert told(build) == BuildTask(
        action=task.action, secret="/var/run/modelwright/push-secret", plain_http=("lab.example.com:5000",)
    )
    assert told(containers(a_task(NFS))["build"]).secret == ""


def test_a_value_that_kubernetes_would_expand_reaches_the_agent_as_it_is() -> None:
    provenance = Provenance(
        namespace="vision", name="n", uid="u", model_name="m", parameters={"a": "$(HOME)", "b": "$$(X) $ $$"}
    )
    action = told(containers(a_task(NFS, provenance=provenance))["build"]).action
    assert action.provenance == provenance


def test_a_task_that_no_variable_holds_is_refused() -> None:
    provenance = Provenance(
        namespace="vision", name="n", uid="u", model_name="m", parameters={f"p{n}": "x" * 1024 for n in range(128)}
    )
    with pytest.raises(Invalid) as error:
        rendered(a_task(NFS, provenance=provenance))
    assert error.value.reason == "TaskTooLarge"


def test_kaniko_runs_between_two_steps_of_the_agent() -> None:
    task = a_task(NFS, builder="kaniko")
    made = containers(task)
    assert list(made) == ["prepare", "kaniko", "finish"]
    assert made["prepare"]["command"] == ["modelwright", "agent", "kaniko-prepare"]
    assert made["finish"]["command"] == ["modelwright", "agent", "kaniko-finish"]
    assert told(made["prepare"]).destination == "hub.example.com/vision/resnet:v1"
    assert made["kaniko"]["image"] == SETTINGS.kaniko_image
    assert made["kaniko"]["args"] == [
        "--context=dir:///workspace/build",
        "--dockerfile=/workspace/shared/Dockerfile",
        "--destination=hub.example.com/vision/resnet:v1",
        "--digest-file=/workspace/shared/digest",
        "--label=modelwright.dev/model-version-uid=uid-1",
        "--insecure-registry=lab.example.com:5000",
    ]


def test_tls_is_verified_whatever_the_settings() -> None:
    for settings in (SETTINGS, replace(SETTINGS, plain_http=())):
        args = containers(a_task(NFS, builder="kaniko", push_secret="s"), settings)["kaniko"]["args"]
        assert not [each for each in args if "skip-tls" in each or each in ("--insecure", "--insecure-pull")]
        assert len([each for each in args if "insecure" in each]) == len(settings.plain_http)


def test_kaniko_finds_login_and_authority_in_the_push_secret() -> None:
    task = a_task(NFS, builder="kaniko", push_secret="hub-login")
    kaniko, volumes = containers(task)["kaniko"], {each["name"]: each for each in pod_of(task)["volumes"]}
    mounts = {each["name"]: each for each in kaniko["volumeMounts"]}
    assert mounts["docker-config"] == {"name": "docker-config", "mountPath": "/kaniko/.docker", "readOnly": True}
    (source,) = volumes["docker-config"]["projected"]["sources"]
    assert source["secret"] == {
        "name": "hub-login",
        "optional": True,
        "items": [{"key": ".dockerconfigjson", "path": "config.json"}],
    }
    variables = {each["name"]: each["value"] for each in kaniko["env"]}
    assert mounts["registry-ca"]["mountPath"] in variables["SSL_CERT_DIR"].split(":")
    (source,) = volumes["registry-ca"]["projected"]["sources"]
    assert (source["secret"]["optional"], source["secret"]["items"][0]["key"]) == (True, "ca.crt")
    bare = containers(a_task(NFS, builder="kaniko"))["kaniko"]
    assert {each["name"] for each in bare["volumeMounts"]} == {"model", "shared"}


# Storage ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("builder", BUILDERS)
@pytest.mark.parametrize("source", ALL)
def test_the_model_is_mounted_read_only_by_whoever_mounts_it(source: Storage, builder: str) -> None:
    task = a_task(source, builder=builder)
    (volume,) = [each for each in pod_of(task)["volumes"] if each["name"] == "model"]
    theirs = isinstance(source, Claim)
    assert volume["persistentVolumeClaim"] == {"claimName": "theirs" if theirs else task.name, "readOnly": True}
    for made in containers(task).values():
        (mount,) = [each for each in made["volumeMounts"] if each["name"] == "model"]
        assert (mount["mountPath"], mount["readOnly"], mount["recursiveReadOnly"]) == (
            "/workspace/build",
            True,
            "IfPossible",
        )
        assert mount.get("subPath") == ("models/resnet" if theirs else None)


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        (
            LOCAL,
            {
                "local": {"path": "/foo"},
                "nodeAffinity": {
                    "required": {
                        "nodeSelectorTerms": [
                            {
                                "matchExpressions": [
                                    {"key": "kubernetes.io/hostname", "operator": "In", "values": ["edge-0.local"]}
                                ]
                            }
                        ]
                    }
                },
                "accessModes": ["ReadOnlyMany"],
            },
        ),
        (
            NFS,
            {
                "nfs": {"server": "nas.example.com", "path": "/models/resnet", "readOnly": True},
                "accessModes": ["ReadOnlyMany"],
            },
        ),
        (
            EFS,
            {
                "csi": {
                    "driver": "efs.csi.aws.com",
                    "volumeHandle": "fs-e8a95a42:/my/subpath:fsap-19f752f0068c22464",
                    "readOnly": True,
                    "volumeAttributes": {"encryptInTransit": "true"},
                },
                "accessModes": ["ReadWriteMany"],
            },
        ),
        (
            Efs("fs-1"),
            {
                "csi": {"driver": "efs.csi.aws.com", "volumeHandle": "fs-1", "readOnly": True},
                "accessModes": ["ReadWriteMany"],
            },
        ),
    ],
)
def test_volume_and_claim_are_for_each_other_and_keep_the_data(source: Storage, wanted: JSON) -> None:
    task = a_task(source)
    volume, claim = render_volume.volume(task, source, "u", "edge-0.local"), render_volume.claim(task, source)
    name = volume_name("vision", task.name)
    assert volume["metadata"]["name"] == name
    assert volume["metadata"]["labels"]["modelwright.dev/owner-uid"] == "uid-1"
    assert volume["metadata"]["labels"]["modelwright.dev/task"] == task.name
    assert not {"namespace", "ownerReferences"} & volume["metadata"].keys()
    assert volume["metadata"]["annotations"]["modelwright.dev/owner-name"] == "resnet-3"
    assert volume["spec"] == {
        "storageClassName": "",
        "capacity": {"storage": "1Gi"},
        "volumeMode": "Filesystem",
        "persistentVolumeReclaimPolicy": "Retain",
        "mountOptions": ["ro"],
        "claimRef": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": "vision",
            "name": task.name,
            "uid": "u",
        },
        **wanted,
    }
    assert claim["metadata"]["ownerReferences"][0]["controller"] is True
    assert claim["spec"] == {
        "storageClassName": "",
        "selector": {"matchLabels": volume["metadata"]["labels"]},
        "accessModes": wanted["accessModes"],
        "volumeMode": "Filesystem",
        "resources": {"requests": {"storage": "1Gi"}},
    }


def test_two_tasks_never_share_a_volume() -> None:
    names = {volume_name(*each) for each in (("a", "b"), ("a", "c"), ("b", "b"), ("a/b", "c"), ("a", "b/c"))}
    assert len(names) == 4  # a namespace has no slash: `a/b` is none
    assert all(len(name) <= 63 for name in names)
