# find_package(gpuwhy): an installed gpuwhy, for programs that are built or tested with it. The installed tree may be moved.
#   gpuwhy::headers   gpuwhy.h and gpuwhy/: the kernel model of the virtual card; the driver's types, results and prototypes
#   gpuwhy::virtual   the virtual card's libcuda.so.1
#   gpuwhy_PREFIX     the installed tree: bin/gpuwhy, lib/gpuwhy
#   gpuwhy_EXAMPLES   the sources of the examples
get_filename_component(gpuwhy_PREFIX ${CMAKE_CURRENT_LIST_DIR}/../../.. REALPATH)
set(gpuwhy_EXAMPLES ${gpuwhy_PREFIX}/share/doc/gpuwhy/examples)
if(NOT TARGET gpuwhy::headers)
  add_library(gpuwhy::headers INTERFACE IMPORTED)
  set_target_properties(gpuwhy::headers PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${gpuwhy_PREFIX}/include)
  add_library(gpuwhy::virtual SHARED IMPORTED)
  set_target_properties(gpuwhy::virtual PROPERTIES IMPORTED_LOCATION ${gpuwhy_PREFIX}/lib/gpuwhy/virtual/libcuda.so.1
                                                   IMPORTED_SONAME libcuda.so.1)
endif()
