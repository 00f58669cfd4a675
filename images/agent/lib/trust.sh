# shellcheck shell=bash
# The trust store: what the image trusts and the proxy's CA, in the volume that every container of the agent has at /etc/ssl/certs.

trust_store=${AGENT_SANDBOX_TRUST:-/etc/ssl/certs}
proxy_ca=${AGENT_SANDBOX_CA:-/usr/local/share/agent-sandbox/ca/ca.crt}

system_certificates() { # the files that update-ca-certificates would take
  sed -n 's|^[^#!]|/usr/share/ca-certificates/&|p' /etc/ca-certificates.conf
  find -L /usr/local/share/ca-certificates -type f -name '*.crt'
}

is_trusted() { # the certificate that the proxy has now is the one that the trust store was made with
  [[ $(<"$proxy_ca") == "$(<"$trust_store/agent-sandbox.crt")" ]]
}

check_ca() {
  openssl x509 -in "$proxy_ca" -noout -checkend 0 >/dev/null 2>&1 ||
    die "the proxy's certificate $proxy_ca is missing, unreadable or expired" "see: docker compose logs proxy"
}

replace() { # arguments: file; its new content comes on stdin and is there at once or not at all
  cat >"$1.new"
  chmod 0644 "$1.new"
  mv -f -- "$1.new" "$1"
}

write_bundle() {
  local certificates
  mapfile -t certificates < <(system_certificates)
  # awk, not cat: it ends the last line of a file that came without a line feed
  awk 1 "${certificates[@]}" "$proxy_ca" | replace "$trust_store/ca-certificates.crt"
}

link_by_hash() { # for OpenSSL, which looks certificates up by name in SSL_CERT_DIR
  replace "$trust_store/agent-sandbox.crt" <"$proxy_ca"
  ln -sfn agent-sandbox.crt "$trust_store/$(openssl x509 -in "$proxy_ca" -noout -hash).0"
}

write_java_store() { # as the JDK's own is: neither encrypted nor sealed, so that it opens with a password and without
  openssl pkcs12 -export -nokeys -jdktrust anyExtendedKeyUsage -certpbe NONE -nomac -passout pass: \
    -in "$trust_store/ca-certificates.crt" | replace "$trust_store/agent-sandbox.p12"
  # Where Debian's JDKs look that were not told of it: in a program whose environment was emptied.
  mkdir -p "$trust_store/java"
  ln -sfn ../agent-sandbox.p12 "$trust_store/java/cacerts"
}

write_trust_store() {
  check_ca
  write_bundle
  link_by_hash
  write_java_store
}
