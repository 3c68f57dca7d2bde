# SPDX-License-Identifier: MIT
# Edits of documents, one at a time, for every key that $schema[0] names, once for each kind of event:
# the key is taken away, or gets a value of each type, or one beyond a bound; an array gets too long.
# Writes {at, edit, faults, document} each; `faults` is what the schema says against the document.
include "schema";

# The schemas of the parts of the input, as {path, schema}; of an array, only the first entry's.
def parts($s; $path):
    {path: $path, schema: $s},
    (if type == "array" and length > 0 and $s.items then .[0] | parts($s.items; $path + [0])
     elif type == "object" then
         . as $in
         | reduce ($s.allOf // [] | .[] | select(.if as $case | [$in | faults($case; "")] == [])
                  | .then.properties // {}) as $more ($s.properties // {}; . * $more)
         | to_entries[] | select(.key as $k | $in | has($k)) | .key as $k | .value as $part
         | $in[$k] | parts($part; $path + [$k])
     else empty end);

def beyond($s):
    (select($s.minimum) | $s.minimum - 1), (select($s.maximum) | $s.maximum * 2 + 1);

# Edits of the input at $part.path.
def edits($part):
    . as $in | $part.path as $path | $part.schema as $s
    | ({edit: "deleted", document: delpaths([$path])},
       ((null, true, "text", 1.5, -1, [], {}, beyond($s)) as $value
        | {edit: "= \($value)", document: setpath($path; $value)}),
       (getpath($path)[0]? | . as $first
        | select($s.maxItems and ($first | tojson | length) * $s.maxItems < 100000)
        | {edit: "too long", document: ($in | setpath($path; [range($s.maxItems + 1) | $first]))}))
    | .document as $document
    | {at: $part.at, edit, faults: [$document | faults($schema[0]; "")], document: $document};

foreach inputs as $in ({seen: {}};
    .seen as $seen
    | .new = [$in | parts($schema[0]; []) | select(.path != [])
              | .at = (.path | map("/\(.)") | join("")) | .key = "\($in.event) \(.at)"
              | select($seen[.key] | not)]
    | .seen += (.new | map({key, value: true}) | from_entries);
    .new[] as $part | $in | edits($part))
