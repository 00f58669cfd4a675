'use strict'
// Loaded into every Node by NODE_OPTIONS. From 22.21 and 24.5 on, NODE_USE_ENV_PROXY=1 leads fetch() to the proxy; Debian's
// Node 20 does not know that variable. There the first call of fetch() takes the agent for it from Debian's undici.

const [major, minor] = process.versions.node.split('.').map(Number)
const heedsTheVariable = major > 24 || (major === 24 && minor >= 5) || (major === 22 && minor >= 21)

function proxyAgent() {
  const { EnvHttpProxyAgent } = require('/usr/share/nodejs/undici')
  const emitWarning = process.emitWarning
  process.emitWarning = () => {} // it would call itself experimental in every program's output
  try {
    return new EnvHttpProxyAgent()
  } finally {
    process.emitWarning = emitWarning
  }
}

if (!heedsTheVariable && process.env.NODE_USE_ENV_PROXY === '1') {
  const builtIn = globalThis.fetch
  globalThis.fetch = function fetch(...args) {
    globalThis.fetch = builtIn
    require('/usr/share/nodejs/undici').setGlobalDispatcher(proxyAgent())
    return builtIn(...args)
  }
}
