# SPDX-License-Identifier: MIT
# Documents with every key that the schema in the input names: one, and one for each case that "if"
# tells apart by a constant.

def document:
    def each: . // {} | map_values(document);

    if has("const") then .const
    elif .enum then .enum[0]
    elif .type == "array" then [range([.minItems // 1, 1] | max) as $i | .items // {} | document]
    elif .type == "object" or .properties then
        (.properties | each) + if .additionalProperties then {a: .additionalProperties | document} else {} end
    elif .type == "string" then
        (.pattern // "" | capture("\\{(?<n>[0-9]+)\\}") | "0" * (.n | tonumber)) // "a"
    elif .type == "boolean" then true
    else [.minimum // 1, ([.maximum // 1, 1] | min)] | max end;

document as $all
| $all, (.allOf // [] | .[] | select(.if.properties)
         | $all + (.if | document) + (.then // {} | .type = "object" | document))
