# A shim such as pyenv's runs a shell before each start of Python, which more than a thousand tests would pay for. Use the
# interpreter that it starts.
find_program(GW_PYTHON3 NAMES python3)
if(GW_PYTHON3)
  execute_process(COMMAND ${GW_PYTHON3} -c "import sys; print(sys.executable)"
                  OUTPUT_VARIABLE interpreter OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(IS_ABSOLUTE "${interpreter}" AND EXISTS "${interpreter}")
    set(GW_PYTHON3 ${interpreter} CACHE FILEPATH "Python 3, for tests and generated documents" FORCE)
  endif()
  set(Python3_EXECUTABLE ${GW_PYTHON3} CACHE FILEPATH "Python 3, for find_package()")
endif()

# gw_add_python_tests(name script arguments...): add one test for every supported version of CPython, run by an interpreter
# of that version. If it is not installed, the test is reported as skipped (tools/pythons.sh installs them).
set(GW_PYTHON_VERSIONS 3.9 3.10 3.11 3.12 3.13 3.14)
function(gw_add_python_tests name)
  if(NOT GW_PYTHON3)
    message(STATUS "python3 not found: ${name} is not tested")
    return()
  endif()
  if(GW_SANITIZE) # the sanitizer's runtime would have to be preloaded into Python
    return()
  endif()
  foreach(version ${GW_PYTHON_VERSIONS})
    add_test(NAME ${name}_${version}
             COMMAND ${GW_PYTHON3} -B ${CMAKE_SOURCE_DIR}/tests/python/with_version.py ${version} ${ARGN})
    set_tests_properties(${name}_${version} PROPERTIES SKIP_RETURN_CODE 77)
  endforeach()
endfunction()
