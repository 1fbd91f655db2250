"""Certificates for a test control plane: one authority, one server certificate, one service account key."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


class Authority:
    """A certificate authority whose files live in `folder`; `ca_file` is what clients trust."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("test authority")
        usage = _usage(signs_certificates=True)
        builder = _builder(self._name, self._name, self._key.public_key(), self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        certificate = builder.add_extension(usage, critical=True).sign(self._key, hashes.SHA256())
        self.ca_file = folder / "ca.crt"
        self.ca_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def issue(
        self, name: str, *, groups: tuple[str, ...] = (), client: bool = False, hosts: tuple[str, ...] = ()
    ) -> tuple[Path, Path]:
        """The files of a certificate and its key: for a client (user name, groups), or for a server.

        A server is known on loopback and at `hosts`, names or addresses.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(name, groups), self._name, key.public_key(), self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
        purpose = ExtendedKeyUsageOID.CLIENT_AUTH if client else ExtendedKeyUsageOID.SERVER_AUTH
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        if not client:
            known_as = x509.SubjectAlternativeName([*_LOOPBACK, *(_host(host) for host in hosts)])
            builder = builder.add_extension(known_as, critical=False)
        certificate_file = self._folder / f"{name}.crt"
        certificate = builder.sign(self._key, hashes.SHA256())
        certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return certificate_file, write_key(self._folder / f"{name}.key", key)


_LOOPBACK = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def write_key(path: Path, key: ec.EllipticCurvePrivateKey | None = None) -> Path:
    """Write a private key (a new one by default) as unencrypted PEM."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    path.write_bytes(key.private_bytes(encoding, serialization.PrivateFormat.TraditionalOpenSSL, plain))
    path.chmod(0o600)
    return path


def _name(name: str, groups: tuple[str, ...] = ()) -> x509.Name:
    organisations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organisations, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, issuer_key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=30))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
