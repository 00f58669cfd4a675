"""The engines of the tools around a policy. Pure: text and values in, text and values out; `cli/policy/` asks them."""
