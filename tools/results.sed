# From ctest's own report, a line a test: "name Passed", "name Skipped" or "name Failed" (whatever else it says).
s/^ *[0-9]+\/[0-9]+ +Test +#[0-9]+: ([^ ]+) \.+/\1 /
t result
d
:result
s/^([^ ]+) +Passed .*/\1 Passed/
t
s/^([^ ]+) +\*+Skipped .*/\1 Skipped/
t
s/^([^ ]+) .*/\1 Failed/
