# The initial cache of a build that runs on any distribution for x86-64: `cmake -C packaging/portable.cmake`.
#
# GW_GLIBC in the environment names the folder of the libraries that packaging/glibc/stubs.py made. All other libraries are
# linked statically. No file contains the path of the source or build folder, so two builds are equal.
get_filename_component(source ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)
set(glibc $ENV{GW_GLIBC})
if(NOT EXISTS "${glibc}/libc.so.6")
  message(FATAL_ERROR "GW_GLIBC is not a folder with libc.so.6: tools/packages.sh sets it")
endif()

set(CMAKE_BUILD_TYPE Release CACHE STRING "")
# Otherwise the installation overwrites the longer path of the build folder, and the rest of the place stays.
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON CACHE BOOL "")
set(CMAKE_C_FLAGS "-ffile-prefix-map=${source}/= -ffile-prefix-map=${CMAKE_BINARY_DIR}=." CACHE STRING "")
# Before glibc 2.34, threads and dlopen() are in separate libraries. The program must name them, or an old loader does not
# load them. The linker itself does not need them, because the stub of the C library has their functions, too.
string(CONCAT flags "-L${glibc} -Wl,-rpath-link,${glibc} "
                    "-Wl,--push-state,--no-as-needed ${glibc}/libpthread.so.0 ${glibc}/libdl.so.2 -Wl,--pop-state")
set(CMAKE_SHARED_LINKER_FLAGS "${flags}" CACHE STRING "")
set(CMAKE_EXE_LINKER_FLAGS "${flags} -static-libgcc -Wl,--gc-sections -Wl,--wrap=__libc_start_main" CACHE STRING "")

find_program(GW_CC NAMES $ENV{CC} cc)
# gw_archive(variable name...): the paths of static libraries.
function(gw_archive variable)
  set(found)
  foreach(name ${ARGN})
    execute_process(COMMAND ${GW_CC} -print-file-name=lib${name}.a OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(NOT IS_ABSOLUTE "${path}")
      message(FATAL_ERROR "no static library lib${name}.a: tools/need.sh packages")
    endif()
    list(APPEND found ${path})
  endforeach()
  set(${variable} "${found}" CACHE STRING "")
endfunction()
gw_archive(GW_JSONC_LIBRARY json-c)
gw_archive(GW_ZSTD_LIBRARY zstd)
gw_archive(GW_ELF_LIBRARY elf z)
gw_archive(GW_DW_LIBRARY dw elf z lzma bz2)
gw_archive(GW_ZLIB_LIBRARY z)
gw_archive(GW_LZMA_LIBRARY lzma)
gw_archive(GW_HS_LIBRARY hs stdc++)
gw_archive(GW_PCRE2_LIBRARY pcre2-8)
gw_archive(GW_CURSES_LIBRARY ncursesw)
gw_archive(GW_TINFO_LIBRARY tinfo)
gw_archive(GW_SQLITE_LIBRARY sqlite3)
gw_archive(GW_UNISTRING_LIBRARY unistring)
# Not part of what is installed. The plugin for Slurm must be built with the header of the site's Slurm.
foreach(name CMOCKA SLURM)
  set(GW_${name}_INCLUDE OFF CACHE STRING "")
  set(GW_${name}_LIBRARY OFF CACHE STRING "")
endforeach()
