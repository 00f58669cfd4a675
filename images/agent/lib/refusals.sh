# shellcheck shell=bash
# Count what the firewall refuses, by destination, in sets of nftables that only NET_ADMIN reads. The sets have a fixed size:
# what no longer fits is counted by address, then by protocol. `refusals` prints them. See docs/adr/0038.
# Counting decides nothing about a packet. The table also reserves some source ports for `agent-sandbox verify`.

readonly refusals_table=agent-sandbox
readonly checker_group=60990 # `verify` runs its probe with this group, which the agent cannot have
readonly checker_ports=61000-61999
readonly start_checked_port=1 # of the proxy: the end of the start checks, which are not counted

refusal_rules() {
  local address
  address=$(proxy_address)
  printf '%s\n' "table inet $refusals_table" "delete table inet $refusals_table" "table inet $refusals_table {" \
    'set started { type nf_proto; size 1; flags dynamic; }' \
    'set places { type inet_proto . ipv4_addr . inet_service; size 256; flags dynamic, timeout; timeout 1d; counter; }' \
    'set addresses { type inet_proto . ipv4_addr; size 256; flags dynamic, timeout; timeout 1d; counter; }' \
    'set protocols { type inet_proto; size 256; flags dynamic, timeout; timeout 1d; counter; }' \
    'chain refused {' \
    'ip protocol { tcp, udp } update @places { ip protocol . ip daddr . th dport } return' \
    'update @addresses { ip protocol . ip daddr } return' \
    'update @protocols { ip protocol }' '}' \
    'chain output {' \
    'type filter hook output priority -150; policy accept;' # before the redirect of Docker's resolver
  checker_rules "$address"
  printf '%s\n' "ip daddr $address udp dport $start_checked_port add @started { meta nfproto } return" \
    'meta nfproto != @started return' \
    'ip protocol igmp return' \
    'ip daddr 127.0.0.11 goto refused' \
    'oif lo return'
  proxy_openings | sed "s/\(.*\) \(.*\)/ip daddr $address \1 dport \2 return/"
  beside_openings | sed 's/\(.*\) \(.*\)/ip daddr \1 tcp dport \2 return/'
  printf '%s\n' 'goto refused' '}' '}'
}

# A connection from these ports proves that `verify` made it, unless the agent has that group.
checker_rules() { # argument: the proxy's address
  [[ $(id -g dev 2>/dev/null) != "$checker_group" ]] || return 0
  printf '%s\n' "meta skgid $checker_group return" \
    "ip daddr $1 tcp sport $checker_ports tcp flags & (fin | syn | rst | ack) == syn drop"
}

lead_the_rest_nowhere() {
  python3 -I "$(dirname "${BASH_SOURCE[0]}")/nowhere.py" || say "refused connections to other networks are not counted"
}

count_refusals() {
  refusal_rules | nft --file - || say "what the firewall refuses is not counted: nft could not load the sets"
}

end_start_checks() { # in the agent container; from now on, refusals are counted. The firewall may refuse the datagram itself
  printf x 2>/dev/null >"/dev/udp/$(proxy_address)/$start_checked_port" || true
}
