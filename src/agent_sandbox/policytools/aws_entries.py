"""Write the policy entries for APIs of AWS: the host of each, and the region and service of its signatures."""

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from agent_sandbox.policy.text import safe_repr

API = re.compile(r"[a-z][a-z0-9-]{1,40}", re.ASCII)
BUCKET = re.compile(r"s3/(?P<name>[a-z0-9][a-z0-9-]{1,61}[a-z0-9])", re.ASCII)
REGION = re.compile(r"[a-z]{2,3}(?:-[a-z]+)+-\d", re.ASCII)
HOME = "us-east-1"
# APIs whose hosts begin with another name than `aws` calls them by, or are signed for another one.
HOSTS = {
    "cloudwatch": "monitoring",
    "ecr": "api.ecr",
    "efs": "elasticfilesystem",
    "elbv2": "elasticloadbalancing",
    "emr": "elasticmapreduce",
    "opensearch": "es",
    "sagemaker": "api.sagemaker",
    "ses": "email",
    "sesv2": "email",
    "stepfunctions": "states",
}
SIGNED_FOR = {"api.ecr": "ecr", "api.sagemaker": "sagemaker", "email": "ses"}
SIGNED_ALIKE = {"bedrock-": "bedrock"}
# APIs that have one host for all regions.
GLOBAL = {
    "budgets": "budgets.amazonaws.com",
    "ce": "ce.us-east-1.amazonaws.com",
    "cloudfront": "cloudfront.amazonaws.com",
    "organizations": "organizations.us-east-1.amazonaws.com",
    "route53": "route53.amazonaws.com",
}
# What they answer are credentials, which would be in the sandbox.
ISSUERS = frozenset({"cognito-identity", "iam", "rolesanywhere", "signin", "sso", "sso-oidc", "sts"})


class NoEntryError(ValueError):
    """Why there is no entry for an API; `hint` says how to fix it."""

    def __init__(self, why: str, hint: str) -> None:
        super().__init__(why)
        self.hint = hint


class Api(Struct, frozen=True, kw_only=True):
    """A host, with the region and the service of its signatures."""

    host: str
    region: str
    service: str

    def entry(self, secret: str) -> dict[str, Any]:
        """Return the policy entry that has the proxy sign requests to the host."""
        credential = {
            "secret": secret,
            "transform": {"type": "sigv4", "region": self.region, "service": self.service},
            "client_shim": {"kind": "env", "name": "AWS_ACCESS_KEY_ID", "prefix": "AKIA"},
        }
        return {
            "host": self.host,
            "ports": [443],
            "transform": {"request": {"headers": {"Authorization": credential}}},
        }


def apis(names: Sequence[str], region: str) -> tuple[Api, ...]:
    """Return the hosts of these APIs in a region, or raise NoEntryError.

    >>> [one.host for one in apis(["dynamodb", "s3/my-bucket"], "eu-central-1")]
    ['dynamodb.eu-central-1.amazonaws.com', 'my-bucket.s3.eu-central-1.amazonaws.com']
    """
    if not REGION.fullmatch(region):
        raise NoEntryError(f"not an AWS region: {safe_repr(region)}", "write it like `eu-central-1`")
    return tuple(dict.fromkeys(one for name in names for one in _hosts(name, region)))


def _hosts(name: str, region: str) -> tuple[Api, ...]:
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    if bucket := BUCKET.fullmatch(name):
        # Clients use the second one only in the oldest region.
        hosts = [
            f"{bucket['name']}.s3.{region}.{suffix}",
            *([f"{bucket['name']}.s3.{suffix}"] if region == HOME else []),
        ]
        return tuple(Api(host=host, region=region, service="s3") for host in hosts)
    if name == "s3" or name.startswith("s3/"):
        hint = "name the bucket: s3/BUCKET; for one with a dot or a capital letter in its name, write the entry by hand"
        raise NoEntryError("requests to all buckets would go to one host", hint)
    if name in ISSUERS:
        raise NoEntryError(
            f"{name} gives out credentials, which the agent would see",
            "get them on your machine, and make them the source of a secret",
        )
    if not API.fullmatch(name):
        raise NoEntryError(f"not an API name: {safe_repr(name)}", "write it as `aws` does, such as `dynamodb`")
    if host := GLOBAL.get(name):
        return (Api(host=host, region=HOME, service=name),)
    first = HOSTS.get(name, name)
    alike = next((service for begin, service in SIGNED_ALIKE.items() if name.startswith(begin)), first)
    return (Api(host=f"{first}.{region}.{suffix}", region=region, service=SIGNED_FOR.get(first, alike)),)
