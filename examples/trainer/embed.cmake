# cmake -DFROM=file -DTO=header -DNAME=name -P embed.cmake: write a text file as an array of char with a terminating 0.
file(READ ${FROM} bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${TO} "static const char ${NAME}[] = {\n${bytes}0};\n")
