# Warnings for everything that is ours. Errors only where asked (CI): a newer compiler must not stop a user.
add_compile_options(-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla
                    -Wwrite-strings -Wundef -fno-common)
if(GW_STRICT)
  add_compile_options(-Werror)
endif()
# gw_optimise_sanitized(target...): what works most in the tests, and would take many times as long under a sanitizer.
function(gw_optimise_sanitized)
  if(GW_SANITIZE)
    foreach(target ${ARGN})
      target_compile_options(${target} PRIVATE -O1)
    endforeach()
  endif()
endfunction()

if(GW_SANITIZE)
  add_compile_options(-fsanitize=${GW_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${GW_SANITIZE})
endif()
