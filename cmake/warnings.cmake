# Warnings for all of our code. They are errors only with GW_STRICT (CI), so that a newer compiler does not break a user's build.
add_compile_options(-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla
                    -Wwrite-strings -Wundef -fno-common)
if(GW_STRICT)
  add_compile_options(-Werror)
endif()
# gw_optimise_sanitized(target...): optimise targets that do most of the work in the tests, also in a build for debugging. They are
# very slow under a sanitizer.
function(gw_optimise_sanitized)
  if(GW_SANITIZE OR CMAKE_BUILD_TYPE STREQUAL "Debug")
    foreach(target ${ARGN})
      target_compile_options(${target} PRIVATE -O1)
    endforeach()
  endif()
endfunction()

if(GW_SANITIZE)
  # Undefined behaviour ends the program, so that no test passes with a report.
  add_compile_options(-fsanitize=${GW_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  # Reports need function names and lines, not types and variables. Without those, compiling takes a tenth less time.
  string(REGEX REPLACE "-g$" "-g1" CMAKE_C_FLAGS_DEBUG "${CMAKE_C_FLAGS_DEBUG}")
  add_link_options(-fsanitize=${GW_SANITIZE})
endif()
