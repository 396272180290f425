"""json-check.py FILE EXPRESSION...: every line of FILE is a JSON object with "message_type", and the expressions hold.

In the expressions, `lines` is the list of all objects and of("type") those of one type."""
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    lines = [json.loads(line) for line in file]
for line in lines:
    if not isinstance(line, dict) or not isinstance(line.get("message_type"), str):
        sys.exit(f"no message_type: {line}")


def of(message_type):
    return [line for line in lines if line["message_type"] == message_type]


for expression in sys.argv[2:]:
    if not eval(expression):
        sys.exit(f"{expression} does not hold for:\n" + "\n".join(map(str, lines)))
