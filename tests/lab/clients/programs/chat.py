"""Says three words over a WebSocket, each when the one before came back."""

import sys

from websockets.sync.client import connect

with connect(sys.argv[1]) as chat:
    for word in ("hello", "from", "a chat"):
        chat.send(word)
        print(chat.recv())
