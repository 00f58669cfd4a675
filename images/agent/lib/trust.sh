# shellcheck shell=bash
# The trust store: the image's CA certificates and the proxy's, in the volume at /etc/ssl/certs.

trust_store=${AGENT_SANDBOX_TRUST:-/etc/ssl/certs}
proxy_ca=${AGENT_SANDBOX_CA:-/usr/local/share/agent-sandbox/ca/ca.crt}

system_certificates() { # the files that update-ca-certificates would take
  sed -n 's|^[^#!]|/usr/share/ca-certificates/&|p' /etc/ca-certificates.conf
  find -L /usr/local/share/ca-certificates -type f -name '*.crt'
}

is_trusted() { # whether the trust store has the proxy's current CA certificate
  [[ $(<"$proxy_ca") == "$(<"$trust_store/agent-sandbox.crt")" ]]
}

check_ca() {
  openssl x509 -in "$proxy_ca" -noout -checkend 0 >/dev/null 2>&1 ||
    die "the proxy's certificate $proxy_ca is missing, unreadable or expired" "see: agent-sandbox logs proxy"
}

replace() { # argument: file; replaces its content with stdin, atomically
  cat >"$1.new"
  chmod 0644 "$1.new"
  mv -f -- "$1.new" "$1"
}

write_bundle() {
  local certificates
  mapfile -t certificates < <(system_certificates)
  # awk, not cat: awk adds a missing newline at the end of a file
  awk 1 "${certificates[@]}" "$proxy_ca" | replace "$trust_store/ca-certificates.crt"
}

link_by_hash() { # for OpenSSL, which looks certificates up by name in SSL_CERT_DIR
  replace "$trust_store/agent-sandbox.crt" <"$proxy_ca"
  ln -sfn agent-sandbox.crt "$trust_store/$(openssl x509 -in "$proxy_ca" -noout -hash).0"
}

write_java_store() { # like the JDK's own: without encryption and MAC, so it opens with or without a password
  openssl pkcs12 -export -nokeys -jdktrust anyExtendedKeyUsage -certpbe NONE -nomac -passout pass: \
    -in "$trust_store/ca-certificates.crt" | replace "$trust_store/agent-sandbox.p12"
  # The default path of Debian's JDKs, for programs that run with an empty environment.
  mkdir -p "$trust_store/java"
  ln -sfn ../agent-sandbox.p12 "$trust_store/java/cacerts"
}

write_trust_store() {
  check_ca
  write_bundle
  link_by_hash
  write_java_store
}
