"""Well-known ports of servers that speak neither HTTP nor TLS, which is all that the proxy forwards."""

from collections.abc import Iterable, Mapping

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
HINT = "run the server inside the sandbox, or put an HTTP interface in front of it; if it is HTTP after all, {}"


def why_not_http(port: int | None) -> str:
    """Return why nothing at this port can be reached, "" unless it is another protocol's."""
    protocol = PROTOCOLS.get(port or 0)
    return f"port {port} is {protocol}, and only HTTP and TLS leave the sandbox" if protocol else ""


def require_http(ports: Iterable[int | None], *, named: bool, how: str) -> None:
    """Raise InvalidValue for a port of another protocol, unless its schemes are `named`; `how` names them."""
    for port in () if named else ports:
        if why := why_not_http(port):
            raise InvalidValue(why, HINT.format(how))
