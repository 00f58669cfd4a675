"""Well-known ports of servers that speak neither HTTP nor TLS, which is all that the proxy forwards."""

from collections.abc import Collection, Iterable, Mapping

from agent_sandbox.policy.errors import InvalidValue

PROTOCOLS: Mapping[int, str] = {
    21: "FTP",
    22: "SSH",
    23: "Telnet",
    25: "SMTP",
    53: "DNS",
    110: "POP3",
    111: "RPC",
    139: "SMB",
    143: "IMAP",
    389: "LDAP",
    445: "SMB",
    587: "SMTP",
    1433: "SQL Server",
    1521: "Oracle Database",
    1883: "MQTT",
    2049: "NFS",
    3306: "MySQL",
    3389: "RDP",
    5432: "PostgreSQL",
    5672: "AMQP",
    5900: "VNC",
    6379: "Redis",
    9042: "Cassandra",
    9092: "Kafka",
    11211: "memcached",
    27017: "MongoDB",
}
HINT = (
    "run the server inside the sandbox, or put an HTTP interface in front of it;"
    " if it is HTTP after all, write `schemes: [http]` beside `to`"
)


def require_http(ports: Iterable[int | None], schemes: Collection[str]) -> None:
    """Raise InvalidValue for a port of another protocol, unless the policy names the schemes spoken there."""
    for port in () if schemes else ports:
        if protocol := PROTOCOLS.get(port or 0):
            raise InvalidValue(f"port {port} is {protocol}, and only HTTP and TLS leave the sandbox", HINT)
