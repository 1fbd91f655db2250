"""Rules that several kinds share: names, paths, images, labels, downloads, storage.

In every optional string '' counts as absent.
"""

from __future__ import annotations

import msgspec

from modelwright.api.kind import Rule

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN = f"^{_LABEL}([.]{_LABEL})*$"
PLAIN_NAME = "^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"

_HOST = rf"({_LABEL}([.]{_LABEL})*|\\[[0-9a-f:]+\\])(:[0-9]+)?"
_COMPONENT = "[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*"
REPOSITORY = f"^({_HOST}/)?{_COMPONENT}(/{_COMPONENT})*$"
TAG = "^[A-Za-z0-9_][-A-Za-z0-9_.]{0,127}$"
IMAGE = f"^({_HOST}/)?{_COMPONENT}(/{_COMPONENT})*(:[A-Za-z0-9_][-A-Za-z0-9_.]*)?(@sha256:[0-9a-f]+)?$"

_KEY = "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
_VALUE = "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"

_NAME_GRAMMAR = "lower-case letters, digits, '-' and '.', first and last a letter or digit"


def pattern(at: str, regex: str, message: str, *, optional: bool = True) -> Rule:
    """A string that matches `regex`; an optional one may also be empty."""
    empty = "self == '' || " if optional else ""
    return Rule(at=at, rule=f"{empty}self.matches('{regex}')", message=message, id=at)


def name(at: str, of: str, *, optional: bool = True) -> Rule:
    """The name of another object in the same namespace, or of a node."""
    return pattern(at, SUBDOMAIN, f"must be the name of {of}: {_NAME_GRAMMAR}", optional=optional)


def repository(at: str) -> Rule:
    """An image repository without tag."""
    message = (
        "must be [HOST[:PORT]/]PATH in lower case, such as modelhub/resnet or registry.example.com/modelhub/resnet;"
        " the tag goes into imageTag"
    )
    return pattern(at, REPOSITORY, message, optional=False)


def tag(at: str) -> Rule:
    """An image tag."""
    return pattern(at, TAG, "must be a tag: up to 128 letters, digits, '_', '.' and '-', not first '.' or '-'")


def image(at: str) -> Rule:
    """An image, by tag or digest."""
    return pattern(at, IMAGE, "must be an image: [HOST[:PORT]/]PATH[:TAG][@sha256:DIGEST], host and path in lower case")


def sha256sum(at: str) -> Rule:
    """What sha256sum prints."""
    return pattern(at, "^[0-9a-f]{64}$", "must be 64 lower-case hexadecimal digits, as sha256sum prints them")


def download(at: str) -> tuple[Rule, Rule]:
    """A URL that we download: of a scheme that we speak, and without a password that everybody can read."""
    schemes = r"^(https?://[^\\x00-\\x20\\x7f/?#]+|file:///)[^\\x00-\\x20\\x7f]*$"
    return (
        pattern(at, schemes, "must be a http://, https:// or file:/// URL without spaces", optional=False),
        Rule(
            at=at,
            rule="!self.matches('^[a-z]+://[^/?#]*@')",
            message="must not carry a user or password, which everybody could read: put them into a Secret",
            id=f"{at}.no-password",
        ),
    )


def absolute_path(at: str, *, optional: bool = False) -> Rule:
    """An absolute path that means what it says."""
    clean = r"!self.matches('(^|/)[.]{1,2}(/|$)|//|[\\x00-\\x1f\\x7f]')"
    rule = f"self.startsWith('/') && {clean}"
    message = "must be an absolute path without '.', '..', '//' or control characters"
    return Rule(at=at, rule=f"self == '' || ({rule})" if optional else rule, message=message, id=at)


def relative_path(at: str) -> Rule:
    """A path inside something else, that stays there."""
    rule = r"!self.startsWith('/') && !self.matches('(^|/)[.]{1,2}(/|$)|//|[\\x00-\\x1f\\x7f]')"
    message = "must be a relative path without '.', '..', '//' or control characters"
    return Rule(at=at, rule=rule, message=message, id=at)


def node_labels(at: str) -> Rule:
    """Labels, as a node selector has them."""
    rule = f"self.all(key, size(key) <= 317 && key.matches('{_KEY}') && self[key].matches('{_VALUE}'))"
    return Rule(at=at, rule=rule, message="must hold labels such as kubernetes.io/hostname: node-1", id=at)


def label_keys(at: str) -> Rule:
    """Keys of annotations."""
    rule = f"self.all(key, size(key) <= 317 && key.matches('{_KEY}'))"
    return Rule(at=at, rule=rule, message="must have keys such as example.com/purpose", id=at)


def given(*fields: str) -> str:
    """CEL: how many of these fields of `self` are given."""
    return " + ".join(f"(has(self.{field}) ? 1 : 0)" for field in fields)


def text(field: str) -> str:
    """CEL: whether this string field of `self` is given and not empty."""
    return f"(has(self.{field}) && self.{field} != '')"


def volume_handle(at: str) -> Rule:
    """What the CSI driver of AWS EFS takes: a file system, a folder in it, an access point to it."""
    folder = r"/[^:\\x00-\\x1f\\x7f]*"
    handle = f"^fs-[0-9a-f]{{8,40}}(:{folder}|:({folder})?:fsap-[0-9a-f]{{8,40}})?$"
    clean = "!self.matches('/[.]{1,2}(/|:|$)|//')"
    return Rule(
        at=at,
        rule=f"self.matches('{handle}') && {clean}",
        message="must be FILESYSTEM, FILESYSTEM:/SUBPATH, FILESYSTEM::ACCESSPOINT or FILESYSTEM:/SUBPATH:ACCESSPOINT, "
        "such as fs-e8a95a42:/my/subpath:fsap-19f752f0068c22464, and SUBPATH without '.', '..' and '//'",
        id=at,
    )


def storage(at: str) -> tuple[Rule, ...]:
    """Exactly one place, spelled well."""
    one = Rule(
        at=at,
        rule=f"{given('localStorage', 'nfs', 'AWSEfs', 'persistentVolumeClaim')} == 1",
        message="must have exactly one of localStorage, nfs, AWSEfs and persistentVolumeClaim",
        id=at,
    )
    address = "^([A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?|[0-9A-Fa-f:]+)$"
    return (
        one,
        absolute_path(f"{at}.localStorage.path"),
        name(f"{at}.localStorage.nodeName", "a node"),
        absolute_path(f"{at}.localStorage.mountPath"),
        pattern(f"{at}.nfs.server", address, "must be a host name or an IP address", optional=False),
        absolute_path(f"{at}.nfs.path"),
        absolute_path(f"{at}.nfs.mountPath"),
        volume_handle(f"{at}.AWSEfs.volumeHandle"),
        name(f"{at}.persistentVolumeClaim.claimName", "a PersistentVolumeClaim", optional=False),
        relative_path(f"{at}.persistentVolumeClaim.subPath"),
    )


def moved(rules: tuple[Rule, ...], start: str, to: str) -> tuple[Rule, ...]:
    """The same rules for the same struct elsewhere: `start` at the head of their paths becomes `to`."""
    return tuple(
        msgspec.structs.replace(rule, at=to + rule.at.removeprefix(start), id=to + rule.id.removeprefix(start))
        for rule in rules
    )
