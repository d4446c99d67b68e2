# Turn ctest's report into one line per test: "name Passed", "name Skipped" or "name Failed" (every other result).
s/^ *[0-9]+\/[0-9]+ +Test +#[0-9]+: ([^ ]+) \.+/\1 /
t result
d
:result
s/^([^ ]+) +Passed .*/\1 Passed/
t
s/^([^ ]+) +\*+Skipped .*/\1 Skipped/
t
s/^([^ ]+) .*/\1 Failed/
