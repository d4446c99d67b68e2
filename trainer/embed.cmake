# cmake "-DFROM=file;file..." -DTO=header -DNAME=name -P embed.cmake: write text files, one after the other, as an array of
# char with a terminating 0.
set(bytes "")
foreach(file ${FROM})
  file(READ ${file} part HEX)
  string(APPEND bytes ${part})
endforeach()
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${TO} "static const char ${NAME}[] = {\n${bytes}0};\n")
