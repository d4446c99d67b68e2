# The walk by itself. Built as programs are that give it the least help: optimised, without frame pointers.
foreach(letter a b)
  add_library(gw_unwind_plugin_${letter} MODULE unwind_testplugin.c)
  target_compile_definitions(gw_unwind_plugin_${letter} PRIVATE PLUGIN_NAME=plugin_${letter})
  target_compile_options(gw_unwind_plugin_${letter} PRIVATE -O2 -fno-sanitize=all)
  target_link_options(gw_unwind_plugin_${letter} PRIVATE -fno-sanitize=all -Wl,--build-id=sha1)
endforeach()
find_package(Threads REQUIRED)
gw_add_unit_test(unwind_test unwind_test.c unwind.c trail.c cfi.c modules.c)
if(TARGET unwind_test)
  target_include_directories(unwind_test PRIVATE . ${CMAKE_SOURCE_DIR}/src/base ${CMAKE_SOURCE_DIR}/src/format
                                                 ${CMAKE_SOURCE_DIR}/src/api ${CMAKE_SOURCE_DIR}/src/facade ${CMAKE_BINARY_DIR}/generated)
  target_compile_definitions(unwind_test PRIVATE _GNU_SOURCE PLUGIN_A="$<TARGET_FILE:gw_unwind_plugin_a>"
                                                 PLUGIN_B="$<TARGET_FILE:gw_unwind_plugin_b>")
  target_compile_options(unwind_test PRIVATE -O2 -fomit-frame-pointer -fexceptions -fno-optimize-sibling-calls)
  target_link_libraries(unwind_test PRIVATE ${CMAKE_DL_LIBS} Threads::Threads)
  add_dependencies(unwind_test gw_api_generated gw_unwind_plugin_a gw_unwind_plugin_b)
endif()

gw_add_unit_test(cfi_test ONE_THREAD cfi_test.c cfi.c)
if(TARGET cfi_test)
  target_include_directories(cfi_test PRIVATE .)
  target_compile_definitions(cfi_test PRIVATE _GNU_SOURCE)
endif()
