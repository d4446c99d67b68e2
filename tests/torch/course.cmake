# Following PyTorch's allocations, with libraries that replace libc10.so and libc10_cuda.so.
find_package(Threads REQUIRED)
set(c10_dir ${CMAKE_CURRENT_BINARY_DIR}/c10)
foreach(library c10 c10_cuda)
  add_library(fake_${library} SHARED c10/fake_${library}.c)
  target_include_directories(fake_${library} PRIVATE ${CMAKE_SOURCE_DIR}/src/facade)
  target_compile_options(fake_${library} PRIVATE -O2 -fno-sanitize=all)
  target_link_options(fake_${library} PRIVATE -fno-sanitize=all -Wl,-z,lazy)
  set_target_properties(fake_${library} PROPERTIES OUTPUT_NAME ${library} LIBRARY_OUTPUT_DIRECTORY ${c10_dir}
                                                   BUILD_RPATH "$ORIGIN")
endforeach()
target_link_libraries(fake_c10_cuda PRIVATE fake_c10)
add_executable(course_prog c10/course_prog.c)
target_compile_definitions(course_prog PRIVATE _GNU_SOURCE)
target_compile_options(course_prog PRIVATE -O2 -g) # sanitized if the hook is: the runtime must be in the program
target_link_libraries(course_prog PRIVATE ${CMAKE_DL_LIBS} Threads::Threads)
add_dependencies(course_prog fake_c10_cuda gpuwhy-c10 gpuwhy-hook)
add_executable(course_read c10/course_read.c)
target_link_libraries(course_read PRIVATE gw_model)
foreach(part random global alone training threads shared unlocked fork rests calm many long switched_off sites verdicts idle)
  # The number of sites is limited by time, and a sanitizer needs too much time for each.
  if(part STREQUAL sites AND GW_SANITIZE)
    continue()
  endif()
  add_test(NAME torch_course_${part} COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/test_course.py ${part})
  set_tests_properties(torch_course_${part} PROPERTIES TIMEOUT 300 ENVIRONMENT
                       "GPUWHY_BUILD=${CMAKE_BINARY_DIR};GPUWHY_SANITIZE=${GW_SANITIZE};PYTHONDONTWRITEBYTECODE=1")
endforeach()
