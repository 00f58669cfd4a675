"""gh and GraphQL by hand: the token reads the repositories that the policy names, and nothing else."""

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent_sandbox.proxy.secrets.store import put_secret
from certificates import make_authority
from github_api import TOKEN, Api, github_api
from proxy_stand import ProxyProcess, read_answer

API = "api.github.com"
POLICY = """\
version: 1
services:
  - name: github
    repos: [O/app, {name: o/lib, access: read}]
    git: {access: readwrite, auth: {secret: github.token}}
    api: {access: readwrite, auth: {secret: github.token, client_shim: {kind: env}}}
"""


@dataclass
class Stand:
    """The proxy, the API server, and a directory for gh."""

    proxy: ProxyProcess
    server: Api
    folder: Path

    @property
    def placeholder(self) -> str:
        """The value of GH_TOKEN in the sandbox."""
        script = (self.proxy.folder / "state" / "ca" / "placeholders.sh").read_text()
        return str(re.findall(r'^export GH_TOKEN="\$\{GH_TOKEN:-([\w-]+)\}"$', script, re.MULTILINE)[0])

    def gh(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run gh as in the sandbox."""
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "GH_TOKEN": self.placeholder,
            "HTTPS_PROXY": f"http://127.0.0.1:{self.proxy.address[1]}",
            "SSL_CERT_FILE": self.proxy.ready["ca"],
            "GH_PROMPT_DISABLED": "1",
            "GH_NO_UPDATE_NOTIFIER": "1",
        }
        return subprocess.run(
            ("gh", *words), cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=300
        )

    def ask(self, document: str, **variables: object) -> tuple[int, str]:
        """Send one operation and return the status, and the reason if it is denied."""
        body = json.dumps({"query": document, "variables": variables})
        head = (
            f"POST /graphql HTTP/1.1\r\nHost: {API}\r\nConnection: close\r\nAccept: application/json\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            f"Authorization: token {self.placeholder}\r\n\r\n"
        )
        with self.proxy.tls(API) as stream:
            stream.sendall((head + body).encode())
            status, answer = read_answer(stream)
        return status, json.loads(answer).get("reason", "")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    folder = tmp_path_factory.mktemp("gh")
    authority = make_authority(folder, [API])
    (folder / "state" / "secrets").mkdir(parents=True)
    put_secret(folder / "state" / "secrets", "github.token", [API], TOKEN.encode())
    with (
        github_api(folder / "leaf.pem") as server,
        ProxyProcess(folder, POLICY, resolve={(API, 443): server.port}, upstream_ca=authority) as proxy,
    ):
        yield Stand(proxy, server, folder)


@pytest.fixture
def stand(whole: Stand) -> Stand:
    whole.server.seen.clear()
    whole.server.raw.clear()
    return whole


READING = [
    "pr list -R {0}",
    "pr list -R {0} --label bug --state all",
    "pr list -R {0} --json number,title,author,labels,statusCheckRollup,reviews,files,commits,mergedBy",
    "pr view 1 -R {0}",
    "pr view 1 -R {0} --comments",
    "pr diff 1 -R {0}",
    "issue list -R {0}",
    "issue list -R {0} --search 'is:open label:\"good first issue\" crash'",
    "issue view 1 -R {0}",
    "issue view 1 -R {0} --comments",
    "label list -R {0}",
    "release list -R {0}",
    "repo view {0}",
    "repo view {0} --json name,parent,languages,issues,assignableUsers,latestRelease",
    "run list -R {0}",
    "api repos/{0}/pulls",
]


@pytest.mark.parametrize("command", READING if shutil.which("gh") else [])
def test_gh_with_the_placeholder_reads_only_repositories_of_the_policy(stand: Stand, command: str) -> None:
    for repository in ("o/app", "O/LIB"):
        done = stand.gh(*shlex.split(command.format(repository)))
        assert (done.returncode, "HTTP 403" in done.stderr) == (0, False), done.stderr
    assert stand.server.seen
    stand.server.seen.clear()
    done = stand.gh(*shlex.split(command.format("o/other")))
    assert (done.returncode, "403" in done.stderr, stand.server.seen) == (1, True, []), done.stderr


WRITING = [
    "pr create -R {0} -t Title -b Body -H fix -B main",
    "pr comment 1 -R {0} -b hello",
    "pr review 1 -R {0} --approve",
    "pr close 1 -R {0}",
    "issue create -R {0} -t Title -b Body",
    "issue comment 1 -R {0} -b hello",
    "issue close 1 -R {0}",
    "issue edit 1 -R {0} --title Other",
]


@pytest.mark.parametrize("command", WRITING if shutil.which("gh") else [])
def test_gh_writes_only_to_repositories_with_write_access(stand: Stand, command: str) -> None:
    done = stand.gh(*shlex.split(command.format("o/app")))
    assert (done.returncode, "HTTP 403" in done.stderr) == (0, False), done.stderr
    assert any(document.strip().startswith("mutation") for document in stand.server.seen)
    stand.server.seen.clear()
    for repository in ("o/lib", "o/other"):
        done = stand.gh(*shlex.split(command.format(repository)))
        assert (done.returncode, "403" in done.stderr) == (1, True), done.stderr
    assert not any(document.strip().startswith("mutation") for document in stand.server.seen)


REPOSITORY = 'repository(owner: "o", name: "app")'
SEARCH = "search not limited to one named repository"


def test_a_query_can_read_several_repositories_of_the_policy(stand: Stand) -> None:
    two = 'query { viewer { login } a: %s { ...r parent { ...r } } b: repository(owner: "O", name: "LIB") { ...r } }'
    assert stand.ask(f"{two % REPOSITORY} fragment r on Repository {{ id name owner {{ login }} }}")[0] == 200
    variables = {"owner": "o", "repo": "app"}
    named = "query Q($owner: String!, $repo: String!) { repository(owner: $owner, name: $repo) { id } }"
    assert stand.ask(named, **variables)[0] == 200
    assert stand.ask('mutation { addStar(input: {starrableId: "x"}) { clientMutationId } }')[0] == 403
    assert len(stand.server.seen) == 2


@pytest.mark.parametrize(
    ("document", "where"),
    [
        ('{ repository(owner: "o", name: "other") { id } }', "repository o/other"),
        ('{ repository(owner: "o", name: "app-private") { id } }', "repository o/app-private"),
        ('{ repository(owner: "o/app", name: "x") { id } }', "repository o/app/x"),
        ('{ repository(owner: "", name: "o/app") { id } }', "repository ?/o/app"),
        ('{ repository(owner: "o", name: "*") { id } }', "repository o/*"),
        ('{ repository(name: "app") { id } }', "repository ?/app"),
        ("{ repository(owner: $o, name: $n) { id } }", "repository ?/?"),
        ('query($o: String = "x") { repository(owner: $o, name: "app") { id } }', "repository x/app"),
        ('{ repository(owner: "o", name: "app", followRenames: true) { id } }', "repository o/app"),
        ('{ repository(owner: "o", owner: "x", name: "app") { id } }', "repository ?/app"),
        ('{ a: %s { id } b: repository(owner: "x", name: "y") { id } }', "repository x/y"),
        ("{ %s { owner { repositories(first: 9) { nodes { name } } } } }", "query.repository.owner.repositories"),
        ("{ %s { owner { ...on User { issues { totalCount } } } } }", "query.repository.owner.issues"),
        ("{ %s { parent { issues { totalCount } } } }", "query.repository.parent.issues"),
        ("{ %s { parent { ...r } } } fragment r on Repository { issues { id } }", "query.repository.parent.issues"),
        ("{ %s { parent { defaultBranchRef { target { ...on Commit { oid } } } } } }",
         "query.repository.parent.defaultBranchRef.target on Commit"),
        ("{ %s { pullRequest(number: 1) { headRepository { pullRequests { totalCount } } } } }",
         "query.repository.pullRequest.headRepository.pullRequests"),
        ("{ %s { pullRequest(number: 1) { author { ...on User { pullRequests { totalCount } } } } } }",
         "query.repository.pullRequest.author.pullRequests"),
        ("{ %s { issue(number: 1) { author { ...on Node { id } } } } }", "query.repository.issue.author on Node"),
        ("{ %s { issue(number: 1) { timelineItems { totalCount } } } }", "query.repository.issue.timelineItems"),
        ("{ %s { collaborators { totalCount } } }", "query.repository.collaborators"),
        ('{ %s { object(expression: "x") { id } } }', "query.repository.object"),
        ("{ viewer { repositories { totalCount } } }", "query.viewer.repositories"),
        ("{ viewer { email } }", "query.viewer.email"),
        ("{ ...q } fragment q on Query { viewer { email } }", "query on Query"),
        ('{ user(login: "x") { gists { totalCount } } }', "query.user.gists"),
        ("{ %s @include(if: true) { id } }", ""),
        ("{ %s { ...r @include(if: true) } } fragment r on Repository { id }", "an operation with directives"),
        ("{ %s { ...a } } fragment a on Repository { ...a }", "an operation with directives, or nested too deeply"),
        ('{ search(query: "x", type: ISSUE) { issueCount } }', SEARCH),
        ('{ search(query: "repo:o/other x", type: ISSUE) { issueCount } }', SEARCH),
        ('{ search(query: "repo:o/app repo:x/y", type: ISSUE) { issueCount } }', SEARCH),
        ('{ search(query: "repo:o/app org:x", type: ISSUE) { issueCount } }', SEARCH),
        ('{ search(query: "repo:o/app OR is:issue", type: ISSUE) { issueCount } }', SEARCH),
        ('{ search(query: "(repo:o/app) is:issue", type: ISSUE) { issueCount } }', SEARCH),
        ('{ search(query: "-repo:o/app is:issue", type: ISSUE) { issueCount } }', SEARCH),
        ('{ search(query: "\\"repo:o/app\\" x", type: ISSUE) { issueCount } }', SEARCH),
        ('{ search(query: "repo:o/app", type: REPOSITORY) { nodes { ...on Repository { id } } } }',
         "query.search.nodes on Repository"),
    ],
)  # fmt: skip
def test_denies_queries_that_leave_the_repositories_and_names_the_field(
    stand: Stand, document: str, where: str
) -> None:
    status, reason = stand.ask(document.replace("%s", REPOSITORY))
    assert (status, stand.server.raw) == (403, []), reason
    assert f"graphql {where}" in reason or not where, reason


COMMENT = "mutation($i: AddCommentInput!) { addComment(input: $i) { clientMutationId } }"
UNKNOWN = "graphql mutation addComment is not"
NAMED = "query($owner: String!, $name: String!) { repository(owner: $owner, name: $name)"
ISSUE = f"{NAMED} {{ issue(number: 1) {{ x: id }} }} }}"


def test_accepts_an_id_only_after_a_response_about_its_repository(stand: Stand) -> None:
    assert UNKNOWN in stand.ask(COMMENT, i={"subjectId": "issue_of_o_app", "body": "x"})[1]
    assert stand.ask(ISSUE, owner="O", name="App")[0] == 200
    assert stand.ask(COMMENT, i={"subjectId": "issue_of_o_app", "body": "x"})[0] == 200
    assert stand.ask('{ node(id: "issue_of_o_app") { ...on Issue { title } } }')[0] == 200
    assert stand.ask(ISSUE, owner="o", name="lib")[0] == 200
    assert stand.ask('{ node(id: "issue_of_o_lib") { ...on Issue { title } } }')[0] == 200
    stand.server.raw.clear()
    # This repository is read-only.
    assert UNKNOWN in stand.ask(COMMENT, i={"subjectId": "issue_of_o_lib", "body": "x"})[1]
    assert stand.server.raw == []


@pytest.mark.parametrize(
    ("selected", "learned"),
    [
        ("parent { id }", "parent_of_o_app"),
        ("owner { id }", "owner_of_o_app"),
        ("pullRequest(number: 2) { headRepository { id } }", "headrepository_of_o_app"),
        ("issue(number: 3) { id: title }", ""),
        ("issueOrPullRequest(number: 3) { ...on Issue { id } ...on PullRequest { id: headRefName } }", "fix"),
        ('label(name: "x") { id }', "label_of_o_app"),
    ],
)
def test_does_not_learn_ids_of_other_objects_or_aliased_fields(stand: Stand, selected: str, learned: str) -> None:
    assert stand.ask(f"{{ {REPOSITORY} {{ {selected} }} }}")[0] == 200
    assert UNKNOWN in stand.ask(COMMENT, i={"subjectId": learned, "body": "x"})[1]


@pytest.mark.parametrize(
    "given",
    [
        {"subjectId": "issue_of_o_other", "body": "x"},
        {"subjectId": 1, "body": "x"},
        {"subjectId": ["pullRequest_of_o_app"], "body": "x"},
        {"subjectId": {"a": "pullRequest_of_o_app"}},
        {"subjectId": "pullRequest_of_o_app", "projectId": "x"},
        {},
        "pullRequest_of_o_app",
    ],
)
def test_denies_mutations_with_unknown_or_malformed_ids(stand: Stand, given: object) -> None:
    assert stand.ask(f"{{ {REPOSITORY} {{ pullRequest(number: 1) {{ id }} }} }}")[0] == 200
    stand.server.raw.clear()
    status, reason = stand.ask(COMMENT, i=given)
    assert (status, UNKNOWN in reason, stand.server.raw) == (403, True, []), reason


def test_denies_queries_by_an_unknown_id(stand: Stand) -> None:
    status, reason = stand.ask('{ node(id: "PR_1") { id } }')
    assert (status, "graphql node with an unknown id" in reason, stand.server.raw) == (403, True, [])
