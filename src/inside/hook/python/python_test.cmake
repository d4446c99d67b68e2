# Test the Python part of the hook inside real interpreters, in builds without a sanitizer. Included by this folder's
# CMakeLists.txt.
if(GW_SANITIZE)
  return()
endif()
set(python_sources python/python_find.c python/python_frames.c python/python_memory.c python/python_code.c core/environment.c)
add_library(gw_python_test MODULE ${python_sources} python/python_testlib.c ${cpython_sources}
                                  ${CMAKE_SOURCE_DIR}/src/image/cpython/python_lines.c)
target_include_directories(gw_python_test PRIVATE ${hook_folders})
target_compile_definitions(gw_python_test PRIVATE _GNU_SOURCE)
# Link like the hook: interpreters may use older C libraries.
target_compile_options(gw_python_test PRIVATE -fvisibility=hidden -include ${CMAKE_SOURCE_DIR}/src/base/gw_glibc.h)
add_dependencies(gw_python_test gw_api_generated)
gw_link_old_glibc(gw_python_test)
gw_add_python_tests(python_frames ${CMAKE_CURRENT_LIST_DIR}/python_test.py $<TARGET_FILE:gw_python_test>)

add_executable(python_embed_test python/python_embed_test.c ${python_sources} ${cpython_sources}
                                 python/python_testlib.c ${CMAKE_SOURCE_DIR}/src/image/cpython/python_lines.c)
get_target_property(folders gw_python_test INCLUDE_DIRECTORIES)
target_include_directories(python_embed_test PRIVATE ${folders})
target_compile_definitions(python_embed_test PRIVATE _GNU_SOURCE)
add_dependencies(python_embed_test gw_api_generated)
target_link_libraries(python_embed_test PRIVATE pthread ${CMAKE_DL_LIBS})
gw_add_python_tests(python_embedded ${CMAKE_CURRENT_LIST_DIR}/python_embed_test.py $<TARGET_FILE:python_embed_test>)
