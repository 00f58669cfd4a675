"""The environment of the agent container: where the proxy is, which CA to trust, and which folders are kept.

Each language and tool has its own variable for this. They are in the container's environment, not in shell startup
files, so that programs that the engine starts, the editor's server and its tasks have them too.
"""

from collections.abc import Mapping, Sequence

PROXY_PORT = 8080
# For clients that ignore proxy variables: names resolve to the proxy, and they use TLS or plain HTTP.
TLS_PORT, HTTP_PORT, DNS_PORT = 443, 80, 53
OPENINGS = (f"tcp/{PROXY_PORT}", f"tcp/{TLS_PORT}", f"tcp/{HTTP_PORT}", f"tcp/{DNS_PORT}", f"udp/{DNS_PORT}")
CA_DIRECTORY = "/usr/local/share/agent-sandbox/ca"
CA_FILE = f"{CA_DIRECTORY}/ca.crt"
TRUST_DIRECTORY = "/etc/ssl/certs"
TRUST_FILE = f"{TRUST_DIRECTORY}/ca-certificates.crt"
JAVA_TRUST_STORE = f"{TRUST_DIRECTORY}/agent-sandbox.p12"
JAVA_TRUST_PASSWORD = "changeit"  # noqa: S105 - Java wants one; the store holds public certificates
NOT_PROXIED = ("localhost", "127.0.0.1", "::1")

# Variables with the path of the trust store.
TRUST_FILE_VARIABLES = (
    "SSL_CERT_FILE",  # OpenSSL, Go, Rust (native-certs), Ruby, uv
    "REQUESTS_CA_BUNDLE",  # Python requests
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "PIP_CERT",
    "CARGO_HTTP_CAINFO",
    "DENO_CERT",
    "AWS_CA_BUNDLE",
    "BUNDLE_SSL_CA_CERT",  # Ruby's bundler
    "COMPOSER_CAFILE",  # PHP
    "NIX_SSL_CERT_FILE",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",  # gRPC in C, and so in Python, Ruby, PHP: it has built-in roots
)
PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


def proxy_environment(address: str, beside: Sequence[str] = ()) -> Mapping[str, str]:
    """Return the proxy variables for the proxy at that address; the hosts `beside` are reached without it."""
    url = f"http://{address}:{PROXY_PORT}"
    # gRPC for Go sends the resolved address to the proxy. Here that is the proxy's own, so it must connect directly.
    upper = dict.fromkeys(PROXY_VARIABLES, url) | {"NO_PROXY": ",".join((*NOT_PROXIED, address, *beside))}
    return {
        "AGENT_SANDBOX_PROXY": f"{address}:{PROXY_PORT}",
        **upper,
        **{name.lower(): value for name, value in upper.items()},
        "NODE_USE_ENV_PROXY": "1",  # Node 24 and later: fetch() and http use the variables above
    }


def trust_environment() -> Mapping[str, str]:
    """Return the variables that make each language trust the proxy's CA in addition to the system's."""
    return {
        **dict.fromkeys(TRUST_FILE_VARIABLES, TRUST_FILE),
        "SSL_CERT_DIR": TRUST_DIRECTORY,
        "NODE_EXTRA_CA_CERTS": CA_FILE,
    }


def java_environment(address: str, beside: Sequence[str] = ()) -> Mapping[str, str]:
    """Return the JVM's options; it ignores the proxy variables and OpenSSL's trust store."""
    options = {
        "http.proxyHost": address,
        "http.proxyPort": str(PROXY_PORT),
        "https.proxyHost": address,
        "https.proxyPort": str(PROXY_PORT),
        "http.nonProxyHosts": "|".join(("localhost", "127.*", "[::1]", *beside)),
        "javax.net.ssl.trustStore": JAVA_TRUST_STORE,
        "javax.net.ssl.trustStoreType": "PKCS12",
        "javax.net.ssl.trustStorePassword": JAVA_TRUST_PASSWORD,
    }
    return {"JAVA_TOOL_OPTIONS": " ".join(f"-D{key}={value}" for key, value in options.items())}


def cache_environment(home: str) -> Mapping[str, str]:
    """Return the variables that lead tools to the folders that outlive the container: ~/.cache and ~/.local.

    pip and uv use both by default. Cargo's downloads are linked into ~/.cache when the container starts, because its
    variable would also move its settings.
    """
    return {
        "npm_config_cache": f"{home}/.cache/npm",
        "GOMODCACHE": f"{home}/.cache/go-mod",
        "GOBIN": f"{home}/.local/bin",
        "CARGO_INSTALL_ROOT": f"{home}/.local",
    }
