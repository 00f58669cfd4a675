"""Steps of commands about secrets: ask for a value, bind it to hosts, fetch it from its source."""
