"""The sign-ins of agents on a host machine: the files as their clients write them, with tokens of a test."""

import json
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from agent_talks import PROMPT
from fake_model_api import CHATGPT_ACCOUNT

# Every token of a test has it, so one search finds them all.
MARK = "canary7c1e94b0"


@dataclass(frozen=True, slots=True, kw_only=True)
class SignIn:
    """The file of a client's sign-in, its content, and how to make the client talk without a key."""

    folder: str  # the variable that names the directory, or the one with all of the user's
    file: str
    content: Callable[[str, float], Any]
    api: str  # the host that gets the token
    path: str  # what can be asked there without harm
    words: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def write(self, folder: Path, name: str, *, seconds: float = 3600.0) -> str:
        """Sign in; return the access token."""
        content = self.content(name, time.time() + seconds)
        path = folder / self.file
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content))
        path.chmod(0o600)
        return access_of(content)


def access_of(content: Any) -> str:
    """Return the access token in a credential file."""
    inner = content.get("claudeAiOauth") or content.get("tokens") or content
    return str(inner.get("accessToken") or inner["access_token"])


def expired_inside(content: Any) -> Any:
    """Return a sandbox's credential file with placeholders that expired a minute ago."""
    before = time.time() - 60
    if "claudeAiOauth" in content:
        return {**content, "claudeAiOauth": {**content["claudeAiOauth"], "expiresAt": int(before * 1000)}}
    if "expiry_date" in content:
        return {**content, "expiry_date": int(before * 1000)}
    head, claims, ending = content["tokens"]["access_token"].split(".")
    said = json.loads(urlsafe_b64decode(claims + "=="))
    expired = urlsafe_b64encode(json.dumps({**said, "exp": int(before)}).encode()).decode().rstrip("=")
    return {**content, "tokens": {**content["tokens"], "access_token": f"{head}.{expired}.{ending}"}}


def claude(name: str, expires: float) -> Any:
    """Return what Claude Code writes."""
    return {
        "claudeAiOauth": {
            "accessToken": f"sk-ant-oat01-{MARK}-{name}",
            "refreshToken": f"sk-ant-ort01-{MARK}-{name}",
            "expiresAt": int(expires * 1000),
            "scopes": ["user:inference", "user:profile"],
            "subscriptionType": "max",
            "rateLimitTier": "default_claude_max_5x",
        }
    }


def codex(name: str, expires: float) -> Any:
    """Return what Codex writes."""
    account = {"chatgpt_account_id": CHATGPT_ACCOUNT, "chatgpt_plan_type": "plus", "chatgpt_user_id": "user-1"}
    claims = {"exp": int(expires), "https://api.openai.com/auth": account, "email": f"{MARK}@example.com"}
    return {
        "auth_mode": "chatgpt",
        "OPENAI_API_KEY": None,
        "tokens": {
            "id_token": jwt(claims, f"id-{MARK}-{name}"),
            "access_token": jwt(claims, f"at-{MARK}-{name}"),
            "refresh_token": f"rt_{MARK}-{name}",
            "account_id": CHATGPT_ACCOUNT,
        },
        "last_refresh": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def gemini(name: str, expires: float) -> Any:
    """Return what Gemini CLI writes."""
    return {
        "access_token": f"ya29.{MARK}-{name}",
        "refresh_token": f"1//{MARK}-{name}",
        "scope": "https://www.googleapis.com/auth/cloud-platform openid",
        "token_type": "Bearer",
        "id_token": jwt({"email": f"{MARK}@example.com"}, MARK),
        "expiry_date": int(expires * 1000),
    }


def jwt(claims: Any, signature: str) -> str:
    """Return a JWT with this as its signature."""
    parts = [json.dumps(part).encode() for part in ({"alg": "RS256", "typ": "JWT"}, claims)]
    return ".".join((*(urlsafe_b64encode(part).decode().rstrip("=") for part in parts), signature))


SIGN_INS = {
    "claude": SignIn(
        folder="CLAUDE_CONFIG_DIR",
        file=".credentials.json",
        content=claude,
        api="api.anthropic.com",
        path="/v1/models",
        words=("-p", PROMPT),
        variables={"CLAUDE_CODE_MAX_RETRIES": "1"},
    ),
    "codex": SignIn(
        folder="CODEX_HOME",
        file="auth.json",
        content=codex,
        api="chatgpt.com",
        path="/backend-api/codex/models",
        # The stand-in does not read zstd.
        words=(
            *("exec", "--skip-git-repo-check", "--model", "gpt-5.1"),
            *("-c", "features.enable_request_compression=false", PROMPT),
        ),
    ),
    "gemini": SignIn(
        folder="HOME",
        file=".gemini/oauth_creds.json",
        content=gemini,
        api="cloudcode-pa.googleapis.com",
        path="/v1internal:getCodeAssistGlobalUserSetting",
        words=("--model", "gemini-2.5-flash", "-p", PROMPT),
        variables={"GOOGLE_GENAI_USE_GCA": "true"},
    ),
}
