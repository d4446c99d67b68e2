# What gpuwhy and the products beside it have in common: the language, warnings, sanitizers, the interpreter of Python,
# optional libraries and unit tests. Include this file after project().
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

option(GW_STRICT "Warnings are errors" OFF)
set(GW_SANITIZE "" CACHE STRING "address,undefined or thread")

include(GNUInstallDirs)
include(${CMAKE_CURRENT_LIST_DIR}/warnings.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/pythons.cmake)
enable_testing()

# gw_find(NAME header library): look for an optional library, and set GW_<NAME>_INCLUDE, GW_<NAME>_LIBRARY and
# GW_HAVE_<NAME>. Without a message at the end, a feature consists of several libraries.
# gw_find(NAME header library "what is missing"): the same, and print the message if there is none.
function(gw_find name header library)
  find_path(GW_${name}_INCLUDE ${header})
  find_library(GW_${name}_LIBRARY ${library})
  set(have OFF)
  if(GW_${name}_INCLUDE AND GW_${name}_LIBRARY)
    set(have ON)
  elseif(ARGC GREATER 3)
    message(STATUS "${ARGV3}")
  endif()
  set(GW_HAVE_${name} ${have} PARENT_SCOPE)
endfunction()
gw_find(CMOCKA cmocka.h cmocka "cmocka not found: unit tests are not built")

# ThreadSanitizer finds nothing in programs with one thread and is slow, so its build leaves their tests out.
if(GW_SANITIZE STREQUAL "thread")
  set(GW_ONE_THREAD_TESTS OFF)
else()
  set(GW_ONE_THREAD_TESTS ON)
endif()

# Programs of tests are linked by the fastest linker here: in a build of all tests, linking takes a quarter of the time.
set(GW_TEST_LINKER)
foreach(linker lld gold)
  find_program(GW_LD_${linker} ld.${linker})
  if(GW_LD_${linker} AND NOT GW_TEST_LINKER AND CMAKE_C_COMPILER_ID STREQUAL "GNU" AND NOT CMAKE_CROSSCOMPILING)
    set(GW_TEST_LINKER -fuse-ld=${linker})
  endif()
endforeach()

# gw_add_unit_test(name [ONE_THREAD] sources... [LIBRARIES ours...]): one cmocka program, run by ctest under its name.
# ONE_THREAD: the tested code starts no threads. A build that will run only some tests compiles no other ones (GW_TESTS).
set(GW_TESTS "" CACHE STRING "Build only the unit tests whose names match this regular expression; empty: all")
set(GW_UNIT_TEST_INCLUDE ${CMAKE_CURRENT_LIST_DIR}/../src/base/testing)
function(gw_add_unit_test name)
  cmake_parse_arguments(test "ONE_THREAD" "" "LIBRARIES" ${ARGN})
  if(NOT GW_HAVE_CMOCKA OR (test_ONE_THREAD AND NOT GW_ONE_THREAD_TESTS) OR (GW_TESTS AND NOT name MATCHES "${GW_TESTS}"))
    return()
  endif()
  add_executable(${name} ${test_UNPARSED_ARGUMENTS})
  target_include_directories(${name} PRIVATE ${GW_CMOCKA_INCLUDE} ${GW_UNIT_TEST_INCLUDE})
  target_link_libraries(${name} PRIVATE ${GW_CMOCKA_LIBRARY} ${test_LIBRARIES})
  # cmocka passes a state to every test, and most tests do not need it.
  target_compile_options(${name} PRIVATE -Wno-unused-parameter)
  target_link_options(${name} PRIVATE ${GW_TEST_LINKER})
  add_test(NAME ${name} COMMAND ${name})
endfunction()
