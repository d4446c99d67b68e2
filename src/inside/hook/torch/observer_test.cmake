# Test the observer inside a real interpreter, with a fake torch made of Python objects. Included by this folder's
# CMakeLists.txt. A sanitizer's runtime would have to be preloaded into Python.
if(GW_SANITIZE)
  return()
endif()
find_program(GW_PYTHON3 NAMES python3)
if(GW_PYTHON3)
  add_library(gw_observer_test MODULE ${CMAKE_CURRENT_LIST_DIR}/observer_python.c ${CMAKE_CURRENT_LIST_DIR}/observer_py.c
                                      ${CMAKE_CURRENT_LIST_DIR}/observer_read.c ${CMAKE_CURRENT_LIST_DIR}/observer_stacks.c
                                      ${CMAKE_CURRENT_LIST_DIR}/observer_raised.c
                                      ${CMAKE_CURRENT_LIST_DIR}/observer_jax.c
                                      ${CMAKE_CURRENT_LIST_DIR}/observer_testlib.c)
  target_include_directories(gw_observer_test PRIVATE ${CMAKE_SOURCE_DIR}/src/base ${CMAKE_SOURCE_DIR}/src/format ${CMAKE_CURRENT_LIST_DIR})
  target_link_libraries(gw_observer_test PRIVATE ${CMAKE_DL_LIBS} pthread)
  target_compile_options(gw_observer_test PRIVATE -Wno-missing-prototypes) # Python calls the functions by their names
  target_link_options(gw_observer_test PRIVATE -Wl,--wrap=dlsym)
  add_test(NAME observer COMMAND ${GW_PYTHON3} -B ${CMAKE_CURRENT_LIST_DIR}/observer_test.py $<TARGET_FILE:gw_observer_test>)
else()
  message(STATUS "python3 not found: the observer's test is not built")
endif()
