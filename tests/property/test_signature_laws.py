"""The law of AWS signatures: for any request, the proxy's signature equals that of AWS's own client."""

from urllib.parse import quote

from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from agent_sandbox.policy.match.injection import Credential
from agent_sandbox.proxy.secrets.sigv4 import Keys, Signing
from agent_sandbox.proxy.wire.message import RequestHead

LETTERS = "aZ0-_.~ %+&=;:/@!$'()*,é"
names = st.text(LETTERS.replace("/", ""), min_size=1, max_size=6).filter(lambda name: set(name) - {"."})
paths = st.lists(names, max_size=3).map(lambda segments: "/" + "/".join(quote(one, safe="~") for one in segments))
queries = st.lists(st.tuples(names, st.text(LETTERS, max_size=6)), max_size=3).map(
    lambda pairs: "&".join(f"{quote(name, safe='~')}={quote(value, safe='~')}" for name, value in pairs)
)
values = st.text("a b\t,=", max_size=8).map(str.strip)
tokens = st.sampled_from([None, "a/token="])


requests = st.tuples(paths, queries, st.fixed_dictionaries({"x-amz-meta-a": values, "content-type": values}))


@given(requests, st.binary(max_size=9), tokens, st.sampled_from([("s3", S3SigV4Auth), ("sqs", SigV4Auth)]))
def test_signs_a_request_like_the_aws_client(
    request: tuple[str, str, dict[str, str]], body: bytes, token: str | None, service: tuple[str, type[SigV4Auth]]
) -> None:
    path, query, sent = request
    target = f"{path}?{query}" if query else path
    theirs = AWSRequest("PUT", f"https://a.test{target}", headers=sent, data=body)
    service[1](Credentials("AKIDEXAMPLE", "the-secret-key", token), service[0], "eu-north-1").add_auth(theirs)
    sent |= {name: theirs.headers[name] for name in ("X-Amz-Date", "X-Amz-Content-SHA256") if name in theirs.headers}
    fields = ((b"Host", b"a.test"), *((name.encode(), value.encode()) for name, value in sent.items()))
    ours = Signing(
        keys=Keys(key_id="AKIDEXAMPLE", secret="the-secret-key", token=token),
        credential=Credential(
            header="authorization", secret="aws", kind="sigv4", region="eu-north-1", service=service[0]
        ),
        date=sent["X-Amz-Date"].encode(),
        body_hash=b"",
    ).sign(RequestHead(b"PUT", target.encode(), b"HTTP/1.1", fields), body)
    assert dict(ours.fields)[b"authorization"].decode() == theirs.headers["Authorization"]
