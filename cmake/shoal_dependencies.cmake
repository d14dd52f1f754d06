# The packages that Shoal builds on, as Debian ships them.
find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(Protobuf REQUIRED)
find_package(gRPC REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(ucx REQUIRED)
# The CMake file of UCX in Debian 13 takes /usr/lib for its prefix: look for its parts ourselves.
find_path(SHOAL_UCX_INCLUDE ucp/api/ucp.h HINTS ${UCX_INCLUDE_DIRS} REQUIRED)
foreach(part ucs uct ucp)
  get_target_property(location ucx::${part} IMPORTED_LOCATION)
  get_filename_component(folder "${location}" DIRECTORY)
  find_library(SHOAL_UCX_${part} ${part} HINTS ${folder} REQUIRED)
  set_target_properties(ucx::${part} PROPERTIES IMPORTED_LOCATION ${SHOAL_UCX_${part}}
                                                INTERFACE_INCLUDE_DIRECTORIES ${SHOAL_UCX_INCLUDE})
endforeach()
if(SHOAL_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
