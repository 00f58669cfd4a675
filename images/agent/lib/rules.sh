# shellcheck shell=bash
# The firewall's rules, and how they are loaded: first rules that drop everything, then all others in one step.
# Only the filter table: Docker keeps the redirect of its resolver in nat.

deny_all_rules() {
  printf '%s\n' '*filter' ':INPUT DROP [0:0]' ':FORWARD DROP [0:0]' ':OUTPUT DROP [0:0]' COMMIT
}

ipv4_rules() { # out: only to the proxy and to ports of services; in: only replies; other output is rejected, not dropped
  local address protocol port
  address=$(proxy_address)
  printf '%s\n' '*filter' ':INPUT DROP [0:0]' ':FORWARD DROP [0:0]' ':OUTPUT DROP [0:0]' \
    '-A INPUT -i lo -j ACCEPT' \
    "-A INPUT -s $address/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"
  beside_rules_in
  # Docker's DNS server has a loopback address and forwards queries: reject it before accepting loopback.
  printf '%s\n' '-A OUTPUT -d 127.0.0.11/32 -p tcp -j REJECT --reject-with tcp-reset' \
    '-A OUTPUT -d 127.0.0.11/32 -j REJECT --reject-with icmp-port-unreachable' \
    '-A OUTPUT -o lo -j ACCEPT'
  while read -r protocol port; do
    printf '%s\n' "-A OUTPUT -d $address/32 -p $protocol -m $protocol --dport $port -j ACCEPT"
  done < <(proxy_openings)
  beside_rules_out
  printf '%s\n' '-A OUTPUT -p tcp -j REJECT --reject-with tcp-reset' \
    '-A OUTPUT -j REJECT --reject-with icmp-port-unreachable' COMMIT
}

ipv6_rules() { # nothing but loopback
  printf '%s\n' '*filter' ':INPUT DROP [0:0]' ':FORWARD DROP [0:0]' ':OUTPUT DROP [0:0]' \
    '-A INPUT -i lo -j ACCEPT' \
    '-A OUTPUT -o lo -j ACCEPT' \
    '-A OUTPUT -p tcp -j REJECT --reject-with tcp-reset' \
    '-A OUTPUT -j REJECT --reject-with icmp6-port-unreachable' COMMIT
}

has_ipv6() { # false if the kernel runs without IPv6: then no rules are needed
  [[ -e /proc/net/if_inet6 ]]
}

load_rules() { # arguments: iptables-restore or ip6tables-restore; the rules come on stdin
  "$1" || die "$1 could not load the firewall" "the Docker host's kernel needs netfilter (nf_tables, conntrack, reject), and this container needs NET_ADMIN"
}

deny_everything() {
  deny_all_rules | load_rules iptables-restore
  if has_ipv6; then deny_all_rules | load_rules ip6tables-restore; fi
}

open_the_way_to_the_proxy() {
  ipv4_rules | load_rules iptables-restore
  if has_ipv6; then ipv6_rules | load_rules ip6tables-restore; fi
}

notice_soon_that_the_proxy_is_gone() { # by default, connections fail only after three seconds
  python3 -I "$(dirname "${BASH_SOURCE[0]}")/impatience.py" || say "if the proxy is gone, requests fail after three seconds, not two"
}

check_policies() { # reads the rules back from the kernel
  check_policy iptables
  if has_ipv6; then check_policy ip6tables; fi
}

check_policy() { # arguments: iptables or ip6tables
  local chain held
  held=$("$1" -S)
  for chain in INPUT FORWARD OUTPUT; do
    [[ $held == *"-P $chain DROP"* ]] || die "$1 does not drop by default in $chain" "another program changed the firewall: agent-sandbox down, then agent-sandbox up"
  done
}
