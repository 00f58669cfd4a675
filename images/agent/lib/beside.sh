# shellcheck shell=bash
# The services beside the sandbox. AGENT_SANDBOX_BESIDE="ADDRESS:PORT ..." is what this network namespace may connect to, and
# AGENT_SANDBOX_CLIENTS="ADDRESS:PORT ..." which addresses may connect to its ports. Both by TCP only, and both may be empty.

beside_openings() { # one `address port` a line
  _pairs "${AGENT_SANDBOX_BESIDE:-}"
}

clients_openings() { # one `address port` a line
  _pairs "${AGENT_SANDBOX_CLIENTS:-}"
}

_pairs() {
  local pair
  for pair in $1; do
    printf '%s %s\n' "${pair%:*}" "${pair##*:}"
  done
}

check_beside_variables() { # they become firewall rules, so reject anything malformed
  local address port
  while read -r address port; do
    if ! is_ipv4 "$address" || ! is_port "$port"; then
      die "AGENT_SANDBOX_BESIDE or AGENT_SANDBOX_CLIENTS contains '$address:$port', not an entry like 10.128.0.3:5432" \
        "regenerate the compose file: agent-sandbox init --force"
    fi
  done < <(beside_openings && clients_openings)
}

rules_for() { # argument: a rule with %s for address and port; the openings come on stdin
  local address port
  while read -r address port; do
    # shellcheck disable=SC2059 # the rule is the format
    printf -- "$1\n" "$address" "$port"
  done
}

beside_rules_in() { # only replies of the services; a connection that they make is dropped
  beside_openings | rules_for '-A INPUT -s %s/32 -p tcp --sport %s -m conntrack --ctstate ESTABLISHED -j ACCEPT'
}

beside_rules_out() {
  beside_openings | rules_for '-A OUTPUT -d %s/32 -p tcp --dport %s -j ACCEPT'
}

service_rules() { # of a service's own namespace: in, its clients; out, replies to them and the services that it links to
  printf '%s\n' '*filter' ':INPUT DROP [0:0]' ':FORWARD DROP [0:0]' ':OUTPUT DROP [0:0]' '-A INPUT -i lo -j ACCEPT'
  beside_rules_in
  clients_openings | rules_for '-A INPUT -s %s/32 -p tcp --dport %s -j ACCEPT'
  # Docker's DNS server has a loopback address and forwards queries: reject it before accepting loopback.
  printf '%s\n' '-A OUTPUT -d 127.0.0.11/32 -p tcp -j REJECT --reject-with tcp-reset' \
    '-A OUTPUT -d 127.0.0.11/32 -j REJECT --reject-with icmp-port-unreachable' \
    '-A OUTPUT -o lo -j ACCEPT'
  clients_openings | rules_for '-A OUTPUT -d %s/32 -p tcp --sport %s -m conntrack --ctstate ESTABLISHED -j ACCEPT'
  beside_rules_out
  printf '%s\n' '-A OUTPUT -p tcp -j REJECT --reject-with tcp-reset' \
    '-A OUTPUT -j REJECT --reject-with icmp-port-unreachable' COMMIT
}

open_the_ports() {
  service_rules | load_rules iptables-restore
  if has_ipv6; then ipv6_rules | load_rules ip6tables-restore; fi
}

check_closed() {
  local address port
  for address in '203.0.113.131 443' '2001:db8::1 443' '127.0.0.11 53'; do
    read -r address port <<<"$address"
    check_refused "$address" "$port"
  done
}
