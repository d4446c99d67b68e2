# Make the JSON Schema of each kind of document that gpuwhy prints, from the tables of the page that describes them.
#
#   awk -v folder=FOLDER -f schemas.awk src/apps/past/past_columns.def docs/json-schema.md
#
# A heading "## `kind`: title" begins a kind, and "### `name`" an object in it. The first cell of a row names one field or
# several, and the second cell is their type; the section "Types" of the page explains it. The build runs this file.

function fail(why) {
    print "json-schema.md: " row ": " why > "/dev/stderr"
    failed = 1
    exit 1
}

function take(pattern) { # take what matches from the start of `rest` into `taken`
    if (!match(rest, "^(" pattern ")"))
        return 0
    taken = substr(rest, 1, RLENGTH)
    rest = substr(rest, RLENGTH + 1)
    return 1
}

# ---- types ----

function type(    values, choices, count) { # take a type from `rest`, and return its schema
    do {
        if (take("\"[^\"]*\""))
            values = values ", " taken
        else {
            choices = choices ", " single_type()
            count++
        }
    } while (rest !~ /^, (otherwise|only)/ && take(", | or "))
    if (values != "") {
        choices = choices ", {\"enum\": [" substr(values, 3) "]}"
        count++
    }
    return count == 1 ? substr(choices, 3) : "{\"anyOf\": [" substr(choices, 3) "]}"
}

function single_type(    word, item, list) {
    if (take("(non-empty list|list|set|map) of ")) {
        word = taken
        item = rest ~ /^"/ ? type() : single_type()
        if (word ~ /^map/)
            return "{\"type\": \"object\", \"additionalProperties\": " item "}"
        word = word ~ /^non/ ? ", \"minItems\": 1" : word ~ /^set/ ? ", \"uniqueItems\": true" : ""
        return "{\"type\": \"array\", \"items\": " item word "}"
    }
    if (take("[0-9]+ to [0-9]+")) {
        split(taken, list, " to ")
        return "{\"type\": \"integer\", \"minimum\": " list[1] ", \"maximum\": " list[2] "}"
    }
    if (take("[0-9]+"))
        return "{\"const\": " taken "}"
    if (take("\\{"))
        return object_in_cell()
    if (!take("[a-z_]+"))
        fail("no type begins at \"" rest "\"")
    word = taken
    for (item = word; item != "" && length(word) - length(item) <= 2; item = substr(item, 1, length(item) - 1))
        if (item in simple || item in named || (kind, item) in rows || item in any) # or its plural: "strings"
            return type_called(item)
    fail("there is no type " word)
}

function type_called(word,    rest_of_row, schema) {
    if (word in simple)
        return simple[word]
    if (!(word in named)) {
        if (!((kind, word) in used))
            object[++objects] = word
        used[kind, word] = 1
        return "{\"$ref\": \"#/$defs/" word "\"}"
    }
    rest_of_row = rest
    rest = named[word]
    schema = type()
    rest = rest_of_row
    return schema
}

# ---- objects ----

function object_schema(fields, required, rules) {
    return "\"type\": \"object\", \"properties\": {" substr(fields, 2) "}, \"required\": [" substr(required, 3) \
           "], \"additionalProperties\": false" (rules == "" ? "" : ", \"allOf\": [" substr(rules, 3) "]")
}

function object_in_cell(    fields, required, names, list, i, schema) { # {a, b: type; c: type}; the brace is taken
    do {
        take("[a-z_, ]+")
        names = split(taken, list, ", ")
        if (!take(": "))
            fail("no colon at \"" rest "\"")
        schema = type()
        for (i = 1; i <= names; i++) {
            fields = fields ", \"" list[i] "\": " schema
            required = required ", \"" list[i] "\""
        }
    } while (take("; "))
    if (!take("}"))
        fail("no brace at \"" rest "\"")
    return "{" object_schema(fields, required) "}"
}

# "A if FIELD is VALUE, otherwise B"; "A, only if FIELD is VALUE": absent otherwise
function condition() {
    if (!take("[a-z_]+ is [^, ]+"))
        fail("no condition at \"" rest "\"")
    split(taken, if_is, " is ")
    return ", {\"if\": {\"properties\": {\"" if_is[1] "\": {\"const\": " if_is[2] "}}}, "
}

function object_of(text,    line, lines, cell, list, names, i, k, schema, other, head, fields, required, rules) {
    lines = split(text, line, "\n")
    for (i = 1; i < lines; i++) {
        row = line[i]
        split(row, cell, "\t")
        names = split(cell[1], list, " ")
        rest = cell[2]
        schema = type()
        head = other = ""
        if (take(" if ")) {
            head = condition()
            take(", otherwise ")
            other = type()
        } else if (take(", only if "))
            head = condition()
        for (k = 1; k <= names; k++) {
            if (head != "")
                rules = rules head (other == "" ? "\"then\": {\"required\": [\"" list[k] "\"]}, \"else\": {\"properties\": {\"" \
                        list[k] "\": false}}}" : "\"then\": {\"properties\": {\"" list[k] "\": " schema \
                        "}}, \"else\": {\"properties\": {\"" list[k] "\": " other "}}}")
            fields = fields ",\n  \"" list[k] "\": " (other == "" ? schema : "{\"anyOf\": [" schema ", " other "]}")
            if (head == "" || other != "")
                required = required ", \"" list[k] "\""
        }
        if (rest != "")
            fail("what does \"" rest "\" mean?")
    }
    return object_schema(fields, required, rules)
}

function write_schema(    file, i, defs) {
    file = folder "/" kind ".schema.json"
    objects = 0
    i = object_of(rows[kind, ""])
    printf "{\"$schema\": \"https://json-schema.org/draft/2020-12/schema\", \"$id\": \"urn:gpuwhy:schema:%s:1\",\n" \
           "\"title\": \"%s\", \"$comment\": \"docs/json-schema.md describes the fields.\",\n%s", kind, title[kind], i > file
    for (i = 1; i <= objects; i++) {
        defs = (kind, object[i]) in rows ? rows[kind, object[i]] : any[object[i]]
        printf("%s\n  \"%s\": {%s}", (i == 1 ? ",\n\"$defs\": {" : ","), object[i], object_of(defs)) > file
    }
    print((objects > 0 ? "}" : "") "}") > file
    close(file)
}

# ---- the page ----

BEGIN {
    simple["string"] = "{\"type\": \"string\"}"
    simple["boolean"] = "{\"type\": \"boolean\"}"
    simple["number"] = "{\"type\": \"number\"}"
    simple["integer"] = "{\"type\": \"integer\"}"
    simple["null"] = "{\"type\": \"null\"}"
    simple["count"] = "{\"type\": \"integer\", \"minimum\": 0}"
    simple["positive"] = "{\"type\": \"integer\", \"minimum\": 1}"
    simple["seconds"] = "{\"type\": \"number\", \"minimum\": 0}"
    simple["cause"] = "{\"type\": \"string\", \"pattern\": \"^[a-z0-9]+(-[a-z0-9]+)*$\"}"
    simple["hash"] = "{\"type\": \"string\", \"pattern\": \"^[0-9a-f]{16}$\"}"
    split("time=seconds;key=hash;kind=\"run\", \"rehearsal\" or \"fit\";status=status;certainty=certainty or null;flag=boolean;" \
          "number=count or null;seconds=seconds or null;words=string or null;text=string or null;" \
          "attempts=list of earlier_attempts", pair, ";")
    for (i in pair) {
        split(pair[i], cell, "=")
        of_column[cell[1]] = cell[2]
    }
}

/^GWI_COLUMN\(/ {
    gsub(/[(),"]/, " ")
    columns = columns $5 "\t" of_column[$2] "\n"
}

/^## / {
    kind = at = ""
    if (split($0, cell, "`") == 3 && sub(/^: /, "", cell[3])) {
        kind = kinds[++count] = cell[2]
        title[kind] = cell[3]
    }
}

/^### `/ {
    split($0, cell, "`")
    at = cell[2]
}

/^\| `/ {
    split($0, cell, / *\| */)
    if (kind == "" && cell[3] ~ /^"/)
        named[substr(cell[2], 2, length(cell[2]) - 2)] = cell[3]
    names = ""
    for (i = split(cell[2], name, "`"); i > 1; i--)
        if (i % 2 == 0)
            names = name[i] " " names
    gsub(/`/, "", cell[3])
    if (kind != "")
        rows[kind, at] = rows[kind, at] names "\t" cell[3] "\n"
}

/^\| all of `/ {
    split($0, cell, "`")
    rows[kind, at] = rows[kind, at] rows[kind, cell[2]]
}

/^\| the columns/ {
    rows[kind, at] = rows[kind, at] columns
}

END {
    for (i in rows) {
        split(i, cell, SUBSEP)
        any[cell[2]] = rows[i]
    }
    for (n = 1; n <= count && !failed; n++) {
        kind = kinds[n]
        write_schema()
    }
}
