# SPDX-License-Identifier: MIT
# A JSON Schema of the input's parts: what all documents have, what is written by hand, what the
# field tables tell. They may add to each other and never say the same thing.
# {"$ref": "made_by.json"} stands for $made_by.
# Objects that fit on a line are on a line.

def merged($a; $b; $at):
    if $a == null then $b
    elif $b == null then $a
    elif ($a | type) == "object" and ($b | type) == "object" then
        reduce (("description", "type"), ($a + $b | keys_unsorted[]) | select(. as $k | $a + $b | has($k)))
            as $k ({}; .[$k] = merged($a[$k]; $b[$k]; "\($at)/\($k)"))
    elif ($a | type) == "array" and ($b | type) == "array" then $a + $b
    else error("\($at): said twice: \($a), and \($b)") end;

def inlined:
    if type == "object" then
        if .["$ref"] == "made_by.json" then $made_by[0] else map_values(inlined) end
    elif type == "array" then map(inlined)
    else . end;

def on_a_line:
    if type == "object" then
        "{\(to_entries | map("\(.key | tojson): \(.value | on_a_line)") | join(", "))}"
    elif type == "array" then "[\(map(on_a_line) | join(", "))]"
    else tojson end;

def pretty($indent):
    on_a_line as $line
    | if ($line | length) + ($indent | length) < 100 then $line
      elif type == "object" then
          "{\n\(to_entries | map("\($indent)  \(.key | tojson): \(.value | pretty($indent + "  "))")
                | join(",\n"))\n\($indent)}"
      elif type == "array" then
          "[\n\(map("\($indent)  \(pretty($indent + "  "))") | join(",\n"))\n\($indent)]"
      else $line end;

reduce .[1:][] as $part (.[0]; merged(.; $part; ""))
| {"$schema": "https://json-schema.org/draft/2020-12/schema", title: .properties.schema.const} + .
| inlined | pretty("")
