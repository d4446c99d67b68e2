# Test parts of the rehearsal without the rest of the hook.
set(rehearse_sources ${hook_sources})
list(FILTER rehearse_sources INCLUDE REGEX "^rehearse/")
list(REMOVE_ITEM rehearse_sources rehearse/reads.c) # needs stack walks
gw_add_unit_test(rehearse_rows_test rehearse/rows_test.c core/layers.c core/own_memory.c ${rehearse_sources}
                 ${CMAKE_BINARY_DIR}/generated/gw_hook_rehearsal.c ${CMAKE_BINARY_DIR}/generated/gw_api.c)
if(TARGET rehearse_rows_test)
  target_compile_definitions(rehearse_rows_test PRIVATE _GNU_SOURCE GW_TEST_API="${CMAKE_SOURCE_DIR}/api/driver.api"
                                                        GW_TEST_ABI="${CMAKE_SOURCE_DIR}/src/api/gw_cuda_abi.h")
  target_include_directories(rehearse_rows_test PRIVATE ${hook_folders})
  target_link_libraries(rehearse_rows_test PRIVATE gw_books ${CMAKE_DL_LIBS})
  add_dependencies(rehearse_rows_test gw_api_generated)
endif()
gw_add_unit_test(rehearse_steady_test rehearse/steady_test.c rehearse/steady.c)
if(TARGET rehearse_steady_test)
  target_compile_definitions(rehearse_steady_test PRIVATE _GNU_SOURCE)
  target_include_directories(rehearse_steady_test PRIVATE ${hook_folders})
  add_dependencies(rehearse_steady_test gw_api_generated)
endif()
