# List the parts of passed tests that did not run, from the log in which ctest keeps all output: "TEST: PART (REASON)",
# one a line. In cmocka's output a part is a case, and the message before its SKIPPED line is the reason. Other tests
# print "skipped: PART: REASON".
/^[0-9]+\/[0-9]+ Testing: / { test = $3; count = cases = 0; reason = ""; delete seen }
/^skipped: / { reason = substr($0, 10); said[++count] = reason }
/^\[  SKIPPED \] [^ ]+$/ {
    if (!($4 in seen)) {
        seen[$4] = 1
        part[++cases] = $4 " (" (reason == "" ? "no reason given" : reason) ")"
    }
}
/^Test Passed\.$/ {
    for (i = 1; i <= cases; i++)
        print test ": " part[i]
    for (i = 1; i <= count && cases == 0; i++)
        print test ": " said[i]
}
