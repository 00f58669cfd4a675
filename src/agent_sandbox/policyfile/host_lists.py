"""Load the host list that `domains_file` names."""

from pathlib import Path

from agent_sandbox.policy.match.host_list import ListedHosts, parse_host_list
from agent_sandbox.policyfile.text.decoding import decode_policy
from agent_sandbox.policyfile.text.reading import MIB, Read, read_policy
from agent_sandbox.problems import Problem, UserError

MAX_BYTES = 64 * MIB


def load_host_list(path: Path, *, read: Read = read_policy) -> ListedHosts:
    """Return the hosts of a file, or raise UserError with every invalid line."""
    text = decode_policy(read(path, limit=MAX_BYTES), file=str(path))
    listed, invalid = parse_host_list(text, name=path.name)
    if invalid:
        raise UserError(Problem(where=f"{path}:{one.line}", what=one.what, hint=one.hint) for one in invalid)
    return listed
