# SPDX-License-Identifier: MIT
# The part of JSON Schema 2020-12 that docs/schema uses. Reads documents, writes what is wrong
# with each as "/pointer: reason"; nothing if it is valid. Needs --slurpfile schema FILE.

def is_type($t):
    if $t == "integer" then type == "number" and . == floor else type == $t end;

def check($s; $at):
    . as $v
    | (if $s.type and (is_type($s.type) | not) then "\($at): not of type \($s.type)" else empty end),
      (if ($s | has("const")) and $v != $s.const then "\($at): not \($s.const)" else empty end),
      (if $s.enum and ([$v] | inside($s.enum) | not) then "\($at): not one of \($s.enum)" else empty end),
      (if type == "number" then
           (if $s.minimum and $v < $s.minimum then "\($at): below \($s.minimum)" else empty end),
           (if $s.maximum and $v > $s.maximum then "\($at): above \($s.maximum)" else empty end)
       elif type == "string" then
           (if $s.pattern and (test($s.pattern) | not) then "\($at): not like \($s.pattern)" else empty end)
       elif type == "array" then
           (if $s.minItems and length < $s.minItems then "\($at): too short" else empty end),
           (if $s.maxItems and length > $s.maxItems then "\($at): too long" else empty end),
           (if $s.items then range(length) as $i | $v[$i] | check($s.items; "\($at)/\($i)") else empty end)
       elif type == "object" then
           ($s.required // [] | .[] | select(. as $k | $v | has($k) | not) | "\($at): lacks \(.)"),
           ($s.properties // {} | keys[] | select(. as $k | $v | has($k)) as $k
            | $v[$k] | check($s.properties[$k]; "\($at)/\($k)"))
       else empty end),
      ($s.allOf // [] | .[] as $part | $v | check($part; $at)),
      (if $s.if and ([check($s.if; $at)] == []) then check($s.then; $at) else empty end);

check($schema[0]; "")
