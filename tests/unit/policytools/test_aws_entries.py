import botocore.session
import pytest

from agent_sandbox.policytools.aws_entries import GLOBAL, HOSTS, ISSUERS, Api, NoEntryError, apis
from table_tests import each

REGION = "eu-central-1"
ALIKE = ("bedrock", "bedrock-runtime", "dynamodb", "lambda", "secretsmanager", "sqs")


@pytest.mark.parametrize("region", [REGION, "cn-north-1", "us-east-1"])
def test_hosts_regions_and_services_match_botocore(region: str) -> None:
    session = botocore.session.Session()
    session.set_credentials("a", "b")
    names = ("sqs",) if region != REGION else (*ALIKE, *HOSTS, *GLOBAL)
    for name in names:
        client = session.create_client(name, region_name=region)
        signer = client._request_signer
        theirs = (client.meta.endpoint_url, signer.region_name, signer.signing_name)
        assert [(f"https://{one.host}", one.region, one.service) for one in apis([name], region)] == [theirs]


@each(
    ("region", "hosts"),
    [
        (REGION, ["b-1.s3.eu-central-1.amazonaws.com"]),
        ("us-east-1", ["b-1.s3.us-east-1.amazonaws.com", "b-1.s3.amazonaws.com"]),
        ("cn-north-1", ["b-1.s3.cn-north-1.amazonaws.com.cn"]),
    ],
)
def test_each_bucket_has_its_own_host(region: str, hosts: list[str]) -> None:
    assert [one.host for one in apis(["s3/b-1", "s3/b-1"], region)] == hosts


def test_an_entry_signs_with_sigv4() -> None:
    (one,) = apis(["sqs"], REGION)
    assert one == Api(host="sqs.eu-central-1.amazonaws.com", region=REGION, service="sqs")
    assert one.entry("aws.key") == {
        "host": "sqs.eu-central-1.amazonaws.com",
        "ports": [443],
        "transform": {
            "request": {
                "headers": {
                    "Authorization": {
                        "secret": "aws.key",
                        "transform": {"type": "sigv4", "region": REGION, "service": "sqs"},
                        "client_shim": {"kind": "env", "name": "AWS_ACCESS_KEY_ID", "prefix": "AKIA"},
                    }
                }
            }
        },
    }


@each(
    ("name", "region", "why"),
    [
        *((name, REGION, f"{name} gives out credentials, which the agent would see") for name in sorted(ISSUERS)),
        ("s3", REGION, "requests to all buckets would go to one host"),
        ("s3/a.b", REGION, "requests to all buckets would go to one host"),
        ("s3/a/b", REGION, "requests to all buckets would go to one host"),
        ("s3/../b", REGION, "requests to all buckets would go to one host"),
        ("a.evil.test/", REGION, "not an API name: 'a.evil.test/'"),
        ("Sqs", REGION, "not an API name: 'Sqs'"),
        ("", REGION, "not an API name: ''"),
        ("sqs", "eu-central-1.evil.test", "not an AWS region: 'eu-central-1.evil.test'"),
        ("sqs", "", "not an AWS region: ''"),
        ("sqs", "EU-CENTRAL-1", "not an AWS region: 'EU-CENTRAL-1'"),
    ],
)
def test_rejects_credential_issuers_and_invalid_names_and_regions(name: str, region: str, why: str) -> None:
    with pytest.raises(NoEntryError) as refused:
        apis([name], region)
    assert str(refused.value) == why
    assert refused.value.hint
