# SPDX-License-Identifier: MIT
# The part of JSON Schema 2020-12 that docs/schema uses.

def is_type($t):
    if $t | type == "array" then . as $x | any($t[]; . as $one | $x | is_type($one))
    elif $t == "integer" then type == "number" and . == floor else type == $t end;

# What is wrong with the input, as "/pointer: reason"; nothing if it is valid.
def faults($s; $at):
    . as $v
    | (if $s.type and (is_type($s.type) | not) then "\($at): not of type \($s.type)" else empty end),
      (if ($s | has("const")) and $v != $s.const then "\($at): not \($s.const)" else empty end),
      (if $s.enum and (any($s.enum[]; . == $v) | not) then "\($at): not one of \($s.enum)" else empty end),
      (if type == "number" then
           (if $s.minimum and $v < $s.minimum then "\($at): below \($s.minimum)" else empty end),
           (if $s.maximum and $v > $s.maximum then "\($at): above \($s.maximum)" else empty end)
       elif type == "string" then
           (if $s.pattern and (test($s.pattern) | not) then "\($at): not like \($s.pattern)" else empty end)
       elif type == "array" then
           (if $s.minItems and length < $s.minItems then "\($at): too short" else empty end),
           (if $s.maxItems and length > $s.maxItems then "\($at): too long" else empty end),
           (if $s.items then range(length) as $i | $v[$i] | faults($s.items; "\($at)/\($i)") else empty end)
       elif type == "object" then
           ($s.required // [] | .[] | select(. as $k | $v | has($k) | not) | "\($at): lacks \(.)"),
           ($s.properties // {} | keys[] | select(. as $k | $v | has($k)) as $k
            | $v[$k] | faults($s.properties[$k]; "\($at)/\($k)"))
       else empty end),
      ($s.allOf // [] | .[] as $part | $v | faults($part; $at)),
      (if $s.anyOf and all($s.anyOf[] as $part | $v | [faults($part; $at)]; . != []) then
           "\($at): none of \($s.anyOf)" else empty end),
      (if $s.not and ([faults($s.not; $at)] == []) then "\($at): is \($s.not)" else empty end),
      (if $s.if then faults(if [faults($s.if; $at)] == [] then $s.then // {} else $s.else // {} end; $at) else empty end);

# Keys of the input that the schema does not name: readers pass over them, our tools write none.
def unknown($s; $at):
    if type == "array" then range(length) as $i | .[$i] | unknown($s.items // {}; "\($at)/\($i)")
    elif type == "object" then
        . as $in
        | reduce ($s.allOf // [] | .[].then.properties // {}) as $more ($s.properties // {}; . * $more)
        | . as $known | $in | keys[] as $k
        | if $known[$k] then $in[$k] | unknown($known[$k]; "\($at)/\($k)")
          elif $s.additionalProperties then $in[$k] | unknown($s.additionalProperties; "\($at)/\($k)") else "\($at)/\($k): unknown" end
    else empty end;
